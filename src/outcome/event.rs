//! Events of a placement.

use super::absence::{NO_MIN, Rules, Trust, watch_until};
use super::background::due;
use super::copy::{Absence, Asked, Copy, Fate, Lost, Place, Ruling};
use super::placement::{Placement, Settled, Settlement};
use super::told::Told;
use super::word::{Progress, Word};
use crate::base::Moment;

/// Something that has become known, about a copy by its place in [`Placement::copies`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The job is about to be sent to a place, with this tracking id.
    Sending(Place, Option<String>),
    /// Nothing of it was sent after all, or its region refused it: the copy is forgotten.
    NotStored(usize),
    /// Its region says that it has stored it.
    Stored(usize),
    /// It was sent, and the answer is lost.
    Lost(usize, Lost),
    /// Its region was asked for it.
    Heard(usize, Word, Trust),
    /// A tombstone has its id in its region.
    Fenced(usize),
    /// The tombstone is cancelled.
    Buried(usize),
    /// A cancellation is about to be sent to its region, for the first time or again.
    Cancelling(usize),
    /// The client was answered.
    Told(Told),
    /// The placement was read from the journal by a new process: the calls of the last one have ended with it.
    Restarted,
    /// An operator says whether the job is in a place.
    Decided(Place, Ruling),
    /// Nothing more is done about it.
    Settled(Settlement),
}

impl Event {
    /// The copy that it is about.
    const fn copy(&self) -> Option<usize> {
        match self {
            Self::NotStored(at)
            | Self::Stored(at)
            | Self::Lost(at, _)
            | Self::Heard(at, ..)
            | Self::Fenced(at)
            | Self::Buried(at)
            | Self::Cancelling(at) => Some(*at),
            Self::Sending(..) | Self::Decided(..) | Self::Told(_) | Self::Restarted | Self::Settled(_) => None,
        }
    }
}

impl Placement {
    /// Takes in an event.
    pub fn apply(&mut self, event: Event, now: Moment, rules: Rules) {
        debug_assert!(
            event.copy().is_none_or(|at| at < self.copies.len()),
            "an event is about a copy of its placement"
        );
        match event {
            Event::Sending(place, stamp) => {
                self.settled = None;
                // With one id and one tracking id the two copies are indistinguishable.
                let same = self.copies.iter_mut().filter(|copy| copy.place == place && copy.stamp == stamp);
                for copy in same.filter(|copy| matches!(copy.fate, Fate::Absent { .. })) {
                    copy.set(Fate::Absent { by: Absence::Final });
                }
                self.copies.push(Copy::sending(place, stamp, now));
            }
            Event::NotStored(at) => drop((at < self.copies.len()).then(|| self.copies.remove(at))),
            Event::Stored(at) => self.set(at, Fate::Stored { progress: Progress::Waiting }),
            Event::Lost(at, lost) => self.set(at, Fate::Unknown { lost, since: now }),
            Event::Heard(at, word, trust) => {
                let Some(copy) = self.copies.get_mut(at) else { return };
                copy.hear(word, trust, now, rules);
            }
            Event::Fenced(at) => self.set(at, Fate::Absent { by: Absence::Fenced }),
            Event::Buried(at) => self.set(at, Fate::Absent { by: Absence::Buried }),
            Event::Cancelling(at) => {
                let Some(copy) = self.copies.get_mut(at) else { return };
                if let Fate::Stored { progress } | Fate::Cancelling { progress, .. } = copy.fate {
                    copy.fate = Fate::Cancelling { since: now, progress };
                }
            }
            Event::Told(told) => {
                self.told = told;
                // The background begins with a question of its own.
                for copy in &mut self.copies {
                    (copy.asked.times, copy.asked.due) = (0, now);
                }
            }
            Event::Restarted => self.restarted(now),
            Event::Decided(place, ruling) => self.decide(&place, &ruling),
            Event::Settled(how) => self.settled = Some(Settled { how, at: now }),
        }
    }

    fn set(&mut self, at: usize, fate: Fate) {
        if let Some(copy) = self.copies.get_mut(at) {
            copy.set(fate);
        }
    }

    /// The time between two processes is unknown: durations begin anew.
    fn restarted(&mut self, now: Moment) {
        if self.told == Told::Nothing {
            self.told = Told::BrokenOff;
        }
        for copy in &mut self.copies {
            copy.asked = Asked::default();
            copy.fate = match copy.fate {
                Fate::Sent => Fate::Unknown { lost: Lost::Ended, since: now },
                Fate::Unknown { lost, .. } => Fate::Unknown { lost, since: now },
                Fate::Absent { by: Absence::Watched(_) } => Fate::Absent { by: Absence::Watched(watch_until(now)) },
                Fate::Cancelling { progress, .. } => Fate::Cancelling { since: now, progress },
                fate => fate,
            };
        }
    }
}

