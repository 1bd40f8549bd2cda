//! The remedy for several copies of one job.

use super::copy::{Absence, Copy, Fate};
use super::told::Told;
use super::word::Progress;

/// The remedy for several copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// There is at most one.
    None,
    /// Cancel this one.
    Cancel(usize),
    /// More than one was handed to a worker: it can only be said.
    Doubled,
    /// A copy under cancellation has started since: while the cancellation may still succeed, the others stay.
    Wait,
}

/// The copy that has not started is cancelled; of several that wait, those that the client's answer did not name. Never
/// two at a time: once a cancellation was sent for one copy, only that copy is cancelled, until it has ended or the
/// cancellation can no longer succeed.
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

/// Whether another copy may be, or have been, in the place of this one. Under one id in one region there is one job:
/// cancelling one copy cancels the other, and a read that lags may show the older one.
fn is_shared(copies: &[Copy], at: usize) -> bool {
    let is_never_there = |copy: &Copy| matches!(copy.fate, Fate::Absent { by: Absence::Final | Absence::Buried });
    let is_other = |(other, copy): (usize, &Copy)| {
        other != at && !is_never_there(copy) && copies.get(at).is_some_and(|it| it.place == copy.place)
    };
    copies.iter().enumerate().any(is_other)
}

/// A client that has cancelled the copy named in its answer means the job, and so also a copy that was stored late.
fn called_off(copies: &[Copy], told: &Told) -> Remedy {
    let Told::Stored { place, .. } = told else { return Remedy::None };
    let is_off = |copy: &Copy| copy.place == *place && copy.fate == Fate::Cancelled { by_us: false };
    if !copies.iter().any(is_off) {
        return Remedy::None;
    }
    let left = copies.iter().position(|copy| copy.live() == Some(Progress::Waiting));
    left.map_or(Remedy::None, Remedy::Cancel)
}
