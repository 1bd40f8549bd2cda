//! What follows from asking a region for a job that it may or may not have stored.
//!
//! *Found* is found, whenever it is said. *Absent* is proved only when the connection that carried the job has ended, so that
//! nothing of it is still under way, and two fresh questions after the time that a late write takes are answered "no such job".
//! After a timeout the region may still be at it, so that its absence is never proved; but what it has not stored by then is not waited for
//! within the call: the client is answered as unknown, and the background asks on.

use std::time::Duration;

/// The first pause between two questions within a call; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause within a call.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Questions in a row that nobody answers: the region is gone for longer than a client should be kept waiting.
const SILENT_MAX: usize = 3;
/// "No such job" that is said so often counts.
const NO_MIN: usize = 2;

/// A job that went on, or was refused, after it had been sent is looked for this long in the region that had it first: beyond the longest time for which
/// servers and balancers are known to hold a request.
const WATCH: Duration = Duration::from_secs(15 * 60);
/// Nobody is asked for longer; also the time for which clients may expect an `Idempotency-Key` to be remembered.
const GIVE_UP: Duration = Duration::from_secs(24 * 60 * 60);
/// The pauses of the background: a second, doubled, up to one of these.
const LATER_PAUSE: Duration = Duration::from_secs(1);
/// While a late copy may land and start.
const LATER_PAUSE_WATCHING: Duration = Duration::from_secs(10);
const LATER_PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// How the attempt was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lost {
    /// The connection that carried it has ended.
    Ended,
    /// Time ran out, here or at a balancer: the region may still be at it.
    TimedOut,
}

/// What a region says of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// It has it.
    Has,
    /// It does not have it.
    HasNot,
    /// Nothing, or nothing that is about the job.
    Silent,
}

/// One question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// When it was asked, since the attempt was lost.
    pub at: Duration,
    /// What was said.
    pub word: Word,
}

/// What is known within the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The region has the job.
    Found,
    /// It does not, and will not.
    Absent,
    /// Ask again, so long after the attempt was lost.
    AskAt(Duration),
    /// It cannot be found out within the call.
    Unknown,
}

/// Judges what was heard so far. `grace` is the time that a late write takes, `until` the time that the call has left, both since
/// the attempt was lost.
#[must_use]
pub fn judge(lost: Lost, heard: &[Heard], grace: Duration, until: Duration) -> Verdict {
    if heard.iter().any(|it| it.word == Word::Has) {
        return Verdict::Found;
    }
    let no = |it: &&Heard| it.word == Word::HasNot && it.at >= grace;
    if heard.iter().filter(no).count() >= NO_MIN {
        return if lost == Lost::Ended { Verdict::Absent } else { Verdict::Unknown };
    }
    let silent = heard.iter().rev().take_while(|it| it.word == Word::Silent).count();
    if silent >= SILENT_MAX {
        return Verdict::Unknown;
    }
    let next = heard.last().map_or(Duration::ZERO, |last| {
        let doublings = u32::try_from(heard.len() - 1).unwrap_or(u32::MAX);
        let next = last.at + doubled(PAUSE, doublings, PAUSE_MAX);
        // What is said before then proves nothing; what is said then, does.
        if last.at < grace { next.min(grace) } else { last.at + PAUSE }
    });
    if next < until { Verdict::AskAt(next) } else { Verdict::Unknown }
}

/// What matters for what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// The job may go to no region but its own.
    pub pinned: bool,
    /// `failover.on_unknown` is `redirect`.
    pub redirects_unknown: bool,
    /// Candidates that were not tried and can be.
    pub candidates_left: usize,
    /// It was sent a second time to the same region before.
    pub sent_again: bool,
    /// It was sent on before while nobody knew whether a region had it.
    pub gone_on_unknown: bool,
}

/// What follows within the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// The job that was found is the answer.
    Answer,
    /// The next candidate.
    Next,
    /// The same region once more.
    Again,
    /// 500 `outcome_unknown`, and the background goes on asking.
    Fail,
}

/// What follows from a verdict; one that asks again has nothing to follow yet and counts as unknown.
#[must_use]
pub const fn follow(verdict: Verdict, it: Circumstances) -> Follow {
    match verdict {
        Verdict::Found => Follow::Answer,
        Verdict::Absent if it.candidates_left > 0 => Follow::Next,
        Verdict::Absent if !it.sent_again => Follow::Again,
        Verdict::Absent => Follow::Fail,
        Verdict::Unknown | Verdict::AskAt(_) => {
            let may = it.redirects_unknown && !it.pinned && !it.gone_on_unknown && it.candidates_left > 0;
            if may { Follow::Next } else { Follow::Fail }
        }
    }
}

/// What the background knows of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later {
    /// How the attempt was lost.
    pub lost: Lost,
    /// Whether the region's "no such job" can be believed: it may depend on who asks.
    pub trusted: bool,
    /// Whether a late copy is waited for: the job went on, or was refused after its absence had been proved.
    pub watched: bool,
    /// Since it was sent.
    pub age: Duration,
    /// How often the region was asked.
    pub asks: u32,
    /// How often it said "no such job" so that it counts, by [`counts`].
    pub noes: u32,
    /// What it said last.
    pub word: Word,
}

