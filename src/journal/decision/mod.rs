//! The grounds of routing: a note of each of the last jobs, for later questions.
//!
//! Each thread keeps its notes in rings of its own: one of jobs that went as planned, and one of all others, so that a flood of the
//! former cannot wash away the latter. Where there is a journal, the others are in its file, too, which outlives the process.
//!
//! Bounds: `decisions.rows_max` notes of either kind in memory, some 500 bytes each, and as many rows in the file, some 800 bytes each.

mod file;
mod names;
mod note;
mod ring;
mod row;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};

use crate::base::RegionId;
pub(super) use file::{TABLES, find, save};
use names::Names;
pub use note::{CallKind, Note, NotedCall, Wanted, milliseconds};
use ring::Ring;
use row::{FOUND_MAX, Row};

/// Notes that wait for the file: as many as a healthy disk takes in one commit. Further notes are in memory only, and
/// counted.
const WAITING_MAX: usize = 1_024;
/// Between two commits of notes, so that an outage does not keep the disk busy with them.
const COMMIT_EVERY: Duration = Duration::from_millis(200);
/// How long a question waits for the file.
const FIND_WAIT: Duration = Duration::from_secs(2);
/// Bits of a note's number below the time: the thread, then a count.
const COUNT_BITS: u32 = 16;
const THREAD_BITS: u32 = 6;

/// The notes of all threads.
#[derive(Debug)]
pub(super) struct Decisions {
    rows_max: AtomicUsize,
    names: Mutex<Names>,
    threads: Mutex<Vec<Arc<Rings>>>,
    waiting: Mutex<Vec<Note>>,
    questions: Mutex<Vec<Question>>,
    /// One question at a time waits for the file.
    turn: Semaphore,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Rings {
    planned: Ring,
    others: Ring,
}

/// A look-up of a job's notes in the file that a caller waits for.
#[derive(Debug)]
struct Question {
    wanted: Wanted,
    answer: oneshot::Sender<Vec<(u64, Value)>>,
}

/// Where one thread keeps its notes.
#[derive(Debug)]
pub struct Notebook {
    decisions: Arc<Decisions>,
    rings: Arc<Rings>,
    thread: u64,
    count: u64,
}

/// The notes of a job.
#[derive(Debug)]
pub struct Decided {
    /// One document for each time it was routed, the newest first.
    ///
    /// Shape: as `docs/openapi.yaml` has it, `durable` included.
    pub documents: Vec<Value>,
    /// Notes that did not get into the file because too many came at once, since the start.
    pub dropped: u64,
    /// How many notes are kept; 0 where none are.
    pub rows_max: usize,
}

impl Decisions {
    pub(super) fn new(rows_max: usize) -> Self {
        Self {
            rows_max: AtomicUsize::new(rows_max),
            names: Mutex::default(),
            threads: Mutex::default(),
            waiting: Mutex::default(),
            questions: Mutex::default(),
            turn: Semaphore::new(1),
            dropped: AtomicU64::new(0),
        }
    }

    pub(super) fn rows_max(&self) -> usize {
        self.rows_max.load(Relaxed)
    }

    pub(super) fn set_rows_max(&self, rows_max: usize) {
        self.rows_max.store(rows_max, Relaxed);
        self.share(&self.threads.lock());
    }

    /// All threads have the same share.
    fn share(&self, threads: &[Arc<Rings>]) {
        let rows_max = self.rows_max().div_ceil(threads.len().max(1));
        for rings in threads {
            rings.planned.set_rows_max(rows_max);
            rings.others.set_rows_max(rows_max);
        }
    }

    pub(super) fn notebook(self: &Arc<Self>) -> Notebook {
        let rings = Arc::new(Rings::default());
        let mut threads = self.threads.lock();
        threads.push(Arc::clone(&rings));
        self.share(&threads);
        let thread = threads.len() as u64 % (1 << THREAD_BITS);
        Notebook { decisions: Arc::clone(self), rings, thread, count: 0 }
    }

    pub(super) fn numbers(&self, regions: impl Iterator<Item = RegionId>) -> Vec<u16> {
        let mut names = self.names.lock();
        regions.map(|id| names.number(&id)).collect()
    }

