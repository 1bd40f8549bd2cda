//! Repetitions of an enqueue: recognised by the client's own job id or by `Idempotency-Key`, never by what a body looks like,
//! because two equal jobs are two jobs. What is known is the answer; nothing is sent to be stored again.
//!
//! SDKs repeat a POST on 429, 502, 503 and 504, one of them on a reset with the same id. Spec: ojs-protocol 5.1.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::Proxy;
use super::attempt::RegionAnswer;
use super::enqueue::{Head, Ran};
use super::exchange::Exchange;
use super::hops;
use super::known::{Caller, Known};
use super::locate::IDENTIFYING;
use super::running::{End, Joined, Name, Turn};
use crate::base::RegionId;
use crate::ojs::ErrorDocument;
use crate::ojs::answer::job_id_of;
use crate::ojs::header::{FEDERATION_REPLAYED, IDEMPOTENCY_KEY};
use crate::store::{Digest, ID_BYTES_MAX, Keyed};
use crate::telemetry::ReplayBy;

/// A longer key is refused; a UUID has 36 bytes.
const KEY_BYTES_MAX: usize = 255;

/// Whether an enqueue was there before.
pub(super) enum Recognised {
    /// It was; this is its answer, and the region that gave it.
    Answer(RegionAnswer, Option<RegionId>),
    /// It was not, as far as anybody knows; the others like it wait until the turn is ended.
    New(Option<Turns>),
}

/// The right to send an enqueue that others may repeat meanwhile.
#[derive(Debug)]
pub(super) struct Turns {
    turns: Vec<Turn>,
    keyed: Option<Keyed>,
}

/// What names an enqueue.
struct Names<'r> {
    job_id: Option<&'r str>,
    /// The fingerprint of that id.
    job: Option<Digest>,
    /// Fingerprints of the key and of the body.
    keyed: Option<(Digest, Digest)>,
    /// How many sidecars the call has passed, this one included.
    hops: u16,
}

/// Looks whether this enqueue was there before. `own_id` is the id that the client gave its job, `sent_id` the one that it will be
/// sent with.
///
/// Errors: 400 for a key that is none, 409 for a key that came with another body, 508 for an enqueue that has come back, 500
/// `outcome_unknown` for one whose first time nobody knows the outcome of.
pub(super) async fn recognise(
    proxy: &Proxy,
    exchange: &Exchange,
    head: &Head,
    body: &[u8],
    ids: Ids<'_>,
) -> Result<Recognised, ErrorDocument> {
    let job = ids.own.map(|id| of_tenant(&head.headers, id.as_bytes()));
    let keyed = fingerprints(proxy, &head.headers, body)?;
    let names = Names { job_id: ids.own, job, keyed, hops: hops::counted(&head.headers) };
    if names.job_id.is_none() && names.keyed.is_none() {
        return Ok(Recognised::New(None));
    }
    let turns = match wait(proxy, &names, head.deadline).await? {
        Waited::Answer(by, answer, region) => return Ok(replayed(proxy, by, answer, region)),
        Waited::Turns(turns) => turns,
    };
    if let Some((by, known)) = look_up(proxy, exchange, head, &names).await? {
        return Ok(replayed(proxy, by, known.answer, known.region));
    }
    let mut new = Turns { turns, keyed: None };
    if let Some((key, body)) = names.keyed {
        let job_id = ids.sent.filter(|id| id.len() <= ID_BYTES_MAX).map(str::to_owned);
        let at_ms = proxy.shared.registry.clock().unix_ms();
        let keyed = Keyed { key, body, at_ms, job_id, region: None, status: 0 };
        proxy.shared.store.begin_key(keyed.clone()).await;
        new.keyed = Some(keyed);
    }
    Ok(Recognised::New(Some(new)))
}

/// The ids of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids<'r> {
    /// The client's.
    pub(super) own: Option<&'r str>,
    /// The one that it is sent with.
    pub(super) sent: Option<&'r str>,
}

enum Waited {
    Answer(ReplayBy, RegionAnswer, Option<RegionId>),
    Turns(Vec<Turn>),
}

/// Waits for others with one of these names, until one has an answer or all turns are ours.
async fn wait(proxy: &Proxy, names: &Names<'_>, deadline: Instant) -> Result<Waited, ErrorDocument> {
    let mut turns = Vec::new();
    let key = names.keyed.map(|(key, _)| (Name::Key(key), ReplayBy::Key));
    let id = names.job.map(|job| (Name::Job(job), ReplayBy::JobId));
    // Always in this order, so that two calls cannot wait for each other.
    for (name, by) in key.into_iter().chain(id) {
        let body = names.keyed.map(|(_, body)| body).filter(|_| by == ReplayBy::Key);
        loop {
            match proxy.shared.running.join(name.clone(), body, names.hops) {
                Joined::Turn(turn) => {
                    turns.push(turn);
                    break;
                }
                Joined::Circle => return Err(ErrorDocument::too_many_hops(names.hops.saturating_sub(1))),
                Joined::OtherBody => return Err(ErrorDocument::idempotency_key_reused()),
                Joined::Wait(end) => match timeout_at(deadline, end.wait()).await {
                    Ok(End::Answered(answer, region)) => {
                        return Ok(Waited::Answer(by, RegionAnswer::clone(&answer), region));
                    }
                    Ok(End::Unknown(document)) => return Err(ErrorDocument::clone(&document)),
                    Ok(End::Nothing) => {}
                    Err(_) => return Err(ErrorDocument::outcome_unknown("", names.job_id)),
                },
            }
        }
    }
    Ok(Waited::Turns(turns))
}

