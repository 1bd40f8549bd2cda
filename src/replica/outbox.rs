//! The changes of this process that its hub does not have yet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::change::Change;

/// Changes that wait for the hub: at 5 000 a second it may be away for 20 s. Each has some 300 bytes, and 2 kB at most.
const WAITING_MAX: usize = 100_000;

/// A bounded queue of changes, oldest first; shared by all threads. Beyond its bound the oldest ones are dropped and counted.
#[derive(Debug, Default)]
pub struct Outbox {
    is_on: AtomicBool,
    waiting: Mutex<Waiting>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    changes: VecDeque<Change>,
    /// The number of the first one, counted from the start of the process.
    first: u64,
}

impl Outbox {
    /// Sets whether changes are kept at all.
    pub fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
        if !is_on {
            let mut waiting = self.waiting.lock();
            waiting.first += waiting.changes.len() as u64;
            waiting.changes = VecDeque::new();
        }
    }

    /// Whether changes are kept. One load.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Adds a change that was seen.
    pub fn add(&self, change: Change) {
        self.add_all(std::iter::once(change));
    }

    /// Adds changes that were seen.
    pub fn add_all(&self, changes: impl Iterator<Item = Change>) {
        let mut waiting = self.waiting.lock();
        for change in changes.map(Change::cleaned) {
            let Some(change) = change else {
                self.dropped.fetch_add(1, Relaxed);
                continue;
            };
            if waiting.changes.len() >= WAITING_MAX {
                waiting.changes.pop_front();
                waiting.first += 1;
                self.dropped.fetch_add(1, Relaxed);
            }
            waiting.changes.push_back(change);
        }
    }

    /// The first changes, at most so many, and the number behind the last one of them. They stay until [`Self::taken`].
    #[must_use]
    pub fn first(&self, max: usize) -> (Vec<Change>, u64) {
        let waiting = self.waiting.lock();
        let changes: Vec<Change> = waiting.changes.iter().take(max).cloned().collect();
        let end = waiting.first + changes.len() as u64;
        (changes, end)
    }

    /// The hub has all changes before this number.
    pub fn taken(&self, end: u64) {
        let mut waiting = self.waiting.lock();
        let done = usize::try_from(end.saturating_sub(waiting.first)).unwrap_or(usize::MAX).min(waiting.changes.len());
        waiting.changes.drain(..done);
        waiting.first += done as u64;
    }

    /// How many wait, and how many were dropped since the start.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.waiting.lock().changes.len() as u64, self.dropped.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::{ChangeKind, tests::change};
    use super::*;

    #[test]
    fn a_change_stays_until_the_hub_has_it_also_where_older_ones_were_dropped() {
        let outbox = Outbox::default();
        outbox.add_all((0..3).map(|at| change(ChangeKind::Created, 0, at)));
        let (sent, end) = outbox.first(2);
        assert_eq!((sent.iter().map(|it| it.at_ms).collect::<Vec<_>>(), end), (vec![0, 1], 2));
        assert_eq!(outbox.first(2).0, sent, "without a word of the hub they are sent again");
        outbox.taken(end);
        assert_eq!(outbox.first(9).0[0].at_ms, 2);
        outbox.add_all((3..=WAITING_MAX as u64 + 2).map(|at| change(ChangeKind::Created, 0, at)));
        assert_eq!(outbox.counts(), (WAITING_MAX as u64, 1));
        outbox.taken(3);
        assert_eq!(
            (outbox.first(1).0[0].at_ms, outbox.counts().0),
            (3, WAITING_MAX as u64),
            "that one is gone already"
        );
    }
}
