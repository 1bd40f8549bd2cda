//! The protocol of two regions and two calls, every state of it: a call and its keyed repetition, the background, crashes, requests that
//! arrive late, reads that lag, workers, and the client's own cancellation.
//!
//! Time is coarse: now, after grace and lag, after the watch. That a request arrives later than the watch is not modelled.

mod moves;
mod state;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher as _;

use super::world::Kind;
use super::*;
use crate::outcome::State as Said;
use moves::{Label, Moves};
use state::{Call, Case, Plant, State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// The client was told that it is stored, and no worker will get it.
    Lost,
    /// Two copies were run, or will be, and the placement is at rest without saying so.
    DoubledInSilence,
    /// Two copies, where ids are guarded.
    Doubled,
    /// What is said at rest is not what is there.
    SaidWrongly,
    /// Nothing leads to rest from here.
    Stuck,
}

/// What a state breaks.
fn broken(case: Case, state: &State) -> Option<Broken> {
    let there = state.slots.values().filter_map(|slot| slot.now).any(super::world::counts);
    if state.told_stored && !state.called_off && !there && !state.done {
        return Some(Broken::Lost);
    }
    let all_guard = case.kinds == [Kind::Refuse; 2] && !case.redirects;
    if all_guard && state.instances() > 1 {
        return Some(Broken::Doubled);
    }
    if state.call != Call::Idle || !state.placement.is_at_rest() || !state.flights.is_empty() {
        return None;
    }
    let said = state.placement.state();
    match (said, state.instances()) {
        (Said::Doubled, _) => None,
        (_, 2..) if case.overwrites_itself => None,
        (_, 2..) => Some(Broken::DoubledInSilence),
        (Said::Absent, 1) | (Said::Stored, 0) if !state.called_off => Some(Broken::SaidWrongly),
        _ => None,
    }
}

struct Explored {
    states: usize,
    found: Option<(Broken, String)>,
}

/// Every state that can be reached, breadth first, until one breaks something.
fn explore(case: Case) -> Explored {
    let hasher = foldhash::fast::FixedState::default();
    let mut known: HashMap<u64, usize> = HashMap::new();
    let mut ways: Vec<(usize, Label)> = vec![(0, ("start", 0))];
    let mut back: Vec<Vec<u32>> = vec![Vec::new()];
    let mut at_rest: Vec<usize> = Vec::new();
    let start = State::new(case).canonical(0, case);
    known.insert(hasher.hash_one(&start), 0);
    let mut next = VecDeque::from([(0_usize, start)]);
    while let Some((number, state)) = next.pop_front() {
        if let Some(what) = broken(case, &state) {
            return Explored { states: ways.len(), found: Some((what, way_to(&ways, number, &state))) };
        }
        if state.placement.is_at_rest() || state.placement.copies.is_empty() {
            at_rest.push(number);
        }
        for (label, after) in Moves::of(case, &state) {
            let new = ways.len();
            let there = *known.entry(hasher.hash_one(&after)).or_insert(new);
            if there == new {
                ways.push((number, label));
                back.push(Vec::new());
                next.push_back((new, after));
            }
            back[there].push(u32::try_from(number).unwrap());
        }
    }
    let found = stuck(&back, &at_rest).map(|number| (Broken::Stuck, way_to(&ways, number, &State::new(case))));
    Explored { states: ways.len(), found }
}

/// A state from which no way leads to rest.
fn stuck(back: &[Vec<u32>], at_rest: &[usize]) -> Option<usize> {
    let mut can_rest = vec![false; back.len()];
    let mut todo = at_rest.to_vec();
    while let Some(number) = todo.pop() {
        if !std::mem::replace(&mut can_rest[number], true) {
            todo.extend(back[number].iter().map(|from| *from as usize));
        }
    }
    can_rest.iter().position(|can| !can)
}

fn way_to(ways: &[(usize, Label)], mut number: usize, state: &State) -> String {
    let mut way = Vec::new();
    while number != 0 {
        let (before, (what, which)) = ways[number];
        way.push(format!("{what} ({which})"));
        number = before;
    }
    way.reverse();
    let fates: Vec<Fate> = state.placement.copies.iter().map(|copy| copy.fate).collect();
    let slots = &state.slots;
    format!("{}\n{fates:?} {slots:?} {:?} {:?}", way.join("\n"), state.placement.told, state.placement.settled)
}

