//! The changes of this process that its hub does not have yet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use super::line::{LINE_BYTES_MAX, Seen, write};
use super::unread::{Stored, Unread};

/// Changes that wait for the hub: at 5 000 a second it may be away for 20 s, with some 160 bytes each. Units: bytes.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Changes in one report: one commit of the hub.
pub const REPORT_LINES_MAX: usize = 200;
/// The longest report. Units: bytes.
pub const REPORT_BYTES_MAX: usize = REPORT_LINES_MAX * LINE_BYTES_MAX;
/// The room of a new report; a busy sidecar fills some of it between two looks. Units: bytes.
const REPORT_BYTES: usize = 4 * 1024;

/// Answers and bodies that wait to be read. The connection looks for them every 250 ms, for which this is enough at 30 000 short jobs a second,
/// of some 1 100 bytes each, and without one each second; a job beyond it is read by its call. Units: bytes.
const UNREAD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A longer answer is read by its call, because a copy takes as long. Units: bytes.
const UNREAD_ANSWER_BYTES_MAX: usize = 16 * 1024;

/// A bounded queue of changes, oldest first; shared by all threads. Beyond its bound the oldest reports are dropped and counted.
#[derive(Debug, Default)]
pub struct Outbox {
    is_on: AtomicBool,
    is_ledger: AtomicBool,
    unread: Mutex<Unread>,
    /// Stored jobs that are no longer in `unread` and not yet in `waiting`.
    reading: AtomicUsize,
    waiting: Mutex<Waiting>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Complete ones, oldest first.
    reports: VecDeque<Report>,
    /// The one that is being written.
    lines: Vec<u8>,
    count: usize,
    /// The bytes of the complete ones.
    bytes: usize,
    /// The number of the next complete one, counted from the start of the process.
    next: u64,
}

/// Some changes, at most [`REPORT_LINES_MAX`].
#[derive(Debug, Clone)]
pub struct Report {
    /// Its number in the process.
    number: u64,
    /// Its changes, as lines of [`super::read_lines`].
    pub lines: Bytes,
    /// How many they are.
    pub count: usize,
}

impl Waiting {
    fn complete(&mut self) {
        let mut lines = std::mem::replace(&mut self.lines, Vec::with_capacity(REPORT_BYTES));
        // Its growth has left up to as much room again, which the bound would not count.
        lines.shrink_to_fit();
        let lines = Bytes::from(lines);
        self.bytes += lines.len();
        self.reports.push_back(Report { number: self.next, lines, count: std::mem::take(&mut self.count) });
        self.next += 1;
    }

    fn drop_first(&mut self) -> usize {
        let Some(first) = self.reports.pop_front() else { return 0 };
        self.bytes -= first.lines.len();
        first.count
    }

    fn count(&self) -> usize {
        self.count + self.reports.iter().map(|report| report.count).sum::<usize>()
    }
}

impl Outbox {
    /// Sets whether changes are kept at all, and whether they are for the ledger of the hub, too.
    pub fn set_on(&self, is_on: bool, is_ledger: bool) {
        self.is_on.store(is_on, Relaxed);
        self.is_ledger.store(is_on && is_ledger, Relaxed);
        if !is_on {
            *self.unread.lock() = Unread::default();
            let mut waiting = self.waiting.lock();
            *waiting = Waiting { next: waiting.next, ..Waiting::default() };
        }
    }

    /// Whether changes are kept. One load.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Whether changes are for the ledger of the hub, too. One load.
    #[must_use]
    pub fn is_ledger(&self) -> bool {
        self.is_ledger.load(Relaxed)
    }

