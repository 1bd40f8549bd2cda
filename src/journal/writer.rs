//! The thread that does the journal's I/O: no data thread ever waits for a disk longer than it chooses to.
//!
//! Changes that wait together are committed together. While the file cannot be used, everything stays in memory; the file is
//! tried again now and then, and then gets all that it has missed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::change::{Change, Work};
use super::decision;
use super::engine::{Engine, Memory, Trouble};
use super::shared::{Inner, QUEUE_MAX};
use super::sqlite::{Sqlite, move_aside};
use crate::outcome::Rules;
use crate::telemetry::{JournalWrite, event};

/// Changes in one commit: enough that a slow disk does not fall behind, few enough that the first one does not wait for long.
const BATCH_MAX: usize = 256;

/// How long changed leases wait to be written together: a killed process loses so many of them.
const LEASES_WAIT: Duration = Duration::from_millis(100);

/// How long the file keeps a placement that left nothing behind. Its client may have an answer only once the kernel has it: a process that is
/// killed before that must know the id that the client repeats. Far longer than a written response takes to reach the kernel.
const DROP_AFTER: Duration = Duration::from_secs(1);
/// Placements that wait to be dropped from the file; with more of them the oldest are dropped sooner.
const DROPS_MAX: usize = 8_192;

/// Read records are judged later, by the configured rules: beginning anew needs none.
const RULES: Rules = Rules { grace: Duration::ZERO, lag: Duration::ZERO };

/// An open file with its content, and the state to report.
type Opened = (Sqlite, Vec<Change>, event::JournalState);

pub(super) struct Writer {
    path: PathBuf,
    inner: Arc<Inner>,
    /// How long a file that cannot be used is left alone.
    retry: Duration,
    engine: Box<dyn Engine>,
    /// Since when the file cannot be used, and all is in memory.
    broken: Option<Instant>,
    /// Whether the file's content from before this process is in memory.
    has_read: bool,
    /// When notes of jobs were written last.
    noted: Instant,
    /// Placements that are dropped from the file at these times, the earliest first.
    drops: VecDeque<(Instant, Change)>,
}

impl Writer {
    pub(super) fn new(path: PathBuf, inner: Arc<Inner>, retry: Duration) -> Self {
        let engine = Box::new(Memory(Trouble::Unusable("not_open")));
        let now = Instant::now();
        Self { path, inner, retry, engine, broken: Some(now), has_read: false, noted: now, drops: VecDeque::new() }
    }

    /// The whole life of the thread; `opened` gets one message when the file's content is in memory, or cannot be.
    pub(super) fn run(mut self, work: &Receiver<Work>, opened: &Sender<()>) {
        self.open(true);
        // The receiver is closed when opening took too long.
        let _ = opened.send(());
        let mut leases_at: Option<Instant> = None;
        loop {
            let leases = leases_at.map(|at| at.saturating_duration_since(Instant::now()));
            let notes = self.inner.decisions.due(self.noted);
            let drops = self.drops.front().map(|(due, _)| due.saturating_duration_since(self.inner.clock.now()));
            let wait = leases.into_iter().chain(notes).chain(drops).fold(self.retry, Duration::min);
            let first = match work.recv_timeout(wait) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.decisions();
            let mut batch: Vec<Work> = first.into_iter().collect();
            let due = self.broken.is_some_and(|since| since.elapsed() >= self.retry);
            // Read before the queue is emptied: changes that are missed from now on belong to the next round.
            if self.inner.missed.swap(false, Relaxed) || due {
                // Waiting changes are older than the table in memory, and must not overwrite it later.
                batch.extend(work.try_iter().take(QUEUE_MAX));
                batch.retain(|work| !work.changes.is_empty());
                self.renew();
                self.notify_callers(batch, self.broken.is_none());
                continue;
            }
            batch.extend(work.try_iter().take(BATCH_MAX));
            let received = batch.len();
            batch.retain(|work| !work.changes.is_empty());
            if batch.len() < received {
                leases_at.get_or_insert_with(|| Instant::now() + LEASES_WAIT);
            }
            let drops_due = self.drops.front().is_some_and(|(due, _)| *due <= self.inner.clock.now());
            if !batch.is_empty() || drops_due {
                self.write(batch);
            }
            if leases_at.is_some_and(|at| at <= Instant::now()) {
                leases_at = None;
                self.write_leases();
            }
        }
        self.write_leases();
        self.write_drops();
        self.noted = self.noted.checked_sub(self.retry).unwrap_or(self.noted);
        self.decisions();
        if self.inner.missed.swap(false, Relaxed) || self.broken.is_some() {
            self.renew();
        }
    }

