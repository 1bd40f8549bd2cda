//! The outline of a job for the hub: for its index, its ledger and its bodies.

use super::with_job::with_job;
use crate::config::Ledger;
use crate::ojs::Envelope;
use crate::policy::{self, Decision, PermittedRegions, TENANT_KEY, View};
use crate::proxy::state::Proxy;
use crate::replica::{Description, JobTexts, Ledgered, Outline, Reach};

/// The outline of a job that is about to be sent, with the regions that it may go to where the hub is to get its bytes; none where the hub is to
/// get none. `rule`: the place of the rule that has matched it. `is_sharded`: whether its queue is sent under another name.
#[inline]
pub(crate) fn outlined(
    proxy: &Proxy,
    view: &View,
    envelope: &Envelope<'_>,
    (decision, rule): (&Decision, Option<u16>),
    is_sharded: bool,
) -> Option<Outline> {
    if !proxy.shared.outbox.is_on() {
        return None;
    }
    Some(outlined_whole(proxy, view, envelope, (decision, rule), is_sharded))
}

// Never inlined: most sidecars describe nothing, and their calls do not carry its weight.
#[cold]
#[inline(never)]
fn outlined_whole(
    proxy: &Proxy,
    view: &View,
    envelope: &Envelope<'_>,
    (decision, rule): (&Decision, Option<u16>),
    is_sharded: bool,
) -> Outline {
    let outline = outline(proxy, view, envelope, decision, is_sharded, || policy::ledger_of_rule(view, rule));
    let replicated = &proxy.shared.replicated;
    let is_wanted = !replicated.is_empty() && replicated.iter().any(|queue| queue.matches(envelope.queue()));
    // A replica is the copy of a job that its own region has.
    if !is_wanted || decision.pinned || envelope.attributes().replicated_from.is_some() {
        return outline;
    }
    match with_job(envelope, |job| policy::permitted_regions(view, job)) {
        None => outline,
        Some(PermittedRegions::Every) => outline.with_reach(Reach::Every),
        Some(PermittedRegions::Only(regions)) => {
            outline.with_reach(Reach::Only(regions.into_iter().map(|index| view.region(index).id.clone()).collect()))
        }
    }
}

/// The same of a job of several, whose bytes the hub does not get.
pub(crate) fn outlined_bare(
    proxy: &Proxy,
    view: &View,
    envelope: &Envelope<'_>,
    decision: &Decision,
) -> Option<Outline> {
    if !proxy.shared.outbox.is_on() {
        return None;
    }
    let ledger = || with_job(envelope, |job| policy::ledger_by_rule(view, job));
    Some(outline(proxy, view, envelope, decision, false, ledger))
}

/// A job that is bound to regions without the local one leaves nothing of itself at the hub here.
fn outline(
    proxy: &Proxy,
    view: &View,
    envelope: &Envelope<'_>,
    decision: &Decision,
    is_sharded: bool,
    ledger: impl FnOnce() -> Option<Ledger>,
) -> Outline {
    let bound = decision.pinned || decision.restricted;
    let is_here = !bound || decision.candidates.contains(&view.local);
    let ledgered = match is_here {
        _ if !is_ledgered(proxy, ledger) => Ledgered::No,
        true => Ledgered::Described,
        false => Ledgered::Bare,
    };
    let outline = Outline::new(bound, ledgered);
    let from = envelope.attributes().replicated_from.as_deref();
    if !is_here {
        let none = JobTexts { bound, ..JobTexts::default() };
        return outline.written(Description::new(from, Some(none)));
    }
    // For the ledger the arguments are read behind the call, and the texts with them; without it these are cheaper here.
    if ledgered == Ledgered::No || is_sharded {
        let tenant = envelope.meta_text(TENANT_KEY).text;
        let job = JobTexts {
            job_type: envelope.job_type(),
            queue: Some(envelope.queue()),
            tenant: tenant.as_deref().or(envelope.caller_tenant()),
            bound,
        };
        return outline.written(Description::new(from, Some(job)));
    }
    match envelope.caller_tenant() {
        Some(tenant) => outline.of_caller(tenant),
        None => outline,
    }
}

/// Whether a job is for the ledger of the hub, by its rule, else by the configuration.
fn is_ledgered(proxy: &Proxy, by_rule: impl FnOnce() -> Option<Ledger>) -> bool {
    let usual = || proxy.shared.config.hub.as_ref().map(|hub| hub.ledger);
    proxy.shared.outbox.is_ledger() && by_rule().or_else(usual) == Some(Ledger::Metadata)
}
