//! The next action for a placement after its call.
//!
//! One round looks at a placement: [`Placement::apply`] takes in each answer, and [`next`] returns the next action,
//! until that is a time for the next look.

use std::time::Duration;

use super::absence::{GIVE_UP, Rules};
use super::copy::{Absence, Copy, Fate, Place};
use super::placement::{Placement, Settlement};
use super::remedy::{Remedy, remedy};
use super::told::Told;
use crate::base::Moment;

/// The first pause between two questions; each further one is twice as long, up to one of these.
const PAUSE: Duration = Duration::from_secs(1);
/// While a late copy may land and start.
const PAUSE_WATCHING: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);
/// Of several copies, one that came to light as late as can be is tried to be cancelled for as long again.
const GIVE_UP_REMEDY: Duration = Duration::from_secs(2 * GIVE_UP.as_secs());

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Ask the region of this copy for it.
    Ask(usize),
    /// Take the id of this copy by a tombstone.
    Fence(usize),
    /// Cancel the tombstone in the place of this copy.
    Bury(usize),
    /// Cancel this copy, once the journal holds [`Event::Cancelling`](super::Event::Cancelling).
    Cancel(usize),
    /// It is known how it ended.
    Settle(Settlement),
    /// Look again then.
    Wait(Moment),
    /// Nothing is to be done.
    Rest,
}

/// Judges a placement in a round that began then. `guarded` says whether a region refuses or returns a taken id.
#[must_use]
pub fn next(placement: &Placement, now: Moment, round: Moment, guarded: impl Fn(&Place) -> bool) -> Action {
    let is_under_way = placement.copies.iter().any(|copy| copy.fate == Fate::Sent);
    if placement.settled.is_some() || placement.told == Told::Nothing || is_under_way {
        return Action::Rest;
    }
    let mut wait: Option<Moment> = None;
    for (at, copy) in placement.copies.iter().enumerate() {
        if !is_asked_about(copy) {
            continue;
        }
        if now.since(copy.sent) >= GIVE_UP {
            // A tombstone that is not cancelled keeps the job out all the same.
            if matches!(copy.fate, Fate::Absent { by: Absence::Fenced }) {
                continue;
            }
            return Action::Settle(Settlement::Expired);
        }
        if copy.asked.due > now {
            wait = Some(wait.map_or(copy.asked.due, |wait| wait.min(copy.asked.due)));
            continue;
        }
        return match copy.fate {
            Fate::Absent { by: Absence::Fenced } => Action::Bury(at),
            // The client's own id is not taken from it: its repetition settles the matter.
            Fate::Unknown { .. }
                if copy.asked.first_no.is_some() && placement.identity.own_id.is_none() && guarded(&copy.place) =>
            {
                Action::Fence(at)
            }
            _ => Action::Ask(at),
        };
    }
    match remedied(placement, now, round) {
        Some(Action::Wait(at)) => Action::Wait(wait.map_or(at, |wait| wait.min(at))),
        Some(action) => action,
        None => match wait {
            Some(at) => Action::Wait(at),
            None if placement.stored().is_some() => Action::Settle(Settlement::Stored),
            None => Action::Settle(Settlement::Absent),
        },
    }
}

/// The action for several copies; `None` with at most one.
fn remedied(placement: &Placement, now: Moment, round: Moment) -> Option<Action> {
    let found = remedy(&placement.copies, &placement.told);
    if found == Remedy::None {
        return None;
    }
    if placement.copies.iter().any(|copy| copy.fate == Fate::Overwritten) {
        return Some(Action::Settle(Settlement::Doubled));
    }
    if placement.copies.iter().all(|copy| now.since(copy.sent) >= GIVE_UP_REMEDY) {
        let live = placement.copies.iter().filter(|copy| copy.live().is_some()).count();
        return Some(Action::Settle(if live > 1 { Settlement::Doubled } else { Settlement::Expired }));
    }
    // The region of each stored copy must have confirmed it in this round: the copy may have been cancelled since.
    let is_old = |copy: &Copy| copy.live().is_some() && copy.asked.heard.is_none_or(|at| at < round);
    let mut old = placement.copies.iter().enumerate().filter(|(_, copy)| is_old(copy));
    let due =
        |copy: &Copy| copy.asked.due.max(copy.asked.heard.map_or(Moment(0), |at| at.after(Duration::from_millis(1))));
    if let Some((at, copy)) = old.next() {
        return Some(if due(copy) <= now { Action::Ask(at) } else { Action::Wait(due(copy)) });
    }
    // Once in a round.
    let told = |at: usize| {
        placement.copies.get(at).filter(|it| matches!(it.fate, Fate::Cancelling { since, .. } if since >= round))
    };
    match found {
        Remedy::Cancel(at) => {
            Some(told(at).map_or(Action::Cancel(at), |copy| Action::Wait(due(copy).max(now.after(PAUSE)))))
        }
        Remedy::Doubled => Some(Action::Settle(Settlement::Doubled)),
        Remedy::Wait => Some(Action::Wait(now.after(PAUSE_WATCHING))),
        Remedy::None => None,
    }
}

/// Whether something may become known of a copy by itself.
const fn is_asked_about(copy: &Copy) -> bool {
    matches!(
        copy.fate,
        Fate::Unknown { .. } | Fate::Cancelling { .. } | Fate::Absent { by: Absence::Watched(_) | Absence::Fenced }
    )
}

/// When a copy is to be asked about again, after it was asked so often.
pub(super) fn due(copy: &Copy, now: Moment, rules: Rules) -> Moment {
    let longest = match copy.fate {
        Fate::Unknown { .. } => PAUSE_MAX,
        Fate::Absent { by: Absence::Watched(until) } if until <= now && copy.asked.noes == 0 => PAUSE_MAX,
        _ => PAUSE_WATCHING,
    };
    let doublings = copy.asked.times.saturating_sub(1).min(31);
    let next = now.after(PAUSE.saturating_mul(1 << doublings).min(longest));
    match (copy.fate, rules.counts_from(copy)) {
        (Fate::Unknown { .. }, Some(from)) if from > now => next.min(from),
        // An answer that counts once is asked for again soon.
        (Fate::Unknown { .. }, Some(_)) if copy.asked.noes > 0 => next.min(now.after(PAUSE)),
        (Fate::Absent { by: Absence::Watched(until) }, _) if until > now => next.min(until),
        _ => next,
    }
}
