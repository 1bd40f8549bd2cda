//! The quota of a new job: a token for it, a later time, or its refusal.

use http::StatusCode;

use super::stopped::{Stopped, held};
use crate::base::text::rfc3339;
use crate::ojs::{Due, Envelope, ErrorDocument};
use crate::policy::TENANT_KEY;
use crate::proxy::state::{Proxy, Ran};
use crate::region::{NoToken, Probe, TakenToken};

/// A job's part in a quota.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// Its token; none where it is refused.
    pub(crate) token: Option<TakenToken>,
    /// The time that it is delayed to, RFC 3339, and the places for it; none where its own time stays.
    pub(crate) due: Option<(String, Due)>,
    /// Why it is refused, unless an earlier call has its answer.
    pub(crate) refusal: Option<ErrorDocument>,
    /// The permission of a half-open breaker that it goes by.
    pub(crate) probe: Option<Probe>,
}

impl Admitted {
    /// For the stamp.
    pub(crate) fn due(&self) -> Option<(&str, &Due)> {
        self.due.as_ref().map(|(at, due)| (at.as_str(), due))
    }

    /// Whether the job is delayed: the client's own time is not in the body that is sent.
    pub(crate) const fn is_delayed(&self) -> bool {
        self.due.is_some()
    }

    /// Errors: 429 where the job has no token.
    pub(crate) fn check(&mut self) -> Result<(), ErrorDocument> {
        self.refusal.take().map_or(Ok(()), Err)
    }

    /// The job is on its way to a region.
    pub(crate) fn sent(&self) {
        self.token.iter().for_each(TakenToken::sent);
        self.probe.iter().for_each(Probe::sent);
    }

    /// Whether the job may go to a region now.
    pub(crate) fn is_for_now(&self) -> bool {
        self.refusal.is_none() && self.due.is_none() && self.token.as_ref().is_none_or(|token| token.due_ms().is_none())
    }

    /// Gives the token back of a job that is stored nowhere, or that the outage spool holds: it takes another one when it is sent.
    pub(crate) fn ended(&self, ran: &Ran) {
        if !may_be_stored(ran) || (is_held(ran) && self.is_for_now()) {
            self.token.iter().for_each(TakenToken::give_back);
            self.probe.iter().for_each(Probe::give_back);
        }
    }
}

/// Whether a call may have stored its job.
pub(crate) fn may_be_stored(ran: &Ran) -> bool {
    match &ran.result {
        // Such a region may have stored it before it failed, unless it takes none now.
        Ok(answer) => answer.status.is_success() || (answer.status.is_server_error() && answer.status.as_u16() != 503),
        Err(document) => document.is_outcome_unknown(),
    }
}

/// Whether the outage spool has accepted a job that went to no region.
fn is_held(ran: &Ran) -> bool {
    let is_accepted = ran.result.as_ref().is_ok_and(|answer| answer.status == StatusCode::ACCEPTED);
    is_accepted && ran.region.is_none() && ran.stored.is_none() && ran.attempts == 0
}

/// Whether a spooled job finds a token for now. One that finds none counts as a job that lacks one, so that the hub is asked.
pub(crate) fn has_token(proxy: &Proxy, body: &[u8], tenant: Option<&str>) -> bool {
    if !proxy.shared.quotas.is_on() && !proxy.shared.breakers.is_on() {
        return true;
    }
    // The plan refuses a body that cannot be read.
    let Ok(mut envelope) = Envelope::read(body, proxy.shared.config.limits.json_depth) else { return true };
    envelope.set_caller_tenant(tenant);
    let taken = admit_whole(proxy, std::iter::once(&envelope));
    !taken.is_err_and(|document| document.status == StatusCode::TOO_MANY_REQUESTS)
}

/// Takes a token for a job; none where no quota counts it. `may_delay`: whether its body may get another time.
///
/// Errors: 400 where servers could read another tenant or type.
#[inline]
pub(crate) fn admit(
    proxy: &Proxy,
    envelope: &Envelope<'_>,
    may_delay: bool,
) -> Result<Option<Box<Admitted>>, ErrorDocument> {
    let quota = if proxy.shared.quotas.is_on() { counted(proxy, envelope, may_delay)? } else { None };
    if proxy.shared.breakers.is_on() { unless_stopped(proxy, envelope, may_delay, quota) } else { Ok(quota) }
}