const CASE: Case = Case {
    kinds: [Kind::Overwrite; 2],
    own_id: false,
    pinned: false,
    redirects: false,
    overwrites_itself: false,
    ends: false,
    crashes: 0,
    lates: 1,
    cancels: 0,
    plant: None,
};

const OVERWRITES: Case = CASE;
const GUARDS: Case = Case { kinds: [Kind::Refuse; 2], ..CASE };

/// Explores all that a case can come to.
fn holds(case: Case) {
    let Explored { states, found } = explore(case);
    if let Some((what, way)) = found {
        panic!("{what:?} in {case:?}, after {states} states:\n{way}");
    }
    assert!(states > 1_000, "{states} states are no protocol");
}

/// What the explorer finds, and the way there.
fn finds(case: Case) -> (Option<Broken>, String) {
    explore(case).found.map_or((None, String::new()), |(what, way)| (Some(what), way))
}

#[test]
fn where_ids_are_overwritten_no_history_loses_a_job_or_hides_a_double() {
    holds(OVERWRITES);
    holds(Case { crashes: 1, pinned: true, ..OVERWRITES });
}

#[test]
fn where_ids_are_overwritten_the_clients_cancellation_is_kept() {
    holds(Case { cancels: 1, pinned: true, ends: true, ..OVERWRITES });
}

#[test]
fn where_ids_are_guarded_no_history_doubles_a_job_at_all() {
    holds(GUARDS);
    holds(Case { pinned: true, crashes: 1, lates: 2, ..GUARDS });
    holds(Case { own_id: true, ..GUARDS });
    holds(Case { own_id: true, pinned: true, crashes: 1, ..GUARDS });
}

#[test]
fn where_the_second_region_guards_ids_no_history_loses_a_job_or_hides_a_double() {
    holds(Case { kinds: [Kind::Overwrite, Kind::Refuse], ..CASE });
}

#[test]
fn what_is_sent_on_unknown_is_doubled_only_aloud() {
    holds(Case { redirects: true, ..GUARDS });
}

/// Runs for minutes: `MODEL_WIDE=1 cargo test --lib outcome::tests::model`.
#[test]
fn more_crashes_and_late_requests_change_nothing() {
    if std::env::var_os("MODEL_WIDE").is_none() {
        return;
    }
    holds(Case { crashes: 1, ends: true, ..GUARDS });
    holds(Case { crashes: 1, ends: true, ..OVERWRITES });
    holds(Case { crashes: 2, lates: 2, pinned: true, ..OVERWRITES });
    holds(Case { cancels: 1, ..OVERWRITES });
    holds(Case { redirects: true, ..OVERWRITES });
    for kinds in [[Kind::Refuse, Kind::Overwrite], [Kind::Overwrite, Kind::Refuse]] {
        holds(Case { kinds, crashes: 1, ..CASE });
    }
}

/// The limit of what can be promised: an own id is sent again to a region that overwrites, just after the first write has landed late and
/// has been started, and before any read shows it. Nothing is left there to tell of it.
#[test]
fn an_own_id_that_overwrites_its_late_first_write_is_the_one_silent_double() {
    let own = Case { own_id: true, ..OVERWRITES };
    assert_eq!(finds(own).0, Some(Broken::DoubledInSilence));
    holds(Case { overwrites_itself: true, pinned: true, ..own });
}

#[test]
fn without_the_fence_the_explorer_finds_the_late_write() {
    let (found, way) = finds(Case { plant: Some(Plant::NoFence), ..GUARDS });
    assert_eq!(found, Some(Broken::Doubled));
    assert!(way.contains("arrives late"), "{way}");
    assert_eq!(finds(Case { plant: Some(Plant::NextWithoutFence), ..GUARDS }).0, Some(Broken::Doubled));
}

#[test]
fn a_machine_that_does_not_watch_or_record_is_found_out() {
    let (found, way) = finds(Case { plant: Some(Plant::NoWatch), ..OVERWRITES });
    assert!(matches!(found, Some(Broken::SaidWrongly | Broken::DoubledInSilence)), "{found:?}\n{way}");
    let unrecorded = Case { plant: Some(Plant::CancelsUnrecorded), crashes: 1, ..OVERWRITES };
    assert_eq!(finds(unrecorded).0, Some(Broken::Lost));
}