    /// Writes the notes of jobs that wait, unless that was done just now, and answers questions about them.
    ///
    /// A disk that is full costs notes and nothing else: the next outcome that must be kept finds out for itself.
    fn decisions(&mut self) {
        let decisions = &self.inner.decisions;
        let is_due = decisions.due(self.noted).is_some_and(|wait| wait.is_zero());
        let rows = if is_due { decisions.take_waiting() } else { Vec::new() };
        let Some(tables) = self.engine.tables() else {
            decisions.give_up(rows.len());
            decisions.answer(|_| Vec::new());
            return;
        };
        let saved = if rows.is_empty() { Ok(()) } else { decision::save(tables, &rows, decisions.rows_max()) };
        if is_due {
            self.noted = Instant::now();
        }
        if saved.is_err() {
            decisions.give_up(rows.len());
        }
        // Notes that cannot be read count as absent.
        decisions.answer(|wanted| decision::find(tables, wanted).unwrap_or_default());
        match saved.map_err(Trouble::from) {
            Ok(()) | Err(Trouble::FULL) => {}
            Err(trouble) => self.broken(trouble, Some(event::JournalState::Failed(trouble.as_str()))),
        }
    }

    /// Opens the file and loads its content; records are written to it from now on if it is writable.
    fn open(&mut self, first: bool) {
        let opened = match self.load() {
            Err(Trouble::Corrupt) => self.anew("corrupt", "corrupt_and_not_movable"),
            Err(Trouble::Older) => self.anew("older", "older_and_not_movable"),
            opened => opened,
        };
        let opened = opened.and_then(|(mut sqlite, changes, state)| {
            // The content is known, whether or not the file can be written.
            self.read(changes, first);
            sqlite.health()?;
            sqlite.append(&[&Change::Secret(*self.inner.secret.lock())])?;
            Ok((sqlite, state))
        });
        match opened {
            Ok((sqlite, state)) => {
                (self.engine, self.broken) = (Box::new(sqlite), None);
                self.inner.durable.store(true, Relaxed);
                event::journal(&self.inner.metrics, state, Some(&self.path));
            }
            Err(trouble) => {
                let is_read = self.has_read || (trouble != Trouble::HELD && self.read_only(first));
                let why = trouble.as_str();
                let state = if is_read { event::JournalState::ReadOnly(why) } else { event::JournalState::Failed(why) };
                // Reported when it began, and not at every try.
                self.broken(trouble, first.then_some(state));
            }
        }
    }

    fn load(&self) -> Result<Opened, Trouble> {
        let mut sqlite = Sqlite::open(&self.path)?;
        if self.has_read {
            // A file that is known is read again only once it can be written.
            sqlite.health()?;
        }
        let changes = sqlite.load()?;
        Ok((sqlite, changes, event::JournalState::Durable))
    }

    /// Loads a file that cannot be written; false where there is none, or none of ours.
    fn read_only(&mut self, first: bool) -> bool {
        let loaded = Sqlite::open_to_read(&self.path).and_then(|mut sqlite| sqlite.load());
        let Some(changes) = loaded.ok().filter(|changes| !changes.is_empty()) else { return false };
        self.read(changes, first);
        true
    }

    /// Takes the content of a file into memory.
    fn read(&mut self, changes: Vec<Change>, first: bool) {
        let inner = &self.inner;
        // A file that is opened again has switches that may have ended since.
        let has_news = !self.has_read;
        self.has_read |= !changes.is_empty();
        inner.leases.lock().merge(&changes);
        let mut last = None;
        for change in &changes {
            match change {
                Change::Placement(_, placement) => last = last.max(Some(placement.last_moment())),
                Change::Secret(secret) => *inner.secret.lock() = *secret,
                Change::Lease(lease) => last = last.max(Some(lease.began())),
                Change::Switches(_) | Change::Hub(_) | Change::PutPools(_) | Change::Quotas(_) => {}
                Change::DropPlacement(_) | Change::DropLease(_) | Change::DropPlace(_) => {}
            }
        }
        // Once this run has given out moments, they stay.
        if let Some(last) = last.filter(|_| first) {
            inner.time.go_on_from(last);
        }
        if has_news {
            changes.iter().for_each(|change| inner.take_switches(change));
            changes.iter().for_each(|change| inner.take_put_pools(change));
            changes.iter().for_each(|change| inner.take_quotas(change));
        }
        inner.table.lock().merge(changes, inner.time.now(&inner.clock), RULES);
        inner.changed.notify_one();
    }

