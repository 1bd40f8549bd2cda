//! The next step within a call: for a copy whose answer was lost, and for the job after it.

use std::time::Duration;

use super::absence::Rules;
use super::copy::{Absence, Copy, Fate, Lost};
use crate::base::Moment;

/// The first pause between two questions within a call; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause within a call.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Questions before a region that may still be at the job is taken at its "no such job" for this call.
const ASKS_MIN: u32 = 3;
/// A call gives up once so many questions in a row, for so long, were not answered: most falls of a region's connections are over by
/// then, and a client should not be kept waiting for longer.
const SILENT_MIN: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(2);

/// Steps that follow each other at once where the region answers: the job again, the look-up of its id, the tombstone.
const AT_ONCE: u32 = 3;

/// How a region answered the last question, or the job when it was sent once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answered {
    /// Not at all.
    Silent,
    /// It has no such job.
    No,
    /// The id is taken.
    Taken,
    /// The id is another job's.
    Other,
    /// It takes no job now, or not this one.
    Refused,
}

/// The questions of a call about a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asking {
    times: u32,
    silent: u32,
    /// When the first of them was asked.
    silent_from: Option<Moment>,
    last: Option<(Moment, Answered)>,
}

impl Asking {
    /// Whether the region has said anything to the last question.
    const fn is_answered(&self) -> bool {
        !matches!(self.last, None | Some((_, Answered::Silent)))
    }

    /// Notes the answer to a question that was sent at `at`.
    pub const fn note(&mut self, at: Moment, answered: Answered) {
        self.times = self.times.saturating_add(1);
        (self.silent, self.silent_from) = match (answered, self.silent_from) {
            (Answered::Silent | Answered::Refused, None) => (1, Some(at)),
            (Answered::Silent | Answered::Refused, from) => (self.silent.saturating_add(1), from),
            _ => (0, None),
        };
        self.last = Some((at, answered));
    }
}

/// The means of a call: its time and its permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Until when it may ask.
    pub until: Moment,
    /// How long regions may take.
    pub rules: Rules,
    /// Whether it repeats an earlier one, so that a region that had no time left for that one has answered again since.
    pub repeats: bool,
    /// Whether the region refuses, or returns, an id that it has: the same job may be sent there again.
    pub guarded: bool,
}

/// The next step for one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Ask its region for it.
    Ask,
    /// Send the same job to the same region under the same id. Unless it is answered, the copy is lost anew
    /// ([`Event::Lost`](super::Event::Lost)): this one may come late, too.
    SendAgain,
    /// Take its id by a tombstone.
    Fence,
    /// Nothing before then.
    Wait(Moment),
    /// All is known that can be within the call.
    Done,
}

/// Decides the next step for a copy.
#[must_use]
pub fn next(copy: &Copy, asking: Asking, side: Side, now: Moment) -> Step {
    let (lost, since) = match copy.fate {
        Fate::Unknown { lost, since } => (lost, since),
        // Where the id itself can prove it, time has proved nothing.
        Fate::Absent { by: Absence::Watched(_) } if side.guarded => (Lost::Ended, copy.sent),
        // It may have come since.
        Fate::Absent { by: Absence::Watched(_) } if side.repeats && asking.times == 0 && now < side.until => {
            return Step::Ask;
        }
        _ => return Step::Done,
    };
    let Rules { grace, lag } = side.rules;
    let settles_by_time = side.repeats || lost == Lost::Ended;
    let counts_from = side.rules.counts_from(copy).unwrap_or(since.after(grace + lag));
    let said_no = matches!(asking.last, Some((_, Answered::No))) && asking.times >= ASKS_MIN;
    if !side.guarded && !settles_by_time && said_no && now >= since.after(grace) {
        return Step::Done;
    }
    let at = asking.last.map_or(now, |(last, _)| {
        let next = last.after(PAUSE.saturating_mul(1 << (asking.times - 1).min(31)).min(PAUSE_MAX));
        match () {
            () if side.guarded && asking.is_answered() && asking.times <= AT_ONCE => last,
            // An answer before that time proves nothing; an answer after it does.
            () if last < counts_from => next.min(counts_from),
            () => last.after(PAUSE),
        }
    });
    let is_patient = asking.silent < SILENT_MIN || asking.silent_from.is_none_or(|from| at.since(from) < PATIENCE);
    if at >= side.until || !is_patient {
        return Step::Done;
    }
    if at > now {
        return Step::Wait(at);
    }
    match asking.last {
        _ if !side.guarded => Step::Ask,
        Some((_, Answered::Taken)) => Step::Ask,
        Some((_, Answered::Refused)) => Step::Fence,
        _ => Step::SendAgain,
    }
}

/// The circumstances that decide the job's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// `failover.on_unknown` is `redirect`, and the job is flexible.
    pub redirects_unknown: bool,
    /// A candidate is left that was not tried and can be.
    pub candidates_left: bool,
    /// It was sent a second time to the same region before.
    pub sent_again: bool,
    /// The job was sent on before while an earlier copy was in doubt.
    pub gone_on_unknown: bool,
}

/// The next step for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// It is stored: the region's word is the answer.
    Answer,
    /// The next candidate.
    Next,
    /// The same region once more.
    Again,
    /// The outcome is unknown, or there is no further step.
    Fail,
}

/// Decides the job's next step by the fate of its last copy.
#[must_use]
pub const fn follow(copy: &Copy, it: Circumstances) -> Follow {
    match copy.fate {
        // The caller that cancelled it knew of it.
        Fate::Stored { .. } | Fate::Cancelled { by_us: false } => Follow::Answer,
        Fate::Absent { .. } if it.candidates_left => Follow::Next,
        // The id is taken there.
        Fate::Absent { by: Absence::Fenced | Absence::Buried } => Follow::Fail,
        Fate::Absent { .. } if !it.sent_again => Follow::Again,
        Fate::Unknown { .. } if it.redirects_unknown && !it.gone_on_unknown && it.candidates_left => Follow::Next,
        _ => Follow::Fail,
    }
}
