//! What is done about several copies of one job.

use super::copy::{Absence, Copy, Fate};
use super::told::Told;
use super::word::Progress;

/// What is done about several copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// There is at most one.
    None,
    /// Cancel this one.
    Cancel(usize),
    /// More than one was handed to a worker: it can only be said.
    Doubled,
    /// One was told to be cancelled and has started since: whether that comes through is not known, and while it may, the others stay.
    Wait,
}

/// The copy that has not started is cancelled; of several that wait, those that the client was not told of. Never two at a time: once one
/// was told to go, only that one is, until it has ended or the cancellation can come no more.
pub(super) fn remedy(copies: &[Copy], told: &Told) -> Remedy {
    if copies.iter().any(|copy| copy.fate == Fate::Overwritten) {
        return Remedy::Doubled;
    }
    let live = || copies.iter().enumerate().filter_map(|(at, copy)| Some((at, copy, copy.live()?)));
    if live().count() < 2 {
        return called_off(copies, told);
    }
    if live().any(|(at, ..)| is_shared(copies, at)) {
        return Remedy::Doubled;
    }
    if let Some((at, _, progress)) = live().find(|(_, copy, _)| matches!(copy.fate, Fate::Cancelling { .. })) {
        return if progress == Progress::Waiting { Remedy::Cancel(at) } else { Remedy::Wait };
    }
    let is_told = |copy: &Copy| matches!(told, Told::Stored { place, .. } if *place == copy.place);
    let waiting = || live().filter(|(.., progress)| *progress == Progress::Waiting);
    let started = live().count() - waiting().count();
    let stays =
        if started > 0 { None } else { waiting().find(|(_, copy, _)| is_told(copy)).or_else(|| waiting().next_back()) };
    let stays = stays.map(|(at, ..)| at);
    match waiting().find(|(at, ..)| Some(*at) != stays) {
        Some((at, ..)) => Remedy::Cancel(at),
        None if started > 1 => Remedy::Doubled,
        None => Remedy::None,
    }
}

/// Whether another copy may be or have been where this one is. Under one id in one region there is one job: whoever cancels one of them
/// cancels the other, and a read that lags may show the one that is not there any more.
fn is_shared(copies: &[Copy], at: usize) -> bool {
    let is_never_there = |copy: &Copy| matches!(copy.fate, Fate::Absent { by: Absence::Final | Absence::Buried });
    let is_other = |(other, copy): (usize, &Copy)| {
        other != at && !is_never_there(copy) && copies.get(at).is_some_and(|it| it.place == copy.place)
    };
    copies.iter().enumerate().any(is_other)
}

/// A client that has cancelled the copy that it was told of means the job, and so the one that came late.
fn called_off(copies: &[Copy], told: &Told) -> Remedy {
    let Told::Stored { place, .. } = told else { return Remedy::None };
    let is_off = |copy: &Copy| copy.place == *place && copy.fate == Fate::Cancelled { by_us: false };
    if !copies.iter().any(is_off) {
        return Remedy::None;
    }
    let left = copies.iter().position(|copy| copy.live() == Some(Progress::Waiting));
    left.map_or(Remedy::None, Remedy::Cancel)
}
