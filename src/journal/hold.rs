//! A placement that a call is busy with.

use std::sync::Arc;

use super::Journal;
use crate::outcome::{Digest, Event, Identity, Lost, Placement, Rules, Settlement, Told};

impl Journal {
    /// Begins a placement. No other thread sees it before it is saved.
    #[must_use]
    pub fn begin(self: &Arc<Self>, identity: Identity, rules: Rules) -> Hold {
        let placement = Placement::new(identity, self.now(), self.inner.clock.unix_ms());
        Hold::new(Arc::clone(self), placement, rules)
    }

    /// Takes a placement for a call; none where another call has it, or it is not there any more.
    #[must_use]
    pub fn hold(self: &Arc<Self>, number: u64, rules: Rules) -> Option<Hold> {
        let placement = self.inner.table.lock().hold(number)?;
        Some(Hold::new(Arc::clone(self), placement, rules))
    }
}

/// A placement that a call holds: no other thread changes it until it is ended or dropped.
///
/// Applied events are in memory; [`Hold::save`] and [`Hold::save_durably`] record them. A hold that is dropped without
/// an end, because its client disconnected, is left to the background.
#[derive(Debug)]
pub struct Hold {
    journal: Arc<Journal>,
    placement: Placement,
    rules: Rules,
    /// Whether its outcome was unknown before the call, so that a hub may have it so.
    had_outcome: bool,
    ended: bool,
}

impl Hold {
    fn new(journal: Arc<Journal>, placement: Placement, rules: Rules) -> Self {
        let had_outcome = placement.has_outcome();
        Self { journal, placement, rules, had_outcome, ended: false }
    }

    /// The placement as it is.
    #[must_use]
    pub const fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The placement, for fields that the machine does not decide.
    pub const fn placement_mut(&mut self) -> &mut Placement {
        &mut self.placement
    }

    /// Takes in an event.
    pub fn apply(&mut self, event: Event) {
        let now = self.journal.now();
        self.placement.apply(event, now, self.rules);
    }

    /// Records it; the file follows when it can.
    pub fn save(&mut self) {
        self.journal.record(&mut self.placement);
    }

    /// Records it, and returns whether it is on disk, or there is no disk to wait for. Waits for a bounded time.
    ///
    /// Cancel: it is recorded all the same.
    pub async fn save_durably(&mut self) -> bool {
        self.journal.record_durably(&mut self.placement).await
    }

    /// Ends the call with this answer to its client. A placement that leaves nothing to clear up or to repeat is
    /// forgotten.
    pub fn end(mut self, told: Told) {
        self.ended = true;
        let is_stored = matches!(told, Told::Stored { .. });
        self.apply(Event::Told(told));
        self.settle();
        if self.is_kept() || (is_stored && self.placement.identity.key.is_some()) {
            self.save();
        } else {
            self.forget();
        }
        self.let_go();
    }

    /// As [`Hold::end`]; the remaining record is on disk before the client's answer is sent.
    pub async fn end_durably(mut self, told: Told) {
        self.ended = true;
        self.apply(Event::Told(told));
        self.settle();
        self.save_durably().await;
        self.let_go();
    }

    /// Leaves the placement as the journal has it, without the events since.
    pub fn leave(mut self) {
        self.ended = true;
        if self.placement.number == 0 {
            // The answer to its claim may be lost, so that the hub holds the key for it.
            self.apply(Event::Told(Told::BrokenOff));
            self.journal.abandon(&self.placement);
        } else {
            self.settle();
            self.save();
        }
        self.let_go();
    }

    /// Puts the job under this key. The claim of a key that it had before is released.
    pub fn take_key(&mut self, key: Digest) {
        if self.placement.identity.key != Some(key) {
            self.journal.abandon(&self.placement);
            self.placement.identity.key = Some(key);
            self.placement.key_claim = None;
        }
    }

    /// Has the end of this call kept as that of an outcome that was unknown, so that repetitions are answered from it.
    pub const fn keep_end(&mut self) {
        self.had_outcome = true;
    }

    /// Ends it by its known state, and keeps that.
    pub fn leave_kept(mut self) {
        (self.ended, self.had_outcome) = (true, true);
        self.settle();
        self.save();
        self.let_go();
    }

    fn forget(&self) {
        self.journal.abandon(&self.placement);
        self.journal.forget(self.placement.number);
    }

    fn let_go(&self) {
        self.journal.release(self.placement.number);
        if self.placement.key_claim.is_some() {
            self.journal.keys().wake();
        }
    }

    /// Says how it ended where its outcome was unknown before: the record outlives this process and is kept as long as other outcomes, until
    /// the hub that has it as `unknown` knows better.
    fn settle(&mut self) {
        if self.had_outcome && self.placement.settled.is_none() && self.placement.is_at_rest() {
            let how = if self.placement.stored().is_some() { Settlement::Stored } else { Settlement::Absent };
            self.apply(Event::Settled(how));
        }
    }

    /// Whether it leaves a record: of its outcome, or of the end of a key that the hub does not have.
    fn is_kept(&self) -> bool {
        let has_end = self.placement.number != 0 && self.placement.unsettled().is_some();
        self.had_outcome || self.placement.has_traces() || has_end
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Its connection may have been handed back to its pool and still be read: that the call ended proves nothing.
        let now = self.journal.now();
        for at in 0..self.placement.copies.len() {
            if self.placement.copies.get(at).is_some_and(|copy| copy.fate == crate::outcome::Fate::Sent) {
                self.placement.apply(Event::Lost(at, Lost::TimedOut), now, self.rules);
            }
        }
        if self.placement.told == Told::Nothing {
            self.placement.apply(Event::Told(Told::BrokenOff), now, self.rules);
        }
        self.settle();
        if self.is_kept() {
            self.journal.record(&mut self.placement);
        } else {
            self.forget();
        }
        self.let_go();
    }
}
