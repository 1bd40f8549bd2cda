//! The thread that does the journal's I/O: no data thread ever waits for a disk longer than it chooses to.
//!
//! Changes that wait together are committed together. While the file cannot be used, everything stays in memory; the file is
//! tried again now and then, and then gets all that it has missed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::record::Change;
use super::sqlite::{Sqlite, Trouble, move_aside};
use super::{Inner, QUEUE_MAX};
use crate::telemetry::{JournalWrite, event};

/// Changes in one commit: enough that a slow disk does not fall behind, few enough that the first one does not wait for long.
const BATCH_MAX: usize = 256;

/// How long changed leases wait to be written together: what a process that is killed loses of them.
const LEASES_WAIT: Duration = Duration::from_millis(100);

/// Changes that belong together, and who waits for them; without any, leases have changed.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) changes: Vec<Change>,
    /// Told whether they are on disk.
    pub(super) done: Option<oneshot::Sender<bool>>,
}

impl Work {
    /// Leases have changed, and are to be written with what else changes until then.
    pub(super) const LEASES: Self = Self { changes: Vec::new(), done: None };
}

#[derive(Debug)]
enum Engine {
    Sqlite(Sqlite),
    /// Since when the file cannot be used.
    Memory(Instant),
}

/// An open file with what is in it, and what is told of it.
type Opened = ((Sqlite, Vec<Change>), event::JournalState);

pub(super) struct Writer {
    pub(super) path: PathBuf,
    pub(super) inner: Arc<Inner>,
    /// How long a file that cannot be used is left alone.
    pub(super) retry: Duration,
}

impl Writer {
    /// The whole life of the thread; `opened` is told once when what the file holds is in memory, or cannot be.
    pub(super) fn run(self, work: &Receiver<Work>, opened: &Sender<()>) {
        let mut engine = self.open(false);
        // Nobody listens any more when opening took too long.
        let _ = opened.send(());
        let (mut leases_at, mut noted): (Option<Instant>, _) = (None, Instant::now());
        loop {
            let leases = leases_at.map(|at| at.saturating_duration_since(Instant::now()));
            let notes = self.inner.decisions.due(noted);
            let wait = leases.into_iter().chain(notes).fold(self.retry, Duration::min);
            let first = match work.recv_timeout(wait) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            engine = self.decisions(engine, &mut noted);
            let mut batch: Vec<Work> = first.into_iter().collect();
            let due = matches!(engine, Engine::Memory(since) if since.elapsed() >= self.retry);
            // Looked at before the queue is emptied: what is missed from now on is for the next turn.
            if self.inner.missed.swap(false, Relaxed) || due {
                // What waits is older than what is in memory, and must not be written over it later.
                batch.extend(work.try_iter().take(QUEUE_MAX));
                batch.retain(|work| !work.changes.is_empty());
                engine = self.renew(engine);
                self.tell(batch, matches!(engine, Engine::Sqlite(_)));
                continue;
            }
            batch.extend(work.try_iter().take(BATCH_MAX));
            let received = batch.len();
            batch.retain(|work| !work.changes.is_empty());
            if batch.len() < received {
                leases_at.get_or_insert_with(|| Instant::now() + LEASES_WAIT);
            }
            if !batch.is_empty() {
                engine = self.write(engine, batch);
            }
            if leases_at.is_some_and(|at| at <= Instant::now()) {
                leases_at = None;
                engine = self.write_leases(engine);
            }
        }
        engine = self.write_leases(engine);
        noted = noted.checked_sub(self.retry).unwrap_or(noted);
        engine = self.decisions(engine, &mut noted);
        if self.inner.missed.swap(false, Relaxed) || matches!(engine, Engine::Memory(_)) {
            self.renew(engine);
        }
    }

    /// Writes the notes of jobs that wait, unless that was done just now, and answers questions about them.
    ///
    /// A disk that is full costs notes and nothing else: the next outcome that must be kept finds out for itself.
    fn decisions(&self, engine: Engine, noted: &mut Instant) -> Engine {
        let decisions = &self.inner.decisions;
        let is_due = decisions.due(*noted).is_some_and(|wait| wait.is_zero());
        let rows = if is_due { decisions.take_waiting() } else { Vec::new() };
        let Engine::Sqlite(mut sqlite) = engine else {
            decisions.give_up(rows.len());
            decisions.answer(|_| Vec::new());
            return engine;
        };
        let saved = if rows.is_empty() { Ok(()) } else { sqlite.save_decisions(&rows, decisions.rows_max()) };
        if is_due {
            *noted = Instant::now();
        }
        if saved.is_err() {
            decisions.give_up(rows.len());
        }
        decisions.answer(|wanted| sqlite.find_decisions(wanted));
        match saved {
            Ok(()) | Err(Trouble::Unusable("disk_full")) => Engine::Sqlite(sqlite),
            Err(trouble) => self.broken(true, trouble),
        }
    }

