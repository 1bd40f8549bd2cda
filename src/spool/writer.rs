//! The thread that does the I/O of the spool. It alone changes rows, and the table in memory follows each commit: a caller that has given up
//! changes nothing about either.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::disk::{Change, DAMAGE, Disk, Open, Trouble};
use super::inner::{Health, Inner};
use super::row::RowState;
use super::table::Phase;
use super::work::{Loaded, Work, Written};
use crate::replica::Content;
use crate::replica::Seal;
use crate::telemetry::{SpoolResult, event};

/// Changes in one commit: enough that a slow disk does not fall behind, few enough that the first one does not wait for long.
const BATCH_MAX: usize = 256;

/// One change on its way to the file, its effect in memory, and its caller.
struct Pending {
    number: u64,
    change: Change,
    effect: Effect,
    done: oneshot::Sender<Written>,
}

/// The effect of a change in memory.
enum Effect {
    Store,
    Copies,
    Aside(RowState, String),
    Retry(u64),
    Remove,
}

pub(super) struct Writer {
    inner: Arc<Inner>,
    open: Open,
    seal: Option<Seal>,
    disk: Option<Box<dyn Disk>>,
    /// When the file was found unusable.
    broken: Instant,
    /// How long an unusable file is left alone.
    retry: Duration,
}

impl Writer {
    pub(super) fn new(inner: Arc<Inner>, open: Open, retry: Duration) -> Self {
        Self { inner, open, seal: None, disk: None, broken: Instant::now(), retry }
    }

    /// The whole life of the thread; `opened` gets one message when the file's content is in memory, or cannot be.
    pub(super) fn run(mut self, work: &Receiver<Work>, opened: &Sender<()>) {
        self.open();
        // The receiver is closed when opening took too long.
        let _ = opened.send(());
        loop {
            let first = match work.recv_timeout(self.retry) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.disk.is_none() && self.broken.elapsed() >= self.retry {
                self.open();
            }
            let batch: Vec<Work> = first.into_iter().chain(work.try_iter().take(BATCH_MAX)).collect();
            self.work(batch);
        }
    }

    fn open(&mut self) {
        let opened = (self.open)().and_then(|(mut disk, seal)| Ok((disk.rows()?, disk, seal)));
        match opened {
            Ok((rows, disk, seal)) => {
                self.seal = Some(seal);
                let new_damage: Vec<u64> = rows.iter().filter(|row| row.is_new_damage).map(|row| row.number).collect();
                self.disk = Some(disk);
                self.inner.opened(rows);
                new_damage.into_iter().for_each(|number| self.mark_damaged(number));
            }
            Err(trouble) => self.break_off(trouble),
        }
    }

    /// SQLite's state after a failed write or sync is not relied on: the file is opened anew.
    fn break_off(&mut self, trouble: Trouble) {
        (self.disk, self.broken) = (None, Instant::now());
        self.inner.set_health(Health::Unusable(trouble));
    }

    fn work(&mut self, batch: Vec<Work>) {
        let mut pending = Vec::new();
        for work in batch {
            match work {
                Work::Load(number, done) => {
                    // Earlier orders are carried out first.
                    self.commit(std::mem::take(&mut pending));
                    let loaded = self.load(number);
                    if matches!(loaded, Loaded::Damaged) {
                        self.mark_damaged(number);
                    }
                    let _ = done.send(loaded);
                }
                Work::Store(number, call, done) => {
                    let (content, nonce) = *call;
                    match self.store(number, &content, nonce) {
                        Some(change) => pending.push(Pending { number, change, effect: Effect::Store, done }),
                        None => self.end(number, Effect::Store, Written::NotTried, done),
                    }
                }
                Work::Copies(number, copies, done) => match serde_json::to_string(&copies) {
                    Ok(text) => {
                        let change = Change::Copies(number, text);
                        pending.push(Pending { number, change, effect: Effect::Copies, done });
                    }
                    Err(_) => self.end(number, Effect::Copies, Written::NotTried, done),
                },
                Work::Aside(number, state, reason, done) => {
                    let change = Change::Aside(number, state, reason.clone());
                    pending.push(Pending { number, change, effect: Effect::Aside(state, reason), done });
                }
                Work::Retry(number, done) => {
                    let since_ms = self.inner.clock.unix_ms();
                    let change = Change::Retry(number, since_ms);
                    pending.push(Pending { number, change, effect: Effect::Retry(since_ms), done });
                }
                Work::Remove(number, done) => {
                    pending.push(Pending { number, change: Change::Remove(number), effect: Effect::Remove, done });
                }
            }
        }
        self.commit(pending);
    }

