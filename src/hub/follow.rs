//! The loops that keep a hub and its record together.

use std::time::Duration;

use super::record::{BodiesEnd, PRUNED_AT_ONCE, RecordError, ReportsEnd};
use super::state::Hub;
use crate::telemetry::event;

/// How often a shared record is looked at: an order at one hub reaches the sidecars of the others by it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often changes of the inventory go to the record: for so long another hub does not know a new sidecar. A killed hub loses so much of
/// it, and sidecars report it again.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How often reports and keys that are too old are dropped.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// A sidecar shows an outcome for a week after its end; the record keeps it for a day longer. Units: milliseconds.
const CLOSED_FOR_MS: u64 = 8 * 24 * 60 * 60 * 1_000;
/// A sidecar that lives reports its open outcomes at each connection; one that does not may have taken them with it. Units: milliseconds.
const OPEN_FOR_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Between two tries to reach a shared record at the start.
const LOAD_RETRY: Duration = Duration::from_secs(1);

/// Between two portions of facts that are dropped: 50 000 a second, more than a hub takes.
const PRUNE_AGAIN: Duration = Duration::from_millis(100);
/// Facts about jobs in a record, of some 800 bytes each with their indexes: 8 GB. Beyond, the oldest ones are dropped.
const FACTS_MAX: u64 = 10_000_000;

/// Two commits that do not see each other are over within the time that a record has for an answer. Units: milliseconds.
const RACED_FOR_MS: u64 = 5 * 60 * 1_000;

/// Logs the loss of the record once for each cause, and its return.
#[derive(Default)]
struct Contact(Option<String>);

impl Contact {
    fn note(&mut self, result: &Result<(), RecordError>) {
        let cause = result.as_ref().err().map(ToString::to_string);
        match &cause {
            Some(cause) if self.0.as_ref() != Some(cause) => event::hub_record_lost(cause),
            None if self.0.is_some() => event::hub_record_reached(),
            _ => {}
        }
        self.0 = cause;
    }
}

/// Logs failed writes once for each cause.
#[derive(Default)]
pub(super) struct Failures(Option<String>);

impl Failures {
    pub(super) fn note<T>(&mut self, result: &Result<T, RecordError>) {
        let cause = result.as_ref().err().map(ToString::to_string);
        if let Some(cause) = cause.as_ref().filter(|cause| self.0.as_ref() != Some(cause)) {
            event::hub_record_failed(cause);
        }
        self.0 = cause;
    }
}

/// Reads all of the record. A shared record is waited for.
///
/// Errors: the record cannot be used, and trying again cannot help.
pub(super) async fn load(hub: &Hub) -> Result<(), RecordError> {
    let mut contact = Contact::default();
    loop {
        let loaded = async {
            hub.record.migrate().await?;
            hub.refresh().await?;
            hub.take_statuses().await
        };
        let loaded = loaded.await;
        contact.note(&loaded);
        match loaded {
            Ok(()) => return Ok(()),
            Err(error) if error.is_of_configuration() || !hub.record.is_shared() => return Err(error),
            Err(_) => hub.clock.sleep(LOAD_RETRY).await,
        }
    }
}

/// Takes the changes of other hubs, for ever.
pub(super) async fn follow_record(hub: &Hub) {
    if !hub.record.is_shared() {
        return std::future::pending().await;
    }
    let mut contact = Contact::default();
    loop {
        hub.clock.sleep(LOOK_EVERY).await;
        contact.note(&hub.refresh().await);
    }
}

/// Drops the reports that are too old or too many, for ever.
pub(super) async fn prune_reports(hub: &Hub) {
    let mut failures = Failures::default();
    loop {
        hub.clock.sleep(PRUNE_EVERY).await;
        let before = |ms: u64| hub.clock.unix_ms().saturating_sub(ms);
        let end = ReportsEnd { closed_before: before(CLOSED_FOR_MS), open_before: before(OPEN_FOR_MS) };
        let pruned = hub.record.prune_reports(end).await;
        failures.note(&pruned);
        if let Some(dropped) = pruned.ok().filter(|dropped| *dropped > 0) {
            hub.dropped_reports.set(hub.dropped_reports.get() + dropped);
            event::hub_reports_dropped(dropped);
        }
    }
}