    fn open(&self, again: bool) -> Engine {
        let opened = match Sqlite::open(&self.path) {
            Err(Trouble::Corrupt) => self.anew("corrupt", "corrupt_and_not_movable"),
            Err(Trouble::Older) => self.anew("older", "older_and_not_movable"),
            opened => opened.map(|opened| (opened, event::JournalState::Durable)),
        };
        match opened {
            Ok(((sqlite, changes), state)) => {
                self.inner.leases.lock().merge(&changes);
                self.inner.table.lock().merge(changes, self.inner.clock.now());
                self.inner.changed.notify_one();
                self.inner.durable.store(true, Relaxed);
                event::journal(&self.inner.metrics, state, Some(&self.path));
                Engine::Sqlite(sqlite)
            }
            // Reported when it began, and not at every try.
            Err(trouble) => self.broken(!again, trouble),
        }
    }

    /// A new file in place of one that cannot be used, which is moved aside.
    fn anew(&self, word: &'static str, failed: &'static str) -> Result<Opened, Trouble> {
        move_aside(&self.path, word, self.inner.clock.unix_ms()).map_err(|_| Trouble::Unusable(failed))?;
        Sqlite::open(&self.path).map(|opened| (opened, event::JournalState::Renewed(word)))
    }

    fn broken(&self, report: bool, trouble: Trouble) -> Engine {
        self.inner.durable.store(false, Relaxed);
        let why = match trouble {
            Trouble::Corrupt => "corrupt",
            Trouble::Older => "older",
            Trouble::Unusable(why) => why,
        };
        if report {
            event::journal(&self.inner.metrics, event::JournalState::Failed(why), Some(&self.path));
        }
        Engine::Memory(Instant::now())
    }

    /// Gives the file all that it has missed.
    fn renew(&self, engine: Engine) -> Engine {
        let mut sqlite = match engine {
            Engine::Sqlite(sqlite) => sqlite,
            Engine::Memory(_) => match self.open(true) {
                Engine::Sqlite(sqlite) => sqlite,
                memory @ Engine::Memory(_) => return memory,
            },
        };
        let mut all = self.inner.table.lock().all();
        all.extend(self.inner.leases.lock().all());
        match sqlite.rewrite(&all) {
            Ok(()) => Engine::Sqlite(sqlite),
            Err(trouble) => self.broken(true, trouble),
        }
    }

    fn write(&self, engine: Engine, batch: Vec<Work>) -> Engine {
        let Engine::Sqlite(mut sqlite) = engine else {
            self.tell(batch, false);
            return engine;
        };
        let written = sqlite.write(batch.iter().flat_map(|work| &work.changes));
        self.tell(batch, written.is_ok());
        match written {
            Ok(()) => Engine::Sqlite(sqlite),
            // What SQLite thinks of a file after a failed write or sync is not relied on: it is opened anew.
            Err(trouble) => self.broken(true, trouble),
        }
    }

    /// Writes the leases that have changed; without a file they stay in memory, and a file that is opened later gets all.
    fn write_leases(&self, engine: Engine) -> Engine {
        let changes = self.inner.leases.lock().changes();
        let Engine::Sqlite(mut sqlite) = engine else { return engine };
        match if changes.is_empty() { Ok(()) } else { sqlite.write(&changes) } {
            Ok(()) => Engine::Sqlite(sqlite),
            Err(trouble) => self.broken(true, trouble),
        }
    }

    fn tell(&self, batch: Vec<Work>, durable: bool) {
        for work in batch {
            // Who has given up waiting has counted it as late.
            if work.done.as_ref().is_none_or(|done| !done.is_closed()) {
                let result = if durable { JournalWrite::Durable } else { JournalWrite::Failed };
                self.inner.metrics.journal_writes[result].inc();
            }
            // It may have given up just now.
            let _ = work.done.map(|done| done.send(durable));
        }
    }
}