/// What the journal knows.
async fn look_up(
    proxy: &Proxy,
    exchange: &Exchange,
    head: &Head,
    names: &Names<'_>,
) -> Result<Option<(ReplayBy, Known)>, ErrorDocument> {
    let store = &proxy.shared.store;
    let caller = Caller { proxy, exchange, head };
    if let Some((key, body)) = names.keyed
        && let Some(keyed) = store.keyed(&key).filter(|it| is_remembered(proxy, it))
    {
        if keyed.body != body {
            return Err(ErrorDocument::idempotency_key_reused());
        }
        if let Some(known) = caller.keyed(&keyed).await? {
            return Ok(Some((ReplayBy::Key, known)));
        }
    }
    if let Some(unknown) = names.job_id.and_then(|id| store.unknown_of(id))
        && let Some(known) = caller.unknown(unknown).await?
    {
        return Ok(Some((ReplayBy::JobId, known)));
    }
    Ok(None)
}

fn is_remembered(proxy: &Proxy, keyed: &Keyed) -> bool {
    let ttl = u64::try_from(proxy.shared.config.idempotency.ttl.as_millis()).unwrap_or(u64::MAX);
    keyed.at_ms.saturating_add(ttl) > proxy.shared.registry.clock().unix_ms()
}

fn replayed(proxy: &Proxy, by: ReplayBy, mut answer: RegionAnswer, region: Option<RegionId>) -> Recognised {
    proxy.shared.metrics.replays[by].inc();
    answer.headers.insert(FEDERATION_REPLAYED, HeaderValue::from_static("true"));
    Recognised::Answer(answer, region)
}

/// The fingerprints of an `Idempotency-Key` and of the body that it came with.
fn fingerprints(proxy: &Proxy, headers: &HeaderMap, body: &[u8]) -> Result<Option<(Digest, Digest)>, ErrorDocument> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next().filter(|_| proxy.shared.config.idempotency.enabled) else { return Ok(None) };
    if keys.next().is_some() || !(1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Err(ErrorDocument::idempotency_key_invalid());
    }
    Ok(Some((of_tenant(headers, key.as_bytes()), digest(&[body]))))
}

/// The fingerprint of a name, which belongs to its tenant. Credentials change while a call is repeated; whether they suffice, the
/// region judges.
fn of_tenant(headers: &HeaderMap, name: &[u8]) -> Digest {
    let [_, tenants @ ..] = &IDENTIFYING;
    let values = |name: &HeaderName| headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect();
    let tenants: Vec<Vec<Vec<u8>>> = tenants.iter().map(values).collect();
    digest(&[name, b"\n", format!("{tenants:?}").as_bytes()])
}

fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

impl Turns {
    /// Whether the job must keep the id that it is sent with, wherever it goes: it is what its key is remembered by.
    pub(super) const fn keeps_id(&self) -> bool {
        self.keyed.is_some()
    }

    /// The call is over: tells those who wait, and remembers or forgets the key.
    pub(super) fn end(self, proxy: &Proxy, ran: &Ran) {
        let store = &proxy.shared.store;
        let end = match &ran.result {
            Ok(answer) if answer.status.is_success() => End::Answered(Arc::new(answer.clone()), ran.region.clone()),
            Err(document) if document.reason() == "outcome_unknown" => End::Unknown(Arc::new(document.clone())),
            _ => End::Nothing,
        };
        if let Some(keyed) = self.keyed {
            match (&end, &ran.result) {
                (End::Answered(..), Ok(answer)) => {
                    let job_id = job_id_of(&answer.body).filter(|id| id.len() <= ID_BYTES_MAX).or(keyed.job_id.clone());
                    store.end_key(Keyed {
                        region: ran.region.clone(),
                        status: answer.status.as_u16(),
                        job_id,
                        ..keyed
                    });
                }
                (End::Nothing, _) => store.forget_key(&keyed.key),
                _ => {}
            }
        }
        self.turns.into_iter().for_each(|turn| turn.end(end.clone()));
    }
}

/// An answer about a job of which nobody can show more than its id.
pub(super) fn bare(status: StatusCode, id: &str) -> RegionAnswer {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(crate::ojs::header::MEDIA_TYPE));
    let body = serde_json::json!({ "job": { "id": id } }).to_string();
    RegionAnswer { status, headers, body: body.into() }
}