    /// A new file in place of one that cannot be used, which is moved aside.
    fn anew(&self, word: &'static str, failed: &'static str) -> Result<Opened, Trouble> {
        move_aside(&self.path, word, self.inner.clock.unix_ms()).map_err(|_| Trouble::Unusable(failed))?;
        let (sqlite, changes, _) = self.load()?;
        Ok((sqlite, changes, event::JournalState::Renewed(word)))
    }

    /// Marks the file as unusable for a while, and reports this state.
    fn broken(&mut self, trouble: Trouble, told: Option<event::JournalState>) {
        self.inner.durable.store(false, Relaxed);
        (self.engine, self.broken) = (Box::new(Memory(trouble)), Some(Instant::now()));
        if let Some(state) = told {
            event::journal(&self.inner.metrics, state, Some(&self.path));
        }
    }

    /// Gives the file all that it has missed.
    fn renew(&mut self) {
        if self.broken.is_some() {
            self.open(false);
        }
        if self.broken.is_some() {
            return;
        }
        let mut all = vec![Change::Secret(*self.inner.secret.lock())];
        all.extend(self.inner.table.lock().all());
        all.extend(self.inner.leases.lock().all());
        all.push(Change::Switches(self.inner.switches.lock().clone()));
        all.push(Change::Hub(self.inner.hub.lock().clone()));
        all.extend(self.inner.put_pools.lock().as_ref().map(|pools| Change::PutPools(Vec::clone(pools))));
        all.extend(self.inner.quotas.lock().as_ref().map(|quotas| Change::Quotas(Vec::clone(quotas))));
        // The table no longer has the records that wait to be dropped.
        self.drops.clear();
        let kept = self.engine.compact(&all);
        self.kept(kept);
    }

    fn write(&mut self, mut batch: Vec<Work>) {
        let now = self.inner.clock.now();
        for change in batch.iter_mut().flat_map(|work| work.changes.extract_if(.., |change| change.is_drop())) {
            self.drops.push_back((now + DROP_AFTER, change));
        }
        let crowded = self.drops.len().saturating_sub(DROPS_MAX);
        let due = self.drops.iter().take_while(|(due, _)| *due <= now).count().max(crowded);
        let drops: Vec<Change> = self.drops.drain(..due).map(|(_, change)| change).collect();
        let changes: Vec<&Change> = batch.iter().flat_map(|work| &work.changes).chain(&drops).collect();
        let kept = if changes.is_empty() { Ok(()) } else { self.engine.append(&changes) };
        self.notify_callers(batch, kept.is_ok());
        self.kept(kept);
    }

    /// Drops the records from the file that wait for it.
    fn write_drops(&mut self) {
        let drops: Vec<Change> = self.drops.drain(..).map(|(_, change)| change).collect();
        if !drops.is_empty() {
            let kept = self.engine.append(&drops.iter().collect::<Vec<_>>());
            self.kept(kept);
        }
    }

    /// Writes the leases that have changed; without a file they stay in memory, and a file that is opened later gets all.
    fn write_leases(&mut self) {
        let changes = self.inner.leases.lock().changes();
        if !changes.is_empty() {
            let kept = self.engine.append(&changes.iter().collect::<Vec<_>>());
            self.kept(kept);
        }
    }

    /// SQLite's state after a failed write or sync is not relied on: the file is opened anew.
    fn kept(&mut self, kept: Result<(), Trouble>) {
        if let Err(trouble) = kept
            && self.broken.is_none()
        {
            self.broken(trouble, Some(event::JournalState::Failed(trouble.as_str())));
        }
    }

    fn notify_callers(&self, batch: Vec<Work>, durable: bool) {
        for work in batch {
            // A caller that has given up has counted the write as late.
            if work.done.as_ref().is_none_or(|done| !done.is_closed()) {
                let result = if durable { JournalWrite::Durable } else { JournalWrite::Failed };
                self.inner.metrics.journal_writes[result].inc();
            }
            // It may have given up just now.
            let _ = work.done.map(|done| done.send(durable));
        }
    }
}
