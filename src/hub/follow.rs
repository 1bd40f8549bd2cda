//! The loops that keep a hub and its record together.

use std::time::Duration;

use super::record::RecordError;
use super::state::Hub;
use crate::telemetry::event;

/// How often a shared record is looked at: an order at one hub reaches the sidecars of the others by it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often changes of the inventory go to the record: for so long another hub does not know a new sidecar. A killed hub loses so much of
/// it, and sidecars report it again.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Between two tries to reach a shared record at the start.
const LOAD_RETRY: Duration = Duration::from_secs(1);

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

/// Writes the inventory, and takes that of other hubs, for ever.
pub(super) async fn keep_inventory(hub: &Hub) {
    loop {
        hub.clock.sleep(SAVE_EVERY).await;
        save_inventory(hub).await;
        if hub.record.is_shared() {
            // The loss of a shared record is logged where its state is followed.
            let _ = hub.take_statuses().await;
        }
    }
}

/// Writes the statuses that have come since the last time.
pub(super) async fn save_inventory(hub: &Hub) {
    let (unsaved, forget_before) = hub.fleet.borrow_mut().take_unsaved(hub.clock.unix_ms());
    if unsaved.is_empty() {
        return;
    }
    if let Err(error) = hub.record.save_sidecars(unsaved, forget_before).await {
        event::hub_record_failed(&error.to_string());
    }
}
