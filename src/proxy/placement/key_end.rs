//! An `Idempotency-Key` that all sidecars of a hub know: its end, once the client's answer is decided.

use std::time::Duration;

use tokio::time::Instant;

use crate::journal::{Asked, Hold, KeyAnswer, KeyQuestion};
use crate::outcome::{Event, Placement, Told, Verdict};
use crate::proxy::state::Proxy;
use crate::telemetry::event;

/// How long an answer waits until the hub has the end of its key; later the background sends it.
const SETTLE_WAIT: Duration = Duration::from_secs(1);

/// The question about the key of a placement; `None` where it has none.
pub(super) fn question(proxy: &Proxy, placement: &Placement, verdict: Option<Verdict>) -> Option<KeyQuestion> {
    let (key, claim) = (placement.identity.key?, **placement.key_claim.as_ref()?);
    Some(KeyQuestion { key, body: placement.identity.body, claim, ttl: proxy.shared.config.idempotency.ttl, verdict })
}

/// Sends the end of a key to the hub, as far as this answer to the client decides it, and waits until the hub has it, for a bounded time.
pub(super) async fn settle(proxy: &Proxy, hold: &mut Hold, told: &Told) {
    hold.apply(Event::Told(told.clone()));
    let Some(verdict) = hold.placement().unsettled() else { return };
    let Some(question) = question(proxy, hold.placement(), Some(verdict)) else { return };
    let answer = proxy.shared.journal.keys().ask(&question, Instant::now() + SETTLE_WAIT).await;
    let Asked::Answered(KeyAnswer::Settled(is_ours)) = answer else { return };
    if let Some(claim) = &mut hold.placement_mut().key_claim {
        claim.is_settled = true;
    }
    if !is_ours {
        event::hub_key_doubled(&proxy.shared.metrics, hold.placement().stored().map(|place| place.job_id.as_str()));
    }
}
