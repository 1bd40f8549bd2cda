//! The state that survives a restart: placements of jobs whose fate is open or that may be repeated, and the leases of
//! workers.
//!
//! All of it is in memory, bounded, and read there. With `journal.path` a separate thread also writes it to a file: no
//! successful call waits for that. A file that cannot be used costs the records of the time before a restart, and
//! nothing else.
//!
//! Invariants: no job arguments, meta values, results or tokens come here; every row and every wait is bounded.

mod change;
mod clock;
mod columns;
mod deciding;
mod decision;
mod engine;
mod hold;
mod keys;
mod lease;
mod leases;
mod leasing;
mod older;
mod places;
mod placing;
mod put_pools;
mod quotas;
mod record;
mod settling;
mod shared;
mod sqlite;
mod switching;
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

use crate::base::Clock;
use crate::config;
use crate::outcome::{Digest, Moment, Placement, State};
use crate::telemetry::{JournalEviction, JournalWrite, Metrics, event};
use change::{Change, Work};
use clock::JournalClock;
use decision::Decisions;
pub use decision::{CallKind, Decided, Note, Notebook, NotedCall, Wanted, milliseconds};
pub use hold::Hold;
pub use keys::{Asked, Claimed, KeyAnswer, KeyAsk, KeyQuestion, Keys};
pub use lease::{Lease, LeasePlace};
use leases::Leases;
pub use places::TakenPlaces;
pub use placing::AskedPlaces;
pub use record::{ID_BYTES_MAX, Secret};
use shared::{Inner, QUEUE_MAX};
pub use switching::HubChange;
pub use table::Found;
use table::{Evicted, Table};
use writer::Writer;

/// How long a call waits for its record to be on disk: many times as long as a sync of a healthy disk takes.
const DURABLE_WAIT: Duration = Duration::from_secs(1);
/// How long the start waits for the file: reading the most rows takes a fraction of it.
const OPEN_WAIT: Duration = Duration::from_secs(5);
/// How long the end of the process waits for unwritten records.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// How long a file that cannot be used is left alone.
const RETRY: Duration = Duration::from_secs(30);
/// Between two lines that say that rows had to make room. Units: milliseconds.
const TELL_EVICTED_MS: u64 = 60_000;

#[expect(clippy::expect_used, reason = "a system without random bytes could not open a TLS connection either")]
fn random_secret() -> Secret {
    let mut secret = Secret::default();
    aws_lc_rs::rand::fill(&mut secret).expect("the system has random bytes");
    secret
}

/// The journal; shared by all threads, and kept over reloads. Dropped, it writes the remaining changes.
#[derive(Debug)]
pub struct Journal {
    inner: Arc<Inner>,
    /// Whether a file is configured.
    has_file: bool,
    work: Option<SyncSender<Work>>,
    /// Receives one message when the file is open; closed when the thread has ended.
    writing: Option<Mutex<Receiver<()>>>,
}

impl Journal {
    /// Opens the journal and reads its file. A file that cannot be used is logged, and the journal is in memory then.
    #[must_use]
    pub fn open(config: &config::Journal, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self::open_with(config, clock, metrics, RETRY)
    }

    fn open_with(config: &config::Journal, clock: Clock, metrics: Arc<Metrics>, retry: Duration) -> Self {
        // Random, so that two runs differ; not 0, which stands for no run.
        let run = (RandomState::new().build_hasher().finish() >> 1).max(1);
        let inner = Arc::new(Inner {
            table: Mutex::new(Table::new(config.rows_max, run)),
            leases: Mutex::new(Leases::new(config.rows_max, config.path.is_some())),
            switches: Mutex::default(),
            hub: Mutex::default(),
            put_pools: Mutex::default(),
            pools_changed: Notify::new(),
            quotas: Mutex::default(),
            follows_hub: AtomicBool::new(false),
            secret: Mutex::new(random_secret()),
            time: JournalClock::new(&clock),
            opened_unix_ms: clock.unix_ms(),
            missed: AtomicBool::new(false),
            durable: AtomicBool::new(false),
            told_evicted_ms: AtomicU64::new(0),
            changed: Notify::new(),
            switched: Notify::new(),
            decisions: Arc::new(Decisions::new(0)),
            keys: Keys::new(clock.clone(), Arc::clone(&metrics)),
            clock,
            metrics,
        });
        let mut journal = Self { inner, has_file: config.path.is_some(), work: None, writing: None };
        match &config.path {
            Some(path) => journal.start(path.clone(), retry),
            None => event::journal(&journal.inner.metrics, event::JournalState::Memory, None),
        }
        journal
    }

