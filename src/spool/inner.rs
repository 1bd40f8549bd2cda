//! State that the thread of the spool shares with the others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::failures::Failures;
use super::row::{Row, RowState};
use super::table::{Entry, Phase, Table};
use crate::base::Clock;
use crate::telemetry::{Metrics, event};

/// Whether the file can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Its content is being read.
    Opening,
    /// It is in use.
    Ready,
    /// It cannot be used, for this reason, and is tried again.
    Unusable(&'static str),
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) table: Mutex<Table>,
    pub(super) health: Mutex<Health>,
    /// Whether the content of the file has been in memory since the start: memory has followed each commit since.
    pub(super) is_read: AtomicBool,
    /// Whether the content is in memory and no job waits: new jobs go past the spool.
    pub(super) is_quiet: AtomicBool,
    /// Whether no job is in memory, so that no name needs the lock.
    pub(super) is_empty: AtomicBool,
    /// A lane may be due.
    pub(super) changed: Notify,
    /// A job is no longer with the drain.
    pub(super) turned: Notify,
    pub(super) path: PathBuf,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
}

impl Inner {
    /// The file is open with this content.
    pub(super) fn opened(&self, rows: Vec<Row>) {
        let (now, now_ms) = (self.clock.now(), self.clock.unix_ms());
        let mut table = self.table.lock();
        table.reconcile(rows, |row| entry(row, now, now_ms), now);
        self.is_read.store(true, SeqCst);
        self.look(&table);
        drop(table);
        self.set_health(Health::Ready);
    }

    pub(super) fn set_health(&self, health: Health) {
        let before = std::mem::replace(&mut *self.health.lock(), health);
        if before != health {
            let trouble = if let Health::Unusable(why) = health { Some(why) } else { None };
            event::spool_file(&self.metrics, trouble, &self.path);
        }
        self.changed.notify_one();
    }

    /// Notes whether jobs wait; called under the lock of the table after each change.
    pub(super) fn look(&self, table: &Table) {
        let is_quiet = self.is_read.load(SeqCst) && table.is_quiet();
        self.is_quiet.store(is_quiet, SeqCst);
        self.is_empty.store(table.iter().next().is_none(), SeqCst);
        if !is_quiet {
            self.changed.notify_one();
        }
    }
}

/// A row of the file as a job in memory.
fn entry(row: Row, now: Instant, now_ms: u64) -> Entry {
    let Row { state, reason, since_ms, head, copies, bytes, .. } = row;
    // A job without names has no lane, and is nothing but set aside.
    let state = if head.is_some() { state } else { RowState::Damaged };
    let age = Duration::from_millis(now_ms.saturating_sub(since_ms));
    Entry {
        head,
        state,
        reason,
        phase: Phase::Resting,
        since_ms,
        age_at: (age, now),
        copies,
        failures: Failures::default(),
        bytes,
    }
}
