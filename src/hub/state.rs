//! The present state of a hub: switches, the end of the audit trail, sidecars.

use std::cell::RefCell;
use std::sync::Arc;

use aws_lc_rs::rand;
use data_encoding::HEXLOWER;
use tokio::sync::{Mutex, Semaphore, watch};

use super::access::{Access, Caller};
use super::audit::{Entry, Head};
use super::fleet::Fleet;
use super::record::{Loaded, Record, RecordError};
use crate::base::{Clock, Moment};
use crate::switch::{Order, Switch, Switches, Version};

/// Changes that wait at once. Operators are few; more means that the disk is stuck.
const CHANGES_MAX: usize = 16;

/// A name that no other run has.
#[expect(clippy::expect_used, reason = "a machine without random bytes could not open a TLS connection either")]
fn run_name() -> String {
    let mut name = [0; 8];
    rand::fill(&mut name).expect("the machine has random bytes");
    HEXLOWER.encode(&name)
}

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
    /// Places for changes that wait for the one before them, or for the disk.
    pub(super) places: Arc<Semaphore>,
    current: watch::Sender<Arc<Current>>,
    /// The end of the audit trail. Locked for a whole change, so that changes follow each other.
    head: Mutex<Head>,
}

impl Hub {
    pub(super) fn new(access: Access, record: Record, loaded: Loaded, clock: Clock) -> Self {
        let Loaded { change, switches, head, sidecars } = loaded;
        let version = Version { run: run_name(), change };
        let (current, _) = watch::channel(Arc::new(Current { version, switches }));
        Self {
            access,
            record,
            clock,
            fleet: RefCell::new(Fleet::new(sidecars)),
            places: Arc::new(Semaphore::new(CHANGES_MAX)),
            current,
            head: Mutex::new(head),
        }
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
        self.record.change(version.change, &switches, rows).await?;
        self.current.send_replace(Arc::new(Current { version, switches }));
        Ok(())
    }

    /// The hub's moments are those of its wall clock: they must mean the same after a restart.
    pub(super) fn now(&self) -> Moment {
        Moment(self.clock.unix_ms())
    }

    /// The entry of a change of a switch that a client asked for.
    pub(super) fn entry(&self, caller: &Caller, action: &'static str, switch: &Switch, order: &Order) -> Entry {
        let Order { lasts, force, reason, ticket, author, .. } = order.clone();
        Entry {
            unix_ms: self.clock.unix_ms(),
            caller: caller.name.clone(),
            action,
            subject: switch.name(),
            lasts_ms: lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)),
            force,
            reason,
            ticket,
            author,
        }
    }
}
