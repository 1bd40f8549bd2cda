//! Tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod absence;
mod apply;
mod background;
mod call;
mod model;
mod remedy;
mod ruling;
mod sim;
mod world;

use std::time::Duration;

use super::{
    Absence, Copy, Event, Fate, Identity, Lost, Moment, Place, Placement, Progress, Rules, ShownTo, Told, Trust, Word,
};
use crate::base::RegionId;

const RULES: Rules = Rules { grace: secs(2), lag: secs(1) };
/// When the tests begin: not at zero, so that nothing holds by chance.
const START: Moment = Moment(1_000_000);
const WAITING: Fate = Fate::Stored { progress: Progress::Waiting };
const STARTED: Fate = Fate::Stored { progress: Progress::Started };
const ENDED: Fate = Fate::Stored { progress: Progress::Ended };
const FINAL: Fate = Fate::Absent { by: Absence::Final };
const FENCED: Fate = Fate::Absent { by: Absence::Fenced };
const BURIED: Fate = Fate::Absent { by: Absence::Buried };

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn at(seconds: u64) -> Moment {
    Moment(START.0 + seconds * 1_000)
}

const fn lost(lost: Lost) -> Fate {
    Fate::Unknown { lost, since: START }
}

const fn watched(seconds: u64) -> Fate {
    Fate::Absent { by: Absence::Watched(at(seconds)) }
}

fn place(region: &str, job_id: &str) -> Place {
    Place { region: RegionId::parse(region).unwrap(), job_id: job_id.to_owned() }
}

fn identity(own_id: Option<&str>) -> Identity {
    Identity {
        tenant: [0; 32],
        caller: [0; 32],
        shown_to: ShownTo::Everybody,
        body: [0; 32],
        content: None,
        key: Some([1; 32]),
        own_id: own_id.map(str::to_owned),
        request_id: String::new(),
    }
}

fn new_placement(own_id: Option<&str>, now: Moment) -> Placement {
    Placement::new(identity(own_id), now, 0)
}

/// A placement whose copies are in regions a, b, c and so on, and whose client was told of the last one where `told`.
fn with_copies(fates: &[Fate], told: bool) -> Placement {
    let mut placement = new_placement(None, START);
    for (name, fate) in ["a", "b", "c", "d"].into_iter().zip(fates) {
        let mut copy = Copy::sending(place(name, name), Some(name.to_owned()), START);
        copy.fate = *fate;
        placement.copies.push(copy);
    }
    let last = placement.copies.last().map(|copy| copy.place.clone());
    placement.told = match last {
        Some(place) if told => Told::Stored { place, status: 201 },
        _ => Told::Unknown,
    };
    placement
}

fn hear(placement: &mut Placement, copy: usize, word: Word, now: Moment) {
    placement.apply(Event::Heard(copy, word, Trust::Believed), now, RULES);
}

fn fate(placement: &Placement, copy: usize) -> Fate {
    placement.copies[copy].fate
}