    /// Adds a change that was seen.
    pub fn add(&self, seen: &Seen<'_>) {
        let mut waiting = self.waiting.lock();
        if !write(&mut waiting.lines, seen) {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        waiting.count += 1;
        if waiting.count < REPORT_LINES_MAX {
            return;
        }
        waiting.complete();
        while waiting.bytes > WAITING_BYTES_MAX {
            self.dropped.fetch_add(waiting.drop_first() as u64, Relaxed);
        }
    }

    /// Adds a job that a region has stored by this answer; both are read later.
    pub fn add_stored(&self, stored: Stored<'_>, answer: &[u8]) {
        // A call may end behind a reload that has switched this off, and cleared the rest.
        if !self.is_on() {
            return;
        }
        if answer.len() <= UNREAD_ANSWER_BYTES_MAX {
            let mut unread = self.unread.lock();
            if !self.is_on() {
                return;
            }
            if unread.bytes() < UNREAD_BYTES_MAX {
                unread.add(stored, answer);
                return;
            }
        }
        stored.read(answer, |seen| self.add(seen));
    }

    /// Reads the answers that wait for that.
    pub fn read_answers(&self) {
        let unread = {
            let mut unread = self.unread.lock();
            self.reading.fetch_add(unread.len(), Relaxed);
            std::mem::take(&mut *unread)
        };
        let count = unread.len();
        unread.for_each(|stored, answer| {
            stored.read(answer, |seen| self.add(seen));
        });
        self.reading.fetch_sub(count, Relaxed);
    }

    /// The oldest changes; none where none wait. They stay until [`Self::taken`].
    #[must_use]
    pub fn first(&self) -> Option<Report> {
        self.read_answers();
        let mut waiting = self.waiting.lock();
        if waiting.reports.is_empty() && waiting.count > 0 {
            waiting.complete();
        }
        waiting.reports.front().cloned()
    }

    /// The hub has a report.
    pub fn taken(&self, report: &Report) {
        let mut waiting = self.waiting.lock();
        if waiting.reports.front().is_some_and(|first| first.number == report.number) {
            waiting.drop_first();
        }
    }

    /// How many wait, and how many were dropped since the start.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let unread = self.unread.lock().len() + self.reading.load(Relaxed);
        ((unread + self.waiting.lock().count()) as u64, self.dropped.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::ChangeKind;
    use super::super::{Ledgered, Outline, SentJob, read_lines};
    use super::*;
    use crate::base::RegionId;
    use crate::ojs::Segments;

    fn add(outbox: &Outbox, times: std::ops::Range<u64>) {
        let region = RegionId::parse("eu").unwrap();
        for at_ms in times {
            let kind = ChangeKind::Created;
            let (job_id, federation_id) = ("job", Some("f"));
            let none = (None, None, None);
            let (state, enqueued_ms, described) = none;
            let seen = Seen {
                job_id,
                region: &region,
                kind,
                lease_ms: 0,
                at_ms,
                federation_id,
                state,
                enqueued_ms,
                described,
                details: None,
            };
            outbox.add(&seen);
        }
    }

    fn times(report: &Report) -> Vec<u64> {
        let lines = std::str::from_utf8(&report.lines).unwrap();
        read_lines(lines).unwrap().into_iter().map(|it| it.change.at_ms).collect()
    }

    #[test]
    fn changes_stay_until_the_hub_has_them_and_come_in_order() {
        let outbox = Outbox::default();
        outbox.set_on(true, false);
        add(&outbox, 0..3);
        let first = outbox.first().unwrap();
        assert_eq!((times(&first), outbox.counts()), (vec![0, 1, 2], (3, 0)));
        add(&outbox, 3..5);
        assert_eq!(times(&outbox.first().unwrap()), [0, 1, 2], "without a word of the hub they are sent again");
        outbox.taken(&first);
        let second = outbox.first().unwrap();
        outbox.taken(&first);
        assert_eq!((times(&second), times(&outbox.first().unwrap())), (vec![3, 4], vec![3, 4]));
        outbox.taken(&second);
        assert!(outbox.first().is_none());
        add(&outbox, 0..REPORT_LINES_MAX as u64 + 1);
        let full = outbox.first().unwrap();
        outbox.taken(&full);
        assert_eq!((full.count, outbox.first().unwrap().count), (REPORT_LINES_MAX, 1));
    }

    #[test]
    fn beyond_the_bound_the_oldest_are_dropped_and_counted_and_their_reports_take_nothing() {
        let outbox = Outbox::default();
        outbox.set_on(true, false);
        add(&outbox, 0..1);
        let first = outbox.first().unwrap();
        let (mut at, mut sum) = (1, 1);
        while outbox.counts().1 == 0 {
            add(&outbox, at..at + 200);
            (at, sum) = (at + 200, sum + 200);
        }
        let (waiting, dropped) = outbox.counts();
        assert_eq!(waiting + dropped, sum);
        assert!(outbox.waiting.lock().bytes <= WAITING_BYTES_MAX);
        outbox.taken(&first);
        assert_eq!(outbox.counts(), (waiting, dropped), "that one is gone already");
        outbox.set_on(false, false);
        assert_eq!(outbox.counts().0, 0);
    }

    fn add_stored(outbox: &Outbox, at_ms: u64, answer: &str) {
        let region = RegionId::parse("eu").unwrap();
        let outline = Outline::new(false, Ledgered::No);
        let sent = SentJob { pieces: Segments::new(), is_rerouted: false };
        let (own_id, federation_id) = (None, None);
        outbox.add_stored(Stored { own_id, federation_id, region: &region, at_ms, outline, sent }, answer.as_bytes());
    }

    #[test]
    fn answers_are_read_for_the_report_or_beyond_their_bound_by_the_call() {
        let outbox = Outbox::default();
        outbox.set_on(true, false);
        let of = |length| format!(r#"{{"id":"job","state":"available","args":["{}"]}}"#, "x".repeat(length));
        add_stored(&outbox, 1, &of(100));
        assert_eq!((outbox.counts(), outbox.waiting.lock().count()), ((1, 0), 0), "not read yet, and counted");
        assert_eq!(times(&outbox.first().unwrap()), [1]);
        assert_eq!(outbox.counts(), (1, 0));
        add_stored(&outbox, 2, &of(UNREAD_ANSWER_BYTES_MAX));
        assert_eq!((outbox.counts(), outbox.waiting.lock().count()), ((2, 0), 2), "read at once");
        let answers = [of(1_000), of(10_000)];
        let most = 3 + UNREAD_BYTES_MAX as u64 / 5_500;
        for at in 3..most {
            add_stored(&outbox, at, &answers[usize::from(at % 2 == 0)]);
            assert!(outbox.unread.lock().bytes() < UNREAD_BYTES_MAX + 11_000);
            assert_eq!(outbox.counts(), (at, 0));
        }
        assert!(outbox.waiting.lock().count() > 2, "the last ones are read at once");
        let mut reported = Vec::new();
        while let Some(report) = outbox.first() {
            reported.extend(times(&report));
            outbox.taken(&report);
        }
        reported.sort_unstable();
        assert_eq!(reported, (1..most).collect::<Vec<_>>());
        add_stored(&outbox, 1, &answers[0]);
        outbox.set_on(false, false);
        assert!(outbox.first().is_none());
        add_stored(&outbox, 2, &answers[0]);
        assert_eq!(outbox.counts().0, 0, "a call that ends later leaves nothing");
    }
}
