//! The account of one queue: its turns so far, and those that are owed to it.

use std::time::Instant;

use super::rules::WHOLE;

/// The step of a queue of weight 1; others take the part of it that their weight makes.
pub(super) const STEP: u64 = 1 << 20;
/// Jobs that are owed to a queue at most, as many as a call brings: floors whose sum is a whole owe more than there is, and all queues take turns then.
const OWED_MAX: u64 = 10_000 * WHOLE as u64;

/// The account of one queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    /// When its next turn is, in steps from the beginning: the queue with the least has the next one.
    pub(super) next: u64,
    /// The jobs that its floor owes it. Units: millionths.
    owed: u64,
    /// When it had its last turn.
    pub(super) turn_at: Instant,
    /// The number of its last turn among those of all queues.
    pub(super) turn: u64,
    /// Jobs that were asked for since its depth was counted.
    pub(super) taken: u64,
}

impl Account {
    pub(super) const fn new(next: u64, turn: u64, turn_at: Instant) -> Self {
        Self { next, owed: 0, turn_at, turn, taken: 0 }
    }

    /// It is served with so many jobs, or asked for them. Returns how much of it was owed. Units: millionths.
    pub(super) fn pay(&mut self, step: u64, count: u64) -> u64 {
        self.next = self.next.saturating_add(step.saturating_mul(count));
        self.taken = self.taken.saturating_add(count);
        // More than was owed is no debt: the floor is kept in each window, also behind one with many jobs.
        let paid = self.owed.min(count.saturating_mul(u64::from(WHOLE)));
        self.owed -= paid;
        paid
    }

    /// So many jobs that it was asked for did not come, and so much was paid for them that was owed.
    pub(super) fn take_back(&mut self, step: u64, count: u64, paid: u64) {
        self.next = self.next.saturating_sub(step.saturating_mul(count));
        self.taken = self.taken.saturating_sub(count);
        self.owe(paid);
    }

    /// The jobs that its floor owes it. Units: millionths.
    pub(super) const fn owed(&self) -> u64 {
        self.owed
    }

    /// Its floor owes it further jobs. Units: millionths.
    pub(super) fn owe(&mut self, part: u64) {
        self.owed = self.owed.saturating_add(part).min(OWED_MAX);
    }

    /// It has no jobs, which is as good as a turn: it does not fall behind others, nor is anything owed to it.
    pub(super) fn found_empty(&mut self, served: u64) {
        self.owed = 0;
        self.next = self.next.max(served);
    }

    /// Whether a turn for so many jobs is owed to it.
    pub(super) const fn is_owed(&self, count: u64) -> bool {
        self.owed >= count.saturating_mul(WHOLE as u64)
    }
}
