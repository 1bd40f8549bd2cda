//! `Idempotency-Key`s of the whole fleet: the claim of a sidecar that sends a job under one, and its end.
//!
//! A key that was claimed stays so until its claim ends or its time is over, whatever becomes of its sidecar: the job may have been sent.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::access::Caller;
use super::record::{ClaimedKey, KEYS_MAX, KnownKey, RecordError, SavedKey};
use super::response::Refusal;
use super::sidecar_request::read;
use super::state::Hub;
use crate::base::RegionId;
use crate::fleet::{KeyClaimed, KeyRequest, KeySettled};
use crate::journal::Claimed;
use crate::outcome::{Place, Verdict};

/// For the record to decide; as long as a call of a sidecar waits.
const RECORD_WAIT: Duration = Duration::from_secs(2);

/// Claims a key for a call of a sidecar; the claim is durable when this returns.
///
/// Errors: the key may have been claimed; the sidecar repeats the claim or releases it.
pub(super) async fn claim(hub: &Rc<Hub>, caller: &Caller, body: &[u8]) -> Result<Value, Refusal> {
    let request: KeyRequest = read(hub, caller, body)?;
    if request.verdict.is_some() {
        return Err(Refusal::bad_request("`verdict`: a claim has none; send it to /v1/hub/keys/settle".to_owned()));
    }
    make_sure_of_room(hub, &request).await?;
    let (saved, it) = (saved(hub, &request), Rc::clone(hub));
    let claimed = match in_time(hub, async move { it.record.claim_key(saved).await }).await? {
        ClaimedKey::Taken => {
            hub.keys.set(hub.keys.get() + 1);
            KeyClaimed::Decided(Claimed::Taken)
        }
        ClaimedKey::Late { now_unix_ms } => KeyClaimed::Late { now_unix_ms },
        ClaimedKey::Known(known) => KeyClaimed::Decided(held(&request, known)?),
    };
    Ok(json!(claimed))
}

/// Takes the end of a key, which is durable when this returns.
///
/// Errors: it may have been taken; the sidecar sends it again.
pub(super) async fn settle(hub: &Rc<Hub>, caller: &Caller, body: &[u8]) -> Result<Value, Refusal> {
    let request: KeyRequest = read(hub, caller, body)?;
    make_sure_of_room(hub, &request).await?;
    let (saved, it) = (saved(hub, &request), Rc::clone(hub));
    let settled = match request.verdict {
        None => return Err(Refusal::bad_request("`verdict`: expected `stored` or `absent`".to_owned())),
        Some(Verdict::Stored { place, status }) => {
            let stored = (u64::from(status), place.region.to_string(), place.job_id);
            in_time(hub, async move { it.record.settle_key(saved, stored).await }).await?
        }
        Some(Verdict::Absent) => {
            in_time(hub, async move { it.record.release_key(saved).await }).await?;
            true
        }
    };
    Ok(json!(KeySettled { settled }))
}

fn saved(hub: &Hub, request: &KeyRequest) -> SavedKey {
    SavedKey {
        key: request.key.clone(),
        body: request.body.clone(),
        token: request.token.clone(),
        attempt: request.attempt,
        sidecar: request.sidecar.clone(),
        started_unix_ms: request.started_unix_ms,
        ttl_ms: request.ttl_ms,
        sent_unix_ms: request.sent_unix_ms,
        now_unix_ms: hub.clock.unix_ms(),
    }
}

/// Whether the record has a row for the key, or room for one.
///
/// Errors: [`RecordError::KeysFull`], or the record does not answer.
async fn make_sure_of_room(hub: &Rc<Hub>, request: &KeyRequest) -> Result<(), Refusal> {
    if hub.keys.get() < KEYS_MAX {
        return Ok(());
    }
    let (it, key) = (Rc::clone(hub), request.key.clone());
    let has_row = in_time(hub, async move { it.record.has_key(key).await }).await?;
    if has_row { Ok(()) } else { Err(RecordError::KeysFull.into()) }
}

/// The decision of the record, where it comes in time. The request to the record goes on to its own end, so that a connection that does not
/// answer is given up and another server is reached, however short calls wait.
pub(super) async fn in_time<T: 'static>(
    hub: &Hub,
    decided: impl Future<Output = Result<T, RecordError>> + 'static,
) -> Result<T, Refusal> {
    let decided = async {
        // The semaphore is never closed.
        let place = Arc::clone(&hub.key_places).acquire_owned().await.map_err(|_| RecordError::Busy)?;
        let task = tokio::task::spawn_local(async move {
            let _place = place;
            decided.await
        });
        task.await.map_err(|_| RecordError::Ended)?
    };
    Ok(tokio::time::timeout(RECORD_WAIT, decided).await.map_err(|_| RecordError::Slow)??)
}

/// The key as another claim has it. A claim with another body gets no place of a job: a key alone may be guessed.
fn held(request: &KeyRequest, known: KnownKey) -> Result<Claimed, Refusal> {
    if known.body.is_some_and(|body| body != request.body) {
        return Ok(Claimed::OtherBody);
    }
    let Some((status, region, job_id)) = known.stored else {
        return Ok(Claimed::Held { age_ms: known.age_ms });
    };
    let unreadable =
        || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the key cannot be read".to_owned());
    let region = RegionId::parse(&region).map_err(|_| unreadable())?;
    let status = u16::try_from(status).map_err(|_| unreadable())?;
    Ok(Claimed::Stored { place: Place { region, job_id }, status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_job_is_shown_only_to_claims_with_its_body() {
        let request = |body: &str| KeyRequest {
            sidecar: "one".to_owned(),
            started_unix_ms: 1,
            key: "k".to_owned(),
            body: body.to_owned(),
            token: "t".to_owned(),
            attempt: 1,
            ttl_ms: 1,
            sent_unix_ms: 1,
            verdict: None,
        };
        let known = || KnownKey {
            body: Some("right".to_owned()),
            age_ms: 1,
            stored: Some((201, "us-east-1".to_owned(), "j".to_owned())),
        };
        let shown = |body| json!(held(&request(body), known()).unwrap_or_else(|_| unreachable!()));
        assert_eq!(shown("guessed"), json!({ "claim": "other_body" }));
        let place = json!({ "region": "us-east-1", "job_id": "j" });
        assert_eq!(shown("right"), json!({ "claim": "stored", "place": place, "status": 201 }));
    }
}
