//! What must survive a restart: enqueues whose outcome is not known, those that carried an `Idempotency-Key`, and the leases of workers.
//!
//! Everything is in memory, bounded, and read there. Where `journal.path` is set it is in a file, too, which a thread of its own
//! writes: nothing of it is on the path of a call that goes well. A file that cannot be used, for whatever reason, costs what it
//! would have remembered over a restart, and nothing else.
//!
//! Invariants: no job arguments, meta values, results or tokens come here; every row and every wait is bounded.

mod decision;
mod hold;
mod leases;
mod record;
mod sqlite;
mod table;
#[cfg(test)]
mod tests;
mod writer;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::base::{Clock, RegionId};
use crate::config;
use crate::telemetry::{JournalEviction, JournalWrite, Metrics, event};
use decision::Decisions;
pub use decision::{CallKind, Decided, Note, Notebook, NotedCall, Wanted, milliseconds};
pub use hold::Hold;
pub use leases::Lease;
use leases::Leases;
use record::Change;
pub use record::{Cancelled, Digest, ID_BYTES_MAX, Keyed, Place, State, Unknown};
pub use table::Tell;
use table::{Evicted, Table};
use writer::{Work, Writer};

/// Changes that wait for the disk; what is more is written as a whole once there is room.
const QUEUE_MAX: usize = 1_024;
/// How long a call waits for its record to be on disk: many times what a sync takes on a disk that is well.
const DURABLE_WAIT: Duration = Duration::from_secs(1);
/// How long the start waits for the file: reading the most rows takes a fraction of it.
const OPEN_WAIT: Duration = Duration::from_secs(5);
/// How long the end waits for what is not written yet.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// How long a file that cannot be used is left alone.
const RETRY: Duration = Duration::from_secs(30);
/// Between two lines that say that rows had to make room. Units: milliseconds.
const TELL_EVICTED_MS: u64 = 60_000;

/// The journal; shared by all threads, and kept over reloads. Dropped, it writes what is left.
#[derive(Debug)]
pub struct Journal {
    inner: Arc<Inner>,
    work: Option<SyncSender<Work>>,
    /// Told once when the file is open; closed when the thread has ended.
    writing: Option<Mutex<Receiver<()>>>,
}