    fn start(&mut self, path: PathBuf, retry: Duration) {
        let (work, waiting) = mpsc::sync_channel(QUEUE_MAX);
        let (opened, is_open) = mpsc::channel();
        let writer = Writer::new(path.clone(), Arc::clone(&self.inner), retry);
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

    /// Whether records are on disk before their calls are answered.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.inner.durable.load(Relaxed)
    }

    /// Whether there is no file to wait for, by the configuration.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        !self.has_file
    }

    /// The journal's time: it never goes back, and a jump of the wall clock does not move it.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.inner.time.now(&self.inner.clock)
    }

    /// When this journal was opened, once in the life of a process. Units: milliseconds since the Unix epoch.
    #[must_use]
    pub fn opened_unix_ms(&self) -> u64 {
        self.inner.opened_unix_ms
    }

    /// Milliseconds since the Unix epoch, by the wall clock as it is now: for people.
    #[must_use]
    pub fn unix_ms(&self, at: Moment) -> u64 {
        let age = self.now().since(at);
        self.inner.clock.unix_ms().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    /// With which callers are fingerprinted.
    #[must_use]
    pub fn secret(&self) -> Secret {
        *self.inner.secret.lock()
    }

    fn release(&self, number: u64) {
        if number != 0 {
            let is_open = self.inner.table.lock().release(number);
            // A placement that ended well needs no work.
            if is_open {
                self.inner.changed.notify_one();
            }
        }
    }

    fn record(&self, placement: &mut Placement) {
        self.send(|table, changes| self.put(table, placement, changes), None);
    }

    async fn record_durably(&self, placement: &mut Placement) -> bool {
        let ((), written) = self.write(|table, changes| self.put(table, placement, changes));
        self.waited(written).await
    }

    fn put(&self, table: &mut Table, placement: &mut Placement, changes: &mut Vec<Change>) {
        if placement.number == 0 {
            placement.number = table.number(self.now());
            table.take(placement.number);
        }
        table.put(placement.clone(), changes);
    }

    fn forget(&self, number: u64) {
        if number != 0 {
            self.post(|table, changes| table.forget(number, changes));
        }
    }

    /// The placement that a key leads to.
    #[must_use]
    pub fn of_key(&self, key: &Digest) -> Option<Placement> {
        self.inner.table.lock().of_key(key).cloned()
    }

    /// A tenant's placements that were sent with this id, or are known by it, the newest first.
    #[must_use]
    pub fn of_id(&self, id: &str, tenant: impl FnOnce() -> Digest) -> Vec<Placement> {
        let mut found: Vec<Placement> = self.inner.table.lock().of_id(id).cloned().collect();
        // Usually no record is found, and then no fingerprint is computed.
        if !found.is_empty() {
            let tenant = tenant();
            found.retain(|it| it.identity.tenant == tenant);
        }
        found
    }

    /// The placements that `wanted` chooses, the newest first, at most so many.
    #[must_use]
    pub fn placements(&self, max: usize, mut wanted: impl FnMut(&Placement) -> bool) -> Vec<Placement> {
        self.inner.table.lock().newest().filter(|it| wanted(it)).take(max).cloned().collect()
    }

    /// The placements, at most so many, that `is_due` chooses among those that something is to be found out about.
    #[must_use]
    pub fn due(&self, max: usize, mut is_due: impl FnMut(&Placement) -> bool) -> Vec<Found> {
        self.inner.table.lock().to_look_at(&mut is_due).take(max).collect()
    }

    /// A placement for a change by a background task; `None` while a call holds it.
    #[must_use]
    pub fn found(&self, number: u64) -> Option<Found> {
        self.inner.table.lock().found(number)
    }

    /// Records a changed placement, unless it was changed, or taken by a call, since it was found; the file follows.
    pub fn update(&self, found: &mut Found) -> bool {
        let mut is_taken = false;
        self.post(|table, changes| is_taken = table.update(found, changes));
        is_taken
    }

    /// As [`Journal::update`], and false also where it is not on disk though there should be one.
    pub async fn update_durably(&self, found: &mut Found) -> bool {
        let (is_taken, written) = self.write(|table, changes| table.update(found, changes));
        is_taken && self.waited(written).await
    }

    /// Notes in memory when a placement was asked about, and the answers that count towards an absence.
    pub fn note(&self, found: &Found) {
        self.inner.table.lock().note(found);
    }

    /// The placements whose outcome is open, or was, and that were changed behind a revision, at most so many, in the order of their changes.
    /// Revisions are those of this process, from 1.
    #[must_use]
    pub fn outcomes_after(&self, revision: u64, max: usize) -> Vec<(u64, Placement)> {
        let table = self.inner.table.lock();
        table.outcomes_after(revision).take(max).map(|(revision, it)| (revision, it.clone())).collect()
    }

    /// How many placements are in a state.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.inner.table.lock().count(state)
    }

    /// How many something is to be found out about or done about.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.inner.table.lock().pending()
    }

    /// Resolves when a placement may have been recorded or released since the last call.
    pub async fn changed(&self) {
        self.inner.changed.notified().await;
    }

    /// Drops old records: keys after `ttl`, placements with traces a week after their end, leases a day after theirs.
    pub fn prune(&self, ttl: Duration) {
        let now = self.now();
        self.post(|table, changes| table.prune(now, ttl, changes));
        self.prune_leases(now);
    }

    /// Changes the table and sends the changes for the file to the thread, under one lock, so that the file gets them
    /// in the same order.
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
            self.report_evicted(evicted);
        }
        let Some(work) = self.work.as_ref().filter(|_| !changes.is_empty()) else { return (result, false) };
        let sent = work.try_send(Work { changes, done }).is_ok();
        if !sent {
            self.inner.missed.store(true, Relaxed);
        }
        (result, sent)
    }

    /// Counts every eviction and logs some, so that a full journal does not flood the log.
    fn report_evicted(&self, evicted: Evicted) {
        let Inner { metrics, told_evicted_ms, .. } = &*self.inner;
        metrics.journal_evictions[JournalEviction::Pending].inc_by(evicted.pending);
        metrics.journal_evictions[JournalEviction::Resolved].inc_by(evicted.resolved);
        metrics.journal_evictions[JournalEviction::Key].inc_by(evicted.keys);
        let (now_ms, told_ms) = (self.now().0, told_evicted_ms.load(Relaxed));
        let matters = evicted.pending + evicted.keys > 0;
        if matters && (told_ms == 0 || told_ms.saturating_add(TELL_EVICTED_MS) <= now_ms) {
            told_evicted_ms.store(now_ms, Relaxed);
            event::journal_full(evicted.pending > 0);
        }
    }

    /// Whether it is on disk, or there is none to wait for.
    async fn waited(&self, written: Option<oneshot::Receiver<bool>>) -> bool {
        let count = |result| self.inner.metrics.journal_writes[result].inc();
        match written {
            // The thread counts its answers; a thread that ended without an answer has written nothing.
            Some(written) => match tokio::time::timeout(DURABLE_WAIT, written).await {
                Ok(Ok(durable)) => return durable,
                Ok(Err(_)) => count(JournalWrite::Failed),
                Err(_) => count(JournalWrite::Late),
            },
            None if self.is_in_memory() => {
                count(JournalWrite::Memory);
                return true;
            }
            None => count(JournalWrite::Failed),
        }
        false
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