    /// The change that stores a new row; none where it is not in memory any more, or cannot be sealed.
    fn store(&self, number: u64, content: &Content, nonce: super::RowNonce) -> Option<Change> {
        let (head, since_ms, copies) = {
            let table = self.inner.table.lock();
            let entry = table.get(number)?;
            (
                serde_json::to_string(entry.head.as_ref()?).ok()?,
                entry.since_ms,
                serde_json::to_string(&entry.copies).ok()?,
            )
        };
        let sealed = self.seal.as_ref()?.seal(nonce, &row_of(number, &head), content.to_bytes())?;
        Some(Change::Store(number, since_ms, head, copies, sealed))
    }

    fn load(&mut self, number: u64) -> Loaded {
        let (Some(disk), Some(seal)) = (&mut self.disk, &self.seal) else { return Loaded::NotNow };
        let (head, sealed) = match disk.content(number) {
            Ok(Some(row)) => row,
            Ok(None) => {
                let mut table = self.inner.table.lock();
                drop(table.remove(number));
                self.inner.look(&table);
                return Loaded::Gone;
            }
            Err(DAMAGE) => return Loaded::Damaged,
            Err(trouble) => {
                self.break_off(trouble);
                return Loaded::NotNow;
            }
        };
        let opened = seal.open(&row_of(number, &head), &sealed);
        opened.and_then(|opened| Content::read(&opened)).map_or(Loaded::Damaged, Loaded::Content)
    }

    /// Sets a row with unreadable content aside, at least in memory: the pages that the file would change may be the damaged ones.
    fn mark_damaged(&mut self, number: u64) {
        let (state, reason) = (RowState::Damaged, "unreadable".to_owned());
        let change = Change::Aside(number, state, reason.clone());
        let marked = self.disk.as_mut().map_or(Ok(()), |disk| disk.commit(&[&change]));
        let (done, _) = oneshot::channel();
        self.end(number, Effect::Aside(state, reason), Written::Durable, done);
        if let Err(trouble) = marked
            && trouble != DAMAGE
        {
            self.break_off(trouble);
        }
    }

    fn commit(&mut self, pending: Vec<Pending>) {
        if pending.is_empty() {
            return;
        }
        let changes: Vec<&Change> = pending.iter().map(|it| &it.change).collect();
        let (written, trouble) = match self.disk.as_mut().map(|disk| disk.commit(&changes)) {
            None => (Written::NotTried, None),
            Some(Ok(())) => (Written::Durable, None),
            Some(Err(trouble)) => (Written::Unknown, Some(trouble)),
        };
        // Before any caller hears of it, and orders more.
        if let Some(trouble) = trouble {
            self.break_off(trouble);
        }
        for Pending { number, effect, done, .. } in pending {
            self.end(number, effect, written, done);
        }
    }

    /// Carries the end of a change into memory, then to its caller, which may have given up.
    fn end(&self, number: u64, effect: Effect, written: Written, done: oneshot::Sender<Written>) {
        let (inner, now) = (&self.inner, self.inner.clock.now());
        let is_durable = written == Written::Durable;
        let mut table = inner.table.lock();
        match effect {
            Effect::Store if is_durable => {
                table.stored(number, now);
                inner.metrics.spool.results[SpoolResult::Stored].inc();
            }
            Effect::Store if written == Written::Unknown => table.doubt(number),
            Effect::Store => drop(table.remove(number)),
            Effect::Remove if is_durable => drop(table.remove(number)),
            Effect::Aside(state, reason) if is_durable => {
                let job_id = table.get(number).and_then(|it| it.head.as_ref()).map(|head| head.job_id().to_owned());
                table.set_aside(number, state, reason.clone());
                event::spool_aside(&inner.metrics, state.result(), job_id.as_deref(), &reason);
            }
            Effect::Retry(since_ms) if is_durable => table.retry(number, since_ms, now),
            Effect::Copies => {}
            Effect::Remove | Effect::Aside(..) | Effect::Retry(_) => {
                if let Some(entry) = table.get_mut(number).filter(|entry| entry.phase == Phase::Changing) {
                    entry.phase = Phase::Resting;
                }
            }
        }
        inner.look(&table);
        drop(table);
        let _ = done.send(written);
    }
}

/// The identity of a row, which its tag covers.
fn row_of(number: u64, head: &str) -> Vec<u8> {
    [&number.to_be_bytes()[..], head.as_bytes()].concat()
}