/// What the thread shares with the others.
#[derive(Debug)]
struct Inner {
    table: Mutex<Table>,
    leases: Mutex<Leases>,
    /// Whether a change did not reach the thread.
    missed: AtomicBool,
    durable: AtomicBool,
    /// When it was last told that the journal is full. Units: milliseconds since the Unix epoch.
    told_evicted_ms: AtomicU64,
    changed: Notify,
    decisions: Arc<Decisions>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Journal {
    /// Opens the journal and reads what is in it. Whatever is wrong with its file is told, and the journal is in memory then.
    #[must_use]
    pub fn open(config: &config::Journal, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self::open_with(config, clock, metrics, RETRY)
    }

    fn open_with(config: &config::Journal, clock: Clock, metrics: Arc<Metrics>, retry: Duration) -> Self {
        // Random, so that no two runs are taken for one; not 0, which is nobody's.
        let run = (RandomState::new().build_hasher().finish() >> 1).max(1);
        let inner = Arc::new(Inner {
            table: Mutex::new(Table::new(config.rows_max, run)),
            leases: Mutex::new(Leases::new(config.rows_max, config.path.is_some())),
            missed: AtomicBool::new(false),
            durable: AtomicBool::new(false),
            told_evicted_ms: AtomicU64::new(0),
            changed: Notify::new(),
            decisions: Arc::new(Decisions::new(0)),
            clock,
            metrics,
        });
        let mut store = Self { inner, work: None, writing: None };
        match &config.path {
            Some(path) => store.start(path.clone(), retry),
            None => event::journal(&store.inner.metrics, event::JournalState::Memory, None),
        }
        store
    }

    fn start(&mut self, path: PathBuf, retry: Duration) {
        let (work, waiting) = mpsc::sync_channel(QUEUE_MAX);
        let (opened, is_open) = mpsc::channel();
        let writer = Writer { path: path.clone(), inner: Arc::clone(&self.inner), retry };
        let body = move || writer.run(&waiting, &opened);
        match std::thread::Builder::new().name("ojs-journal".to_owned()).spawn(body) {
            Ok(_) => {
                if is_open.recv_timeout(OPEN_WAIT).is_err() {
                    event::journal(&self.inner.metrics, event::JournalState::Failed("slow"), Some(&path));
                }
                (self.work, self.writing) = (Some(work), Some(Mutex::new(is_open)));
            }
            Err(_) => event::journal(&self.inner.metrics, event::JournalState::Failed("no_thread"), Some(&path)),
        }
    }

    /// Takes another bound on its rows.
    pub fn set_rows_max(&self, rows_max: usize) {
        self.inner.table.lock().set_rows_max(rows_max);
        self.inner.leases.lock().set_rows_max(rows_max);
    }

    /// Takes another bound on the notes of jobs; with 0 none are kept.
    pub fn set_decisions_max(&self, rows_max: usize) {
        self.inner.decisions.set_rows_max(rows_max);
    }

    /// Where one more thread keeps its notes of jobs.
    #[must_use]
    pub fn notebook(&self) -> Notebook {
        self.inner.decisions.notebook()
    }

    /// The numbers that these regions have in notes, in their order.
    #[must_use]
    pub fn region_numbers(&self, regions: impl Iterator<Item = RegionId>) -> Vec<u16> {
        self.inner.decisions.numbers(regions)
    }

    /// Keeps the note of a job; one that did not go as planned is on its way to the file, too. Waits for nothing.
    pub fn keep(&self, notebook: &mut Notebook, note: &mut Note, numbers: &[u16], went_as_planned: bool) {
        if notebook.keep(note, numbers, went_as_planned, self.work.is_some()) {
            self.wake();
        }
    }

    /// What is known of how a job was routed.
    pub async fn decided(&self, wanted: Wanted) -> Decided {
        let wake = self.work.is_some().then_some(|| self.wake());
        self.inner.decisions.decided(wanted, wake).await
    }

    /// Makes the thread look up. One whose queue is full does so anyway.
    fn wake(&self) -> bool {
        let nothing = || Work { changes: Vec::new(), done: None };
        self.work.as_ref().is_some_and(|work| work.try_send(nothing()).is_ok())
    }

    /// Whether what is recorded now is on disk before it is answered.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.inner.durable.load(Relaxed)
    }

    /// Records an enqueue that may or may not have been stored, and returns its number once it is on disk, or once that took too
    /// long or cannot be, which is counted.
    ///
    /// Cancel: it is recorded all the same.
    pub async fn record_unknown(&self, unknown: Unknown) -> u64 {
        let (number, written) = self.write(|table, changes| table.add(unknown, false, changes));
        self.inner.changed.notify_one();
        self.waited(written).await;
        number
    }

    /// Records one that a call is not done with: nobody else looks into it until the hold is dropped.
    #[must_use]
    pub fn hold_unknown(self: &Arc<Self>, unknown: Unknown) -> Hold {
        let (number, _) = self.send(|table, changes| table.add(unknown, true, changes), None);
        Hold::new(Arc::clone(self), number)
    }

    /// Holds one that another call has left, as [`Journal::hold_unknown`] does; none where it is known by now, or is held.
    #[must_use]
    pub fn hold(self: &Arc<Self>, number: u64) -> Option<Hold> {
        let is_free = self.inner.table.lock().hold(number);
        is_free.then(|| Hold::new(Arc::clone(self), number))
    }

    fn release(&self, number: u64) {
        self.inner.table.lock().release(number);
        self.inner.changed.notify_one();
    }

