//! The description of a job for the hub: for its index, its ledger and its bodies.

use super::with_job::with_job;
use crate::config::Ledger;
use crate::ojs::Envelope;
use crate::policy::{self, Decision, PermittedRegions};
use crate::proxy::state::Proxy;
use crate::replica::{Description, Ledgered, Reach};

/// The description of a job that is about to be sent, with the regions that it may go to where the hub is to get its bytes.
pub(crate) fn described(proxy: &Proxy, envelope: &Envelope<'_>, decision: &Decision) -> Option<Description> {
    let described = described_bare(proxy, envelope, decision)?;
    let is_wanted = proxy.shared.replicated.iter().any(|queue| queue.matches(envelope.queue()));
    // A replica is the copy of a job that its own region has.
    if !is_wanted || decision.pinned || envelope.attributes().replicated_from.is_some() {
        return Some(described);
    }
    let view = proxy.shared.registry.view();
    Some(match with_job(envelope, |job| policy::permitted_regions(&view, job)) {
        None => described,
        Some(PermittedRegions::Every) => described.with_reach(Reach::Every),
        Some(PermittedRegions::Only(regions)) => {
            described.with_reach(Reach::Only(regions.into_iter().map(|index| view.region(index).id.clone()).collect()))
        }
    })
}

/// The same of a job whose bytes the hub does not get.
pub(crate) fn described_bare(proxy: &Proxy, envelope: &Envelope<'_>, decision: &Decision) -> Option<Description> {
    let described = proxy.shared.described(envelope, decision)?;
    Some(if proxy.shared.outbox.is_ledger() { ledgered(proxy, envelope, described) } else { described })
}

/// The same without a part for the ledger, where the configuration or a rule says so.
#[cold]
fn ledgered(proxy: &Proxy, envelope: &Envelope<'_>, described: Description) -> Description {
    let view = proxy.shared.registry.view();
    let by_rule = with_job(envelope, |job| policy::ledger_by_rule(&view, job));
    let usual = || proxy.shared.config.hub.as_ref().map(|hub| hub.ledger);
    if by_rule.or_else(usual) == Some(Ledger::Metadata) { described } else { described.ledgered(Ledgered::No) }
}