    /// Hands a note to the thread of the file; true where that thread must be woken for it.
    fn hand_over(&self, note: &Note) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            self.dropped.fetch_add(1, Relaxed);
            return false;
        }
        waiting.push(*note);
        waiting.len() == 1
    }

    fn in_memory(&self, wanted: &Wanted) -> Vec<Note> {
        let threads = self.threads.lock().clone();
        let mut found = Vec::new();
        for rings in threads {
            rings.planned.find(wanted, &mut found);
            rings.others.find(wanted, &mut found);
        }
        found
    }

    /// The notes of a job, from memory and from the file. `wake` wakes the thread of the file, where there is one.
    pub(super) async fn decided(&self, wanted: Wanted, wake: Option<impl FnOnce() -> bool>) -> Decided {
        let mut documents = match wake {
            Some(wake) => self.in_file(wanted.clone(), wake).await,
            None => Vec::new(),
        };
        let names = self.names.lock().clone();
        for note in self.in_memory(&wanted) {
            let mut document = note.document(&names, false);
            let kept = documents.iter_mut().find(|(number, _)| *number == note.number);
            document["durable"] = kept.is_some().into();
            match kept {
                // The note in memory is more complete: the file has no job type.
                Some((_, kept)) => *kept = document,
                None => documents.push((note.number, document)),
            }
        }
        documents.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        documents.truncate(FOUND_MAX);
        Decided {
            documents: documents.into_iter().map(|(_, document)| document).collect(),
            dropped: self.dropped.load(Relaxed),
            rows_max: self.rows_max(),
        }
    }

    async fn in_file(&self, wanted: Wanted, wake: impl FnOnce() -> bool) -> Vec<(u64, Value)> {
        let asked = async {
            let _turn = self.turn.acquire().await.ok()?;
            let (answer, answered) = oneshot::channel();
            self.questions.lock().push(Question { wanted, answer });
            // Where the queue is full the thread is at work, and looks at the questions when it is through.
            wake();
            answered.await.ok()
        };
        // A disk that does not answer costs the notes that only the file has.
        tokio::time::timeout(FIND_WAIT, asked).await.ok().flatten().unwrap_or_default()
    }

    /// When notes that wait may be written, where any do. `last` is when that was last done.
    pub(super) fn due(&self, last: Instant) -> Option<Duration> {
        let waits = !self.waiting.lock().is_empty();
        waits.then(|| COMMIT_EVERY.saturating_sub(last.elapsed()))
    }

    /// The notes that wait for the file: numbers and documents, with the ids that they are found by.
    pub(super) fn take_waiting(&self) -> Vec<Row> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let names = self.names.lock().clone();
        waiting.iter().map(|note| Row { number: note.number, document: note.document(&names, true) }).collect()
    }

    /// Rows that the file did not take.
    pub(super) fn give_up(&self, rows: usize) {
        self.dropped.fetch_add(rows as u64, Relaxed);
    }

    /// Answers the waiting look-ups, from the file or, without one, with nothing.
    pub(super) fn answer(&self, mut find: impl FnMut(&Wanted) -> Vec<(u64, Value)>) {
        let questions = std::mem::take(&mut *self.questions.lock());
        for Question { wanted, answer } in questions {
            // The caller may have given up.
            let _ = answer.send(find(&wanted));
        }
    }
}

impl Notebook {
    /// Whether notes are kept at all.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.decisions.rows_max() > 0
    }

    /// Keeps a note; true where the thread of the file must be woken for it. `numbers` has the number of each region by its place.
    pub(super) fn keep(&mut self, note: &mut Note, numbers: &[u16], went_as_planned: bool, has_file: bool) -> bool {
        self.count = self.count.wrapping_add(1) & ((1 << COUNT_BITS) - 1);
        // Unique over restarts, too, because the time leads; it has room until the year 2039.
        note.number = (note.at_ms << (COUNT_BITS + THREAD_BITS)) | (self.thread << COUNT_BITS) | self.count;
        note.renumber(|place| numbers.get(usize::from(place)).copied().unwrap_or(u16::MAX));
        if went_as_planned {
            self.rings.planned.push(note);
            return false;
        }
        self.rings.others.push(note);
        has_file && self.is_open() && self.decisions.hand_over(note)
    }
}
