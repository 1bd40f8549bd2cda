//! New jobs of a type that a breaker has stopped: a later time, the permission of a half-open breaker, or a refusal.

use crate::base::text::rfc3339;
use crate::ojs::{Due, Envelope, ErrorDocument};
use crate::policy::TENANT_KEY;
use crate::proxy::state::Proxy;
use crate::region::{Held, Probe};

/// The fate of a new job by the breakers.
pub(super) enum Stopped {
    /// Its type is not stopped for its tenant.
    No,
    /// It waits for longer than the breaker by its own time, or that of its token.
    Waits,
    /// It goes by a permission.
    Probe(Probe),
    /// It is delayed to a time, RFC 3339; and the places for it.
    Delayed(String, Due),
    /// It cannot be delayed.
    Refused(ErrorDocument),
}

/// Looks a job up. `may_delay`: whether its body may get another time; `token_ms`: the time of its token, where that is a later one.
///
/// Errors: 400 where servers could read another tenant or type.
pub(super) fn held(
    proxy: &Proxy,
    envelope: &Envelope<'_>,
    may_delay: bool,
    token_ms: Option<u64>,
) -> Result<Stopped, ErrorDocument> {
    if envelope.unclear().job_type {
        return Err(ErrorDocument::unclear_member("type"));
    }
    let breakers = &proxy.shared.breakers;
    let Some(job_type) = envelope.job_type().filter(|job_type| breakers.has_type(job_type)) else {
        return Ok(Stopped::No);
    };
    let said = envelope.meta_text(TENANT_KEY);
    if said.unclear {
        return Err(ErrorDocument::unclear_member(&format!("meta.{TENANT_KEY}")));
    }
    // As the ledger reads it, by which the hub counts.
    let tenant = said.text.as_deref().or(envelope.caller_tenant()).filter(|tenant| !tenant.is_empty());
    let (now_ms, due) = (proxy.shared.registry.clock().unix_ms(), Due::of(envelope));
    let own_ms = due.own_ms.max(token_ms);
    // A body that may not change goes whole or not at all: its hub would not learn which job went.
    let is_for_now = may_delay && !due.unclear && own_ms.is_none_or(|own_ms| own_ms <= now_ms);
    let until_ms = match breakers.hold((job_type, tenant), envelope.queue(), is_for_now, now_ms) {
        Held::No => return Ok(Stopped::No),
        Held::Probe(probe) => return Ok(Stopped::Probe(probe)),
        Held::Until(until_ms) => until_ms,
    };
    if !due.unclear && own_ms.is_some_and(|own_ms| own_ms >= until_ms) {
        return Ok(Stopped::Waits);
    }
    if may_delay && !due.unclear {
        proxy.shared.metrics.breaker_delayed.inc();
        return Ok(Stopped::Delayed(rfc3339(until_ms), due));
    }
    let wait = until_ms.saturating_sub(now_ms).div_ceil(1_000).max(1);
    Ok(Stopped::Refused(ErrorDocument::type_stopped(job_type, tenant, wait)))
}