/// What follows in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The region has the job.
    Landed,
    /// It does not, and will not.
    Absent,
    /// Ask again after this pause.
    AskIn(Duration),
    /// It is not asked about any more.
    Expired,
}

/// Whether "no such job", said so long after the job was sent, says that none will come: after the grace, or, where a late copy is
/// waited for, when the wait is over.
#[must_use]
pub fn counts(word: Word, age: Duration, grace: Duration, watched: bool) -> bool {
    word == Word::HasNot && age >= if watched { WATCH } else { grace }
}

/// Judges what the background has heard.
#[must_use]
pub fn later(it: Later) -> Next {
    if it.word == Word::Has {
        return Next::Landed;
    }
    if it.lost == Lost::Ended && it.trusted && it.noes as usize >= NO_MIN {
        return Next::Absent;
    }
    undecided(it)
}

/// Whether a call that was sent so long ago, and not answered, may still take effect.
#[must_use]
pub fn may_come_late(age: Duration) -> bool {
    age < WATCH
}

/// Whether anybody is asked about a call that was sent so long ago.
#[must_use]
pub fn is_asked_about(age: Duration) -> bool {
    age < GIVE_UP
}

/// Judges when to ask again about what could not be decided, by the time that it has taken so far.
#[must_use]
pub fn undecided(it: Later) -> Next {
    if !is_asked_about(it.age) {
        return Next::Expired;
    }
    let watching = it.watched && it.age < WATCH;
    let longest = if watching { LATER_PAUSE_WATCHING } else { LATER_PAUSE_MAX };
    Next::AskIn(doubled(LATER_PAUSE, it.asks.saturating_sub(1), longest))
}

/// How far a copy of a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyState {
    /// It waits, and no worker has had it.
    Waiting,
    /// A worker has it, or had it.
    Started,
    /// A worker has done it, so that nothing can cancel it any more.
    Completed,
    /// It is not there, or was cancelled before anybody had it.
    Gone,
}

impl CopyState {
    /// How far a job in this state has come, which workers have had so often. Spec: ojs-protocol 3.
    #[must_use]
    pub fn of(state: &str, attempt: u64) -> Self {
        match state {
            "completed" => Self::Completed,
            _ if attempt > 0 => Self::Started,
            "scheduled" | "pending" | "available" => Self::Waiting,
            "cancelled" => Self::Gone,
            _ => Self::Started,
        }
    }
}

/// What is known of the copy that went elsewhere when the other one has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere {
    /// What its region says of it now; none where it says that it has no such job.
    pub copy: Option<CopyState>,
    /// Its region has said that it stored it.
    pub stored: bool,
    /// It was told to cancel it, and its answer was lost.
    pub cancelling: bool,
    /// It was proved before that it does not have it.
    pub absent: bool,
    /// "No such job" does not depend on who asks.
    pub trusted: bool,
    /// How often it said "no such job" after the grace.
    pub noes: u32,
}

/// How far the copy elsewhere has come; none while that is not known.
#[must_use]
pub const fn other_copy(it: Elsewhere) -> Option<CopyState> {
    match it.copy {
        Some(copy) => Some(copy),
        // Not shown any more: our own cancellation came through, or it was done and is forgotten, or is not shown to us.
        None if it.stored && it.cancelling => Some(CopyState::Gone),
        None if it.stored => Some(CopyState::Started),
        None if it.absent || (it.trusted && it.noes as usize >= NO_MIN) => Some(CopyState::Gone),
        None => None,
    }
}

/// What is done about two copies of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// One of them is all there is.
    None,
    /// Cancel the one that landed late.
    CancelLate,
    /// Cancel the one that went elsewhere.
    CancelOther,
    /// Both have started: it can only be said.
    Doubled,
    /// The one that was told to be cancelled has started since: whether that comes through is not known, and while it may, the other
    /// one must stay.
    Wait,
}

/// Which of two copies was told to be cancelled before, and may be at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Told {
    /// None of them.
    Nobody,
    /// The one that landed late.
    Late,
    /// The one that went elsewhere.
    Other,
}

/// The copy that has not started is cancelled; of two that wait, the late one, whose id no client was told. Never both: once one was
/// told, only that one is, unless it is completed and so stays.
#[must_use]
pub const fn remedy(late: CopyState, other: CopyState, told: Told) -> Remedy {
    match (late, other, told) {
        (CopyState::Gone, ..) | (_, CopyState::Gone, _) => Remedy::None,
        (CopyState::Started | CopyState::Completed, CopyState::Started | CopyState::Completed, _) => Remedy::Doubled,
        (CopyState::Waiting, CopyState::Completed, _) | (CopyState::Waiting, _, Told::Nobody | Told::Late) => {
            Remedy::CancelLate
        }
        (CopyState::Completed, CopyState::Waiting, _)
        | (CopyState::Started, CopyState::Waiting, Told::Nobody)
        | (_, CopyState::Waiting, Told::Other) => Remedy::CancelOther,
        (CopyState::Started, CopyState::Waiting, Told::Late)
        | (CopyState::Waiting, CopyState::Started, Told::Other) => Remedy::Wait,
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times.min(31)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests;