impl Copy {
    /// Takes in a region's verdict.
    pub fn hear(&mut self, word: Word, trust: Trust, now: Moment, rules: Rules) {
        self.asked.times = self.asked.times.saturating_add(1);
        if word != Word::Silent {
            self.asked.heard = Some(now);
            learn(self, word, trust, now, rules);
        }
        self.asked.due = due(self, now, rules);
    }

    /// Sets a new fate: questions about the old one prove nothing about it any more.
    pub fn set(&mut self, fate: Fate) {
        self.fate = fate;
        self.asked = Asked { heard: self.asked.heard, ..Asked::default() };
    }
}

fn learn(copy: &mut Copy, word: Word, trust: Trust, now: Moment, rules: Rules) {
    let is_no = matches!(word, Word::No | Word::Other);
    match (copy.fate, word) {
        (Fate::Cancelling { since, .. }, _) => {
            if let Some(fate) = cancelled_fate(since, word, trust, now) {
                copy.fate = fate;
            }
        }
        (_, Word::Has(Progress::Cancelled)) => copy.fate = Fate::Cancelled { by_us: false },
        (_, Word::Has(progress)) => copy.fate = Fate::Stored { progress },
        (_, Word::Tombstone(cancelled)) => {
            copy.fate = Fate::Absent { by: if cancelled { Absence::Buried } else { Absence::Fenced } };
        }
        (Fate::Stored { .. }, Word::Other) => copy.fate = Fate::Overwritten,
        // An operator has said so, and its region knows better.
        (Fate::Stored { .. }, Word::No) if is_ruled(copy) && trust == Trust::Believed => {
            copy.set(Fate::Unknown { lost: Lost::Ended, since: now });
        }
        // The region has said that it has the job; a job that it no longer shows was taken by a worker.
        (Fate::Stored { .. }, Word::No) if !is_ruled(copy) => copy.fate = Fate::Stored { progress: Progress::Started },
        // The id was taken by some job: it may be this one, stored late.
        (Fate::Unknown { lost, .. }, Word::Taken) => copy.set(Fate::Unknown { lost, since: now }),
        (Fate::Absent { by: Absence::Watched(_) }, Word::Taken) => {
            copy.set(Fate::Unknown { lost: Lost::Ended, since: now });
        }
        (Fate::Unknown { since, .. }, _) if is_no && trust == Trust::Believed => {
            copy.asked.first_no.get_or_insert(now);
            if rules.counts_from(copy).is_some_and(|from| now >= from) {
                copy.asked.noes += 1;
            }
            if copy.asked.noes >= NO_MIN {
                (copy.fate, copy.asked.noes) = (Fate::Absent { by: Absence::Watched(watch_until(since)) }, 0);
            }
        }
        (Fate::Absent { by: Absence::Watched(until) }, _) if is_no && trust == Trust::Believed && now >= until => {
            copy.asked.noes += 1;
            if copy.asked.noes >= NO_MIN {
                copy.fate = Fate::Absent { by: Absence::Final };
            }
        }
        _ => {}
    }
}

/// Whether it is held to be there by an operator's word.
fn is_ruled(copy: &Copy) -> bool {
    copy.ruling.as_ref().is_some_and(|ruling| ruling.stored)
}

/// The fate of a copy after a cancellation was sent; `None` without a change.
fn cancelled_fate(since: Moment, word: Word, trust: Trust, now: Moment) -> Option<Fate> {
    let may_still_go = now < watch_until(since);
    match word {
        Word::Has(Progress::Cancelled) => Some(Fate::Cancelled { by_us: true }),
        // A worker had it before it was cancelled, or another copy has overwritten it: the other copy stays, and both
        // may have run.
        Word::Has(Progress::Stopped) | Word::Other => Some(Fate::Overwritten),
        Word::Has(Progress::Ended) => Some(Fate::Stored { progress: Progress::Ended }),
        Word::Has(progress) if may_still_go => Some(Fate::Cancelling { since, progress }),
        Word::Has(progress) => Some(Fate::Stored { progress }),
        // A read that is behind does not show it yet.
        Word::No if trust == Trust::Believed && !may_still_go => Some(Fate::Cancelled { by_us: true }),
        Word::No | Word::Taken | Word::Tombstone(_) | Word::Silent => None,
    }
}
