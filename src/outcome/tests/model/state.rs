//! One state of the protocol: what the machine knows, what is in the regions and what is under way.
//!
//! A crash comes where the journal has just recorded what the machine knows, so that the two are never different.

use super::super::world::{self, Entry, Kind, Stage};
use super::*;
use crate::outcome::Settled;
use crate::outcome::call::Answered;
use crate::outcome::copy::Asked;

pub(super) const NOW: Moment = at(10_000);
/// What the id is that the client gave.
const OWN: u8 = 99;

/// What is explored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) kinds: [Kind; 2],
    pub(super) own_id: bool,
    pub(super) pinned: bool,
    pub(super) redirects: bool,
    /// That an own id overwrites its late first write is known, and passed over.
    pub(super) overwrites_itself: bool,
    /// Workers may be quick.
    pub(super) ends: bool,
    pub(super) crashes: u8,
    pub(super) lates: u8,
    pub(super) cancels: u8,
    pub(super) plant: Option<Plant>,
}

/// What the driver or the machine does wrong, to see that the explorer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plant {
    /// Time alone decides, also where ids are guarded.
    NoFence,
    /// A job goes on although nothing has taken its id.
    NextWithoutFence,
    /// An absence by time is final.
    NoWatch,
    /// What is told to go is not in the journal first.
    CancelsUnrecorded,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Cargo {
    Write(Entry),
    Cancel,
}

/// How a request to a region ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Answered,
    AnswerLost,
    /// It reaches its region later.
    Late,
    Dropped,
}

/// Something that reaches its region late.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Flight {
    pub(super) region: usize,
    pub(super) id: u8,
    pub(super) cargo: Cargo,
}

/// What a region has under an id, and what a read that lags may still show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Slot {
    pub(super) now: Option<Entry>,
    pub(super) older: Option<Option<Entry>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Idle,
    /// A copy is on its way, and the journal has it.
    Sending,
    /// A copy is asked about.
    Asking {
        copy: usize,
        last: Option<Answered>,
        repeats: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) placement: Placement,
    pub(super) slots: std::collections::BTreeMap<(usize, u8), Slot>,
    pub(super) flights: Vec<Flight>,
    pub(super) call: Call,
    /// Copies from this one on are of the call.
    pub(super) first: usize,
    pub(super) round: bool,
    pub(super) deleting: Option<usize>,
    pub(super) calls: u8,
    pub(super) crashes: u8,
    pub(super) lates: u8,
    pub(super) cancels: u8,
    /// How often a worker was handed the job.
    pub(super) runs: u8,
    /// A worker has done it.
    pub(super) done: bool,
    /// The client has cancelled it.
    pub(super) called_off: bool,
    /// The client was told that it is stored.
    pub(super) told_stored: bool,
}

impl Case {
    /// Where every region guards its ids, no time is needed: whatever takes a time has taken it already.
    pub(super) fn is_timeless(self) -> bool {
        self.kinds == [Kind::Refuse; 2] && !self.own_id && self.plant.is_none()
    }
}

impl State {
    pub(super) fn new(case: Case) -> Self {
        Self {
            placement: new_placement(case.own_id.then_some("99"), NOW),
            slots: std::collections::BTreeMap::new(),
            flights: Vec::new(),
            call: Call::Idle,
            first: 0,
            round: false,
            deleting: None,
            calls: 2,
            crashes: case.crashes,
            lates: case.lates,
            cancels: case.cancels,
            runs: 0,
            done: false,
            called_off: false,
            told_stored: false,
        }
    }

    pub(super) fn apply(&mut self, event: Event) {
        self.placement.apply(event, NOW, RULES);
    }

    /// Where a copy is.
    pub(super) fn where_is(&self, copy: usize) -> (usize, u8) {
        let place = &self.placement.copies[copy].place;
        (usize::from(place.region.as_str() == "b"), place.job_id.parse().unwrap())
    }

    pub(super) fn stamp(&self, copy: usize) -> u8 {
        self.placement.copies[copy].stamp.as_ref().unwrap().parse().unwrap()
    }

    pub(super) fn slot(&self, place: (usize, u8)) -> Slot {
        self.slots.get(&place).copied().unwrap_or_default()
    }

    pub(super) fn put(&mut self, place: (usize, u8), entry: Entry) {
        if self.slot(place).now != Some(entry) {
            // One read at a time is behind.
            self.forget_older();
            let slot = self.slots.entry(place).or_default();
            *slot = Slot { now: Some(entry), older: Some(slot.now) };
        }
    }

