//! The present state of a hub: switches, the end of the audit trail, sidecars.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::access::{Access, Caller};
use super::audit::{Entry, Head};
use super::fleet::Fleet;
use super::record::{Loaded, Record, RecordError};
use crate::base::{Clock, Moment};
use crate::switch::{Switch, Switches, Version};

/// One state of the switches.
#[derive(Debug, Clone, Default)]
pub(super) struct Current {
    pub(super) version: Version,
    pub(super) switches: Switches,
}

/// A hub on its thread.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) access: Access,
    pub(super) record: Record,
    pub(super) clock: Clock,
    pub(super) fleet: RefCell<Fleet>,
    current: watch::Sender<Arc<Current>>,
    /// The end of the audit trail. Locked for a whole change, so that changes follow each other.
    head: Mutex<Head>,
}

impl Hub {
    pub(super) fn new(access: Access, record: Record, loaded: Loaded, clock: Clock) -> Self {
        let Loaded { version, switches, head, sidecars } = loaded;
        let (current, _) = watch::channel(Arc::new(Current { version, switches }));
        Self { access, record, clock, fleet: RefCell::new(Fleet::new(sidecars)), current, head: Mutex::new(head) }
    }

    /// The present state of the switches.
    pub(super) fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.borrow())
    }

    /// Follows the states from the present one on.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<Current>> {
        self.current.subscribe()
    }

    /// Changes the switches by the order of an operator: `change` returns the result, and an entry of the audit trail for each change, or
    /// none where nothing is to be done. The new state is in force and on disk when this returns.
    ///
    /// Errors: nothing was changed.
    /// Cancel: the change may or may not be made; run it in a task.
    pub(super) async fn change<T>(
        &self,
        change: impl FnOnce(&mut Switches, Moment) -> (T, Vec<Entry>),
    ) -> Result<T, RecordError> {
        let mut head = self.head.lock().await;
        let current = self.current();
        let mut switches = current.switches.clone();
        let (result, entries) = change(&mut switches, self.now());
        if entries.is_empty() {
            return Ok(result);
        }
        let mut rows = Vec::with_capacity(entries.len());
        let mut end = head.clone();
        for entry in entries {
            let row = end.next(entry);
            end = Head { number: row.number, hash: row.hash.clone() };
            rows.push(row);
        }
        self.publish(&current, switches, rows).await?;
        *head = end;
        Ok(result)
    }

    /// Ends the switches whose time is over, and returns them.
    pub(super) async fn expire(&self) -> Result<Vec<Switch>, RecordError> {
        let _head = self.head.lock().await;
        let current = self.current();
        let mut switches = current.switches.clone();
        let ended = switches.expire(self.now());
        if !ended.is_empty() {
            self.publish(&current, switches, Vec::new()).await?;
        }
        Ok(ended)
    }

    async fn publish(
        &self,
        current: &Current,
        switches: Switches,
        rows: Vec<super::audit::AuditRow>,
    ) -> Result<(), RecordError> {
        let version = Version { change: current.version.change + 1, ..current.version.clone() };
        self.record.change(&version, &switches, rows).await?;
        self.current.send_replace(Arc::new(Current { version, switches }));
        Ok(())
    }

    /// The hub's moments are those of its wall clock: they must mean the same after a restart.
    pub(super) fn now(&self) -> Moment {
        Moment(self.clock.unix_ms())
    }

    /// The entry of a change that a client asked for.
    pub(super) fn entry(&self, caller: &Caller, action: &'static str, switch: &Switch, by: [&str; 3]) -> Entry {
        let [reason, ticket, author] = by.map(str::to_owned);
        let (unix_ms, caller, subject) = (self.clock.unix_ms(), caller.name.clone(), switch.name());
        Entry { unix_ms, caller, action, subject, reason, ticket, author }
    }
}