/// Drops the facts about jobs that are too old or too many, for ever.
pub(super) async fn prune_index(hub: &Hub) {
    let Some(index) = &hub.index else { return std::future::pending().await };
    let retention_ms = u64::try_from(index.settings.retention.as_millis()).unwrap_or(u64::MAX);
    let mut failures = Failures::default();
    loop {
        let before_ms = hub.clock.unix_ms().saturating_sub(retention_ms);
        let pruned = hub.record.prune_changes(before_ms, FACTS_MAX).await;
        failures.note(&pruned);
        let is_full = pruned.is_ok_and(|dropped| dropped >= PRUNED_AT_ONCE);
        hub.clock.sleep(if is_full { PRUNE_AGAIN } else { PRUNE_EVERY }).await;
    }
}

/// Drops the bodies of jobs that are too old or too many, and counts the others, for ever.
pub(super) async fn prune_bodies(hub: &Hub) {
    let kept = hub.index.as_ref().and_then(|index| Some((&index.settings, index.bodies.as_ref()?)));
    let Some((settings, bodies)) = kept else { return std::future::pending().await };
    let retention_ms = u64::try_from(settings.retention.as_millis()).unwrap_or(u64::MAX);
    let mut failures = Failures::default();
    loop {
        let now_ms = hub.clock.unix_ms();
        let (before_ms, raced_since_ms) = (now_ms.saturating_sub(retention_ms), now_ms.saturating_sub(RACED_FOR_MS));
        let end = BodiesEnd { before_ms, raced_since_ms, bytes_max: bodies.settings.bytes_max };
        let pruned = hub.record.prune_bodies(end).await;
        failures.note(&pruned);
        let is_known = pruned.is_ok();
        let left = pruned.unwrap_or_default();
        if left.dropped > 0 {
            bodies.dropped.set(bodies.dropped.get() + left.dropped);
            event::hub_bodies_dropped(left.dropped);
        }
        if is_known {
            bodies.total.set((left.count, left.bytes));
        }
        hub.clock.sleep(if left.more { PRUNE_AGAIN } else { PRUNE_EVERY }).await;
    }
}

/// Drops the keys that are over, and counts the others, for ever.
pub(super) async fn prune_keys(hub: &Hub) {
    let mut failures = Failures::default();
    loop {
        let pruned = hub.record.prune_keys(hub.clock.unix_ms()).await;
        failures.note(&pruned);
        if let Ok(left) = pruned {
            hub.keys.set(left);
        }
        hub.clock.sleep(PRUNE_EVERY).await;
    }
}

/// Writes the inventory, and takes that of other hubs, for ever.
pub(super) async fn keep_inventory(hub: &Hub) {
    let mut failures = Failures::default();
    loop {
        hub.clock.sleep(SAVE_EVERY).await;
        failures.note(&save_inventory(hub).await);
        if hub.record.is_shared() {
            // The loss of a shared record is logged where its state is followed.
            let _ = hub.take_statuses().await;
        }
    }
}

/// Writes the statuses that have come since the last time.
///
/// Errors: they are written the next time.
pub(super) async fn save_inventory(hub: &Hub) -> Result<(), RecordError> {
    let (unsaved, forget_before) = hub.fleet.borrow_mut().take_unsaved(hub.clock.unix_ms());
    if unsaved.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = unsaved.iter().map(|it| it.name.clone()).collect();
    let saved = hub.record.save_sidecars(unsaved, forget_before).await;
    if saved.is_err() {
        hub.fleet.borrow_mut().mark_unsaved(&names);
    }
    saved
}