    fn forget_older(&mut self) {
        self.slots.values_mut().for_each(|slot| slot.older = None);
    }

    /// Something reaches its region: whether it was taken.
    pub(super) fn arrive(&mut self, case: Case, flight: &Flight) -> bool {
        let place = (flight.region, flight.id);
        let there = self.slot(place).now;
        let after = match flight.cargo {
            Cargo::Write(entry) => world::write(case.kinds[flight.region], there, entry),
            Cargo::Cancel => there.map(world::cancelled),
        };
        after.inspect(|entry| self.put(place, *entry)).is_some()
    }

    pub(super) fn fly(&mut self, flight: Flight) {
        self.flights.push(flight);
        self.flights.sort();
    }

    /// The job is sent to a region, and the journal has that.
    pub(super) fn send(&mut self, region: usize) {
        let stamps = self.placement.copies.iter().enumerate().map(|(copy, _)| self.stamp(copy));
        let stamp = stamps.max().map_or(0, |stamp| stamp + 1);
        let id = if self.placement.identity.own_id.is_some() { OWN } else { stamp };
        let place = place(["a", "b"][region], &id.to_string());
        self.apply(Event::Sending(place, Some(stamp.to_string())));
        self.call = Call::Sending;
    }

    pub(super) fn tell(&mut self, told: Told) {
        self.told_stored |= matches!(told, Told::Stored { .. });
        self.apply(Event::Told(told));
        self.call = Call::Idle;
        self.first = self.placement.copies.len();
    }

    pub(super) fn crash(&mut self) {
        self.crashes -= 1;
        self.apply(Event::Restarted);
        (self.call, self.first, self.round, self.deleting) = (Call::Idle, self.placement.copies.len(), false, None);
    }

    /// What is the same to the machine is the same state.
    pub(super) fn canonical(mut self, passed: u64, case: Case) -> Self {
        let (kinds, timeless) = (case.kinds, case.is_timeless());
        self.runs = self.runs.min(2);
        self.placement.settled = self.placement.settled.map(|settled| Settled { at: NOW, ..settled });
        let is_of_round = self.round && passed == 0;
        let past = |at| past(at, if timeless { 904 } else { passed });
        let recent = |at: Moment| at.max(Moment(NOW.0 - 3_000));
        for copy in &mut self.placement.copies {
            let is_live = copy.live().is_some();
            let heard = copy.asked.heard.filter(|_| is_of_round && is_live);
            // After the end of a connection its time counts from there.
            let is_ended = matches!(copy.fate, Fate::Unknown { lost: Lost::Ended, .. });
            let is_needed = kinds[usize::from(copy.place.region.as_str() == "b")] == Kind::Refuse || !is_ended;
            let first_no = copy.asked.first_no.filter(|_| is_needed).map(past).map(recent);
            copy.sent = NOW;
            copy.asked = match copy.fate {
                Fate::Unknown { .. } => Asked { first_no, noes: copy.asked.noes, ..Asked::default() },
                Fate::Absent { by: Absence::Watched(_) } => Asked { noes: copy.asked.noes, ..Asked::default() },
                _ => Asked { heard, ..Asked::default() },
            };
            copy.fate = match copy.fate {
                Fate::Unknown { lost, since } => Fate::Unknown { lost, since: recent(past(since)) },
                Fate::Cancelling { since, progress } => Fate::Cancelling { since: past(since), progress },
                Fate::Absent { by: Absence::Watched(until) } => {
                    let is_over = timeless || until.0.saturating_sub(passed * 1_000) <= NOW.0;
                    Fate::Absent { by: Absence::Watched(if is_over { NOW } else { NOW.after(secs(900)) }) }
                }
                fate => fate,
            };
        }
        if passed > 0 {
            self.forget_older();
            self.round = false;
        }
        self
    }

    /// How many times it is there to be run, or was run.
    pub(super) fn instances(&self) -> usize {
        let waiting = self.slots.values().filter(|slot| matches!(slot.now, Some(Entry::Job(_, Stage::Waiting))));
        waiting.count() + usize::from(self.runs)
    }
}

/// A moment some time later: none, more than grace and lag, or more than the watch ago.
fn past(at: Moment, passed: u64) -> Moment {
    let age = NOW.since(at).as_secs() + passed;
    let age = match age {
        0 => 0,
        1..900 => 3,
        _ => 904,
    };
    Moment(NOW.0 - age * 1_000)
}