// Never inlined: most sidecars have no quotas, and their calls do not carry its weight.
#[cold]
#[inline(never)]
fn counted(proxy: &Proxy, envelope: &Envelope<'_>, may_delay: bool) -> Result<Option<Box<Admitted>>, ErrorDocument> {
    let quotas = &proxy.shared.quotas;
    let said = envelope.meta_text(TENANT_KEY);
    let own = said.text.as_deref().filter(|tenant| !tenant.is_empty());
    let source = (own.or(envelope.caller_tenant()), envelope.job_type());
    let now = proxy.shared.registry.clock().now();
    let taken = quotas.take(source, may_delay, now);
    let Some(taken) = taken.transpose() else { return Ok(None) };
    // A quota for all would count it in any reading, but that of a narrower one could not be known.
    if said.unclear {
        return Err(ErrorDocument::unclear_member(&format!("meta.{TENANT_KEY}")));
    }
    if envelope.unclear().job_type {
        return Err(ErrorDocument::unclear_member("type"));
    }
    let refused = |none: NoToken| {
        let refusal =
            Some(ErrorDocument::quota_exceeded(&none.live.quota.tenant, &none.live.quota.job_type, none.retry_after));
        Ok(Some(Box::new(Admitted { refusal, ..Admitted::default() })))
    };
    let token = match taken {
        Ok(token) => token,
        Err(none) => return refused(none),
    };
    let Some(at_ms) = token.due_ms() else {
        return Ok(Some(Box::new(Admitted { token: Some(token), ..Admitted::default() })));
    };
    let due = Due::of(envelope);
    if due.unclear {
        return refused(token.without_time());
    }
    // A job that its client has scheduled for a later time keeps that.
    let keeps = due.own_ms.is_some_and(|own| own >= at_ms);
    if !keeps {
        proxy.shared.metrics.quota_delayed.inc();
    }
    let due = (!keeps).then(|| (rfc3339(at_ms), due));
    Ok(Some(Box::new(Admitted { token: Some(token), due, ..Admitted::default() })))
}

/// The same where a breaker may have stopped its type.
#[cold]
#[inline(never)]
fn unless_stopped(
    proxy: &Proxy,
    envelope: &Envelope<'_>,
    may_delay: bool,
    quota: Option<Box<Admitted>>,
) -> Result<Option<Box<Admitted>>, ErrorDocument> {
    // A job without a token goes nowhere.
    if quota.as_ref().is_some_and(|quota| quota.refusal.is_some()) {
        return Ok(quota);
    }
    let token_ms = quota.as_ref().and_then(|quota| quota.token.as_ref()?.due_ms());
    let held = held(proxy, envelope, may_delay, token_ms)?;
    if matches!(held, Stopped::No) {
        return Ok(quota);
    }
    let mut admitted = quota.unwrap_or_default();
    match held {
        Stopped::No | Stopped::Waits => {}
        Stopped::Probe(probe) => admitted.probe = Some(probe),
        Stopped::Delayed(at, due) => admitted.due = Some((at, due)),
        // The token goes back with it.
        Stopped::Refused(refusal) => *admitted = Admitted { refusal: Some(refusal), ..Admitted::default() },
    }
    Ok(Some(admitted))
}

/// Takes tokens for the jobs of a body that cannot be taken apart, none of which can be delayed.
///
/// Errors: 429 where one finds none; 400 as for [`admit`].
pub(crate) fn admit_whole<'e, 'b: 'e>(
    proxy: &Proxy,
    envelopes: impl Iterator<Item = &'e Envelope<'b>>,
) -> Result<Vec<TakenToken>, ErrorDocument> {
    let mut tokens = Vec::new();
    if proxy.shared.quotas.is_on() || proxy.shared.breakers.is_on() {
        for envelope in envelopes.filter(|envelope| envelope.may_be_job()) {
            let Some(admitted) = admit(proxy, envelope, false)? else { continue };
            match admitted.refusal {
                Some(refusal) => return Err(refusal),
                None => tokens.extend(admitted.token),
            }
        }
    }
    Ok(tokens)
}
