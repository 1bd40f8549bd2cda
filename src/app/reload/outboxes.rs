//! The outboxes for the hub, in a new configuration.

use std::sync::Arc;

use crate::config::{Config, Ledger};
use crate::policy::Glob;
use crate::replica::{BodyOutbox, Outbox};

/// The outbox, which keeps changes where the hub is to get them.
pub(super) fn outbox(outbox: Arc<Outbox>, config: &Config) -> Arc<Outbox> {
    let hub = config.hub.as_ref();
    let by_rule = config.routing.rules.iter().any(|rule| rule.ledger == Some(Ledger::Metadata));
    let is_ledger = by_rule || hub.is_some_and(|hub| hub.ledger == Ledger::Metadata);
    outbox.set_on(hub.is_some_and(|hub| hub.report_jobs), is_ledger);
    outbox
}

/// The queues whose jobs are handed to the hub with their bytes.
pub(super) fn replicated(config: &Config) -> Vec<Glob> {
    let queues = config.hub.iter().flat_map(|hub| &hub.report_bodies);
    queues.map(|pattern| Glob::new(pattern)).collect()
}

/// The bytes that wait for the hub, where it is to get some.
pub(super) fn bodies(old: &Arc<BodyOutbox>, config: &Config) -> Arc<BodyOutbox> {
    if replicated(config).is_empty() {
        old.clear();
    }
    Arc::clone(old)
}