    /// Changes what is known of one; the file follows when it can.
    pub fn change(&self, number: u64, change: impl FnOnce(&mut Unknown)) {
        self.post(|table, changes| changes.extend(table.change(number, change)));
    }

    /// As [`Journal::change`], where it is still as it was found and no call is busy with it.
    pub fn change_found(&self, found: &Unknown, change: impl FnOnce(&mut Unknown)) {
        self.post(|table, changes| {
            if table.is_free(found) {
                changes.extend(table.change(found.number, change));
            }
        });
    }

    /// As [`Journal::change`], and waits as [`Journal::record_unknown`] does.
    pub async fn change_durably(&self, number: u64, change: impl FnOnce(&mut Unknown)) {
        let ((), written) = self.write(|table, changes| changes.extend(table.change(number, change)));
        self.inner.changed.notify_one();
        self.waited(written).await;
    }

    /// Whether a copy of the job that a row is about was told to go, by any row: `Pending` while nobody knows whether it did.
    #[must_use]
    pub fn told(&self, place: &Place, of: &Unknown) -> Option<State> {
        self.inner.table.lock().told(place, of)
    }

    /// How many copies that were told to go are known to have gone, or not to go any more: more than before, and one that was looked
    /// at in between may be gone. See [`Tell::gone`].
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.inner.table.lock().gone()
    }

    /// Remembers that one of two copies is told to go, and waits as [`Journal::record_unknown`] does; the row as it is then. None where
    /// it must not be told: a call is busy with the row, or the other copy was told before and may go, or is gone by now.
    pub async fn tell(&self, found: &Unknown, tell: Tell) -> Option<Unknown> {
        let (told, written) = self.write(|table, changes| {
            let told = table.tell(found, tell)?;
            changes.push(Change::Unknown(told.clone()));
            Some(told)
        });
        let told = told?;
        self.waited(written).await;
        Some(told)
    }

    /// What is known of a tenant's unknown enqueues that were sent with this id, the newest first.
    #[must_use]
    pub fn unknowns_of(&self, job_id: &str, tenant: impl FnOnce() -> Digest) -> Vec<Unknown> {
        let mut found: Vec<Unknown> = self.inner.table.lock().of_job(job_id).into_iter().cloned().collect();
        // Nearly always nothing is known, and then nobody pays for the fingerprint.
        if !found.is_empty() {
            let tenant = tenant();
            found.retain(|it| it.tenant == tenant);
        }
        found
    }

    /// What is known of a job in a place, where it was lost there, too; beside what the row with this number says.
    #[must_use]
    pub fn state_in(&self, place: &Place, besides: u64) -> Option<State> {
        self.inner.table.lock().state_in(place, besides)
    }

    /// For how long the calls of a run have ended at least; none for this run, or where nobody knows.
    #[must_use]
    pub fn ended_for(&self, run: u64) -> Option<Duration> {
        let ended_at = self.inner.table.lock().ended_at(run)?;
        Some(self.inner.clock.now().saturating_duration_since(ended_at))
    }

    /// The unknown outcomes that `wanted` chooses, the newest first, at most so many.
    #[must_use]
    pub fn unknowns(&self, max: usize, mut wanted: impl FnMut(&Unknown) -> bool) -> Vec<Unknown> {
        self.inner.table.lock().newest().filter(|it| wanted(it)).take(max).cloned().collect()
    }

    /// The unknown outcomes, at most so many, that are to be asked about, that no call is busy with and that `is_due` chooses.
    #[must_use]
    pub fn due(&self, max: usize, mut is_due: impl FnMut(&Unknown) -> bool) -> Vec<Unknown> {
        self.inner.table.lock().to_ask().filter(|it| is_due(it)).take(max).cloned().collect()
    }

    /// How many nobody knows the outcome of.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.inner.table.lock().pending()
    }

    /// Resolves when an unknown outcome may have been recorded since the last call.
    pub async fn changed(&self) {
        self.inner.changed.notified().await;
    }

    /// What is known of a key.
    #[must_use]
    pub fn keyed(&self, key: &Digest) -> Option<Keyed> {
        self.inner.table.lock().of_key(key).cloned()
    }

    /// Remembers a key before its job is sent, and waits as [`Journal::record_unknown`] does.
    pub async fn begin_key(&self, keyed: Keyed) {
        let ((), written) = self.write(|table, changes| table.begin_key(keyed, changes));
        self.waited(written).await;
    }

    /// Remembers what became of a key; the file follows when it can.
    pub fn end_key(&self, keyed: Keyed) {
        self.post(|table, changes| table.put_key(keyed, changes));
    }

    /// Forgets a key: nothing was stored.
    pub fn forget_key(&self, key: &Digest) {
        self.post(|table, changes| table.drop_key(key, changes));
    }

    /// Drops what is too old: keys after `ttl`, outcomes that are cleared up after a week, leases a day after their end.
    pub fn prune(&self, now_ms: u64, ttl: Duration) {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.post(|table, changes| table.prune(now_ms, ttl_ms, changes));
        self.prune_leases(now_ms);
    }

    /// Changes the table and hands what follows for the file to the thread, under one lock, so that the file sees the same order.
    fn write<T>(&self, change: impl FnOnce(&mut Table, &mut Vec<Change>) -> T) -> (T, Option<oneshot::Receiver<bool>>) {
        let (done, written) = oneshot::channel();
        let (result, sent) = self.send(change, Some(done));
        (result, sent.then_some(written))
    }

    fn post(&self, change: impl FnOnce(&mut Table, &mut Vec<Change>)) {
        self.send(change, None);
    }

    fn send<T>(
        &self,
        change: impl FnOnce(&mut Table, &mut Vec<Change>) -> T,
        done: Option<oneshot::Sender<bool>>,
    ) -> (T, bool) {
        let mut changes = Vec::new();
        let mut table = self.inner.table.lock();
        let result = change(&mut table, &mut changes);
        let evicted = table.evicted();
        if evicted != Evicted::default() {
            self.tell_evicted(evicted);
        }
        let Some(work) = self.work.as_ref().filter(|_| !changes.is_empty()) else { return (result, false) };
        let sent = work.try_send(Work { changes, done }).is_ok();
        if !sent {
            self.inner.missed.store(true, Relaxed);
        }
        (result, sent)
    }

    /// Counted always, and told now and then, so that a journal that is full does not flood the log.
    fn tell_evicted(&self, evicted: Evicted) {
        let Inner { metrics, clock, told_evicted_ms, .. } = &*self.inner;
        metrics.journal_evictions[JournalEviction::Pending].inc_by(evicted.pending);
        metrics.journal_evictions[JournalEviction::Resolved].inc_by(evicted.resolved);
        metrics.journal_evictions[JournalEviction::Key].inc_by(evicted.keys);
        let (now_ms, told_ms) = (clock.unix_ms(), told_evicted_ms.load(Relaxed));
        let matters = evicted.pending + evicted.keys > 0;
        if matters && (told_ms == 0 || told_ms.saturating_add(TELL_EVICTED_MS) <= now_ms) {
            told_evicted_ms.store(now_ms, Relaxed);
            event::journal_full(evicted.pending > 0);
        }
    }

    async fn waited(&self, written: Option<oneshot::Receiver<bool>>) {
        let count = |result| self.inner.metrics.journal_writes[result].inc();
        match written {
            // The thread counts what it answers; one that ended without an answer has written nothing.
            Some(written) => match tokio::time::timeout(DURABLE_WAIT, written).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => count(JournalWrite::Failed),
                Err(_) => count(JournalWrite::Late),
            },
            None if self.work.is_none() => count(JournalWrite::Memory),
            None => count(JournalWrite::Failed),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(writing) = self.writing.take() {
            // Either way nothing more is waited for; the thread drops its end when it has written all.
            let _ = writing.into_inner().recv_timeout(CLOSE_WAIT);
        }
    }
}
