//! The judgement over one job: what its clients were told, what the journal says, what the regions store and what came to their
//! sockets. Pure: it is fed histories of every kind of wrong in its tests.
//!
//! The rule is the program's second promise and its first. A 2xx means that a permitted region has the job, once. What may have
//! happened twice, or not at all, is in the journal. No byte of a pinned job comes to another region's socket. What a client does
//! itself by sending again what carries neither id nor key, is told apart and counted.

use super::ledger::{End, Issue, JobId, Send};
use crate::journal::State;

/// A copy of a job in a region's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) region: u8,
    pub(super) id: JobId,
    /// Cancelled: it will not run.
    pub(super) cancelled: bool,
    /// How often the region was sent this id.
    pub(super) stored: u32,
    /// Units: milliseconds since the Unix epoch.
    pub(super) created_ms: u64,
}

/// A row of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) job: Option<JobId>,
    pub(super) region: u8,
    /// The number of the call among those for the job.
    pub(super) send: u8,
    pub(super) at_ms: u64,
    pub(super) state: State,
    pub(super) elsewhere: Option<(u8, JobId)>,
    pub(super) cancelled_in: Option<u8>,
    pub(super) resolved_ms: Option<u64>,
    /// Whether the journal still has it at the end; else the plan destroyed that journal, and this is what it said last.
    pub(super) kept: bool,
}

/// One life of the sidecar's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Epoch {
    /// Why it was started.
    pub(super) why: &'static str,
    /// Whether what it journalled was on disk before it was answered.
    pub(super) durable: bool,
    /// Grows when the journal that it found lacked what was written before.
    pub(super) generation: u32,
}

/// Everything that is known of one job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'c> {
    pub(super) issue: &'c Issue,
    pub(super) copies: &'c [Copy],
    pub(super) rows: &'c [Row],
    /// The calls that came to regions: number of the call, region.
    pub(super) arrivals: &'c [(u8, u8)],
    /// The regions at whose sockets its arguments were seen, a bit for each.
    pub(super) seen: u8,
    pub(super) epochs: &'c [Epoch],
    /// What the sidecar was told a late write takes at most.
    pub(super) grace_ms: u64,
}

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wrong {
    /// Answered 2xx, and no region has it.
    Lost,
    /// Stored in a region that it may not be in.
    Astray,
    /// Its bytes came to the socket of a region that it may not be in.
    Leaked,
    /// Stored more than once, and nobody says so.
    Doubled,
    /// The client was told that it is not stored, and it is.
    RefusedAndStored,
    /// Answered as unknown, and the journal has nothing about it.
    Unreported,
    /// The journal says that it landed, and the region does not have it.
    FalselyLanded,
    /// The journal says that it never came to be stored, and it was there already.
    FalselyAbsent,
    /// The same minted id was sent to a region twice.
    Resent,
}

/// What may be, and is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Note {
    /// 2xx, and one region has it.
    StoredOnce,
    /// Refused for good, and no region has it.
    RefusedOnly,
    /// 2xx for a copy that was cancelled because another one had started.
    OtherCopyKept,
    /// Unknown, and by the journal stored.
    UnknownLanded,
    /// Unknown, and by the journal not stored.
    UnknownAbsent,
    /// Unknown, and listed as such.
    UnknownPending,
    /// Unknown, and in a journal that the plan destroyed before it was known.
    UnknownForgotten,
    /// No answer, and stored.
    SilentStored,
    /// No answer, and not stored.
    SilentAbsent,
    /// Twice, and the journal says so or watches it.
    DoubleReported,
    /// Twice: the client lost an answer and sent again a job without id and key.
    DoubleByReplay,
    /// Twice: the client lost an answer with the process that knew its id, and the repetition went to another region.
    DoubleByOwnId,
    /// Twice: the key was in a journal that the plan destroyed.
    DoubleByLostKey,
    /// A region stored it later after the end of its call than the sidecar was told to expect.
    LateWrite,
}

/// What the judgement came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) wrongs: Vec<Wrong>,
    pub(super) notes: Vec<Note>,
}

/// Judges one job.
pub(super) fn judge(case: Case<'_>) -> Judged {
    let mut judged = Judged::default();
    case.places(&mut judged);
    case.answers(&mut judged);
    case.doubles(&mut judged);
    case.refusals(&mut judged);
    case.unknowns(&mut judged);
    case.rows(&mut judged);
    judged
}

impl<'c> Case<'c> {
    fn live(self) -> impl Iterator<Item = &'c Copy> {
        self.copies.iter().filter(|copy| !copy.cancelled)
    }

    fn ends(self) -> impl Iterator<Item = End> {
        self.issue.sends.iter().map(|send| send.end)
    }

    fn is_minted(self) -> bool {
        self.issue.own.is_none() && !self.issue.keyed
    }

    fn places(self, judged: &mut Judged) {
        let forbidden = !self.issue.permitted;
        if self.copies.iter().any(|copy| bit(copy.region) & forbidden != 0) {
            judged.wrongs.push(Wrong::Astray);
        }
        if self.seen & forbidden != 0 {
            judged.wrongs.push(Wrong::Leaked);
        }
        if self.is_minted() && self.copies.iter().any(|copy| copy.stored > 1) {
            judged.wrongs.push(Wrong::Resent);
        }
    }

    /// Every 2xx is stored.
    fn answers(self, judged: &mut Judged) {
        let mut once = false;
        for end in self.ends() {
            let End::Stored(id) = end else { continue };
            if self.live().any(|copy| copy.id == id) {
                once = true;
            } else if self.live().next().is_some() && self.was_given_up(id) {
                judged.notes.push(Note::OtherCopyKept);
            } else {
                judged.wrongs.push(Wrong::Lost);
            }
        }
        if once && self.live().count() == 1 {
            judged.notes.push(Note::StoredOnce);
        }
    }

    /// Whether a copy was cancelled in favour of another one, as the journal tells, or cannot tell any more.
    fn was_given_up(self, id: JobId) -> bool {
        if self.rows.iter().any(|row| row.gave_up(id)) {
            return true;
        }
        let cancelled = self.copies.iter().any(|copy| copy.id == id && copy.cancelled);
        cancelled && self.issue.sends.iter().any(|send| self.epoch(send.epoch).is_some_and(|epoch| !epoch.durable))
    }

    /// Every further copy has a reason that somebody was told of.
    fn doubles(self, judged: &mut Judged) {
        let mut extra = self.live().count().saturating_sub(1);
        let reasons = [
            (Note::DoubleReported, self.live().filter(|copy| self.is_reported(copy)).count()),
            (Note::LateWrite, self.live().filter(|copy| self.is_late(copy)).count()),
            self.own_doing(),
        ];
        for (note, explained) in reasons {
            let explained = explained.min(extra);
            judged.notes.extend(std::iter::repeat_n(note, explained));
            extra -= explained;
        }
        judged.wrongs.extend(std::iter::repeat_n(Wrong::Doubled, extra));
    }

    /// How many copies the client, or the plan, has to answer for.
    fn own_doing(self) -> (Note, usize) {
        let sends = &self.issue.sends;
        let repeated = |place: usize| place + 1 < sends.len();
        if self.issue.keyed {
            let open = |send: &Send| !matches!(send.end, End::Refused(_) | End::Conflict);
            let forgotten = |(place, send): &(usize, &Send)| {
                open(send) && sends.iter().skip(place + 1).any(|later| self.has_forgotten(send.epoch, later.epoch))
            };
            return (Note::DoubleByLostKey, sends.iter().enumerate().filter(forgotten).count());
        }
        let silent =
            sends.iter().enumerate().filter(|(place, send)| send.end == End::Silent && repeated(*place)).count();
        if self.issue.own.is_some() { (Note::DoubleByOwnId, silent) } else { (Note::DoubleByReplay, silent) }
    }

    /// Whether a later process lacks what an earlier one had journalled.
    fn has_forgotten(self, earlier: u16, later: u16) -> bool {
        let (Some(earlier), Some(later)) = (self.epoch(earlier), self.epoch(later)) else { return false };
        earlier != later && (!earlier.durable || earlier.generation != later.generation)
    }

    fn epoch(self, number: u16) -> Option<&'c Epoch> {
        self.epochs.get(usize::from(number))
    }

    /// Whether the journal says of this copy that it is one too many, or that nobody knows yet; or that it landed late, of a job that
    /// its client was told is not there and which nothing ties to the one that it then sent.
    fn is_reported(self, copy: &Copy) -> bool {
        let is_about = |row: &&Row| row.region == copy.region && row.job == Some(copy.id);
        let refused = |row: &Row| {
            let send = self.issue.sends.get(usize::from(row.send));
            self.is_minted() && send.is_some_and(|send| matches!(send.end, End::Refused(_)))
        };
        self.rows.iter().filter(is_about).any(|row| match row.state {
            State::Doubled | State::Pending | State::Expired => true,
            State::Landed => refused(row) && row.at_ms <= copy.created_ms,
            State::Absent => false,
        })
    }

    /// Whether a copy was stored so long after a call that had come to its region, that the sidecar could not know: after its end,
    /// or, where its absence was proved within the call and the journal that says so is gone, after its beginning.
    fn is_late(self, copy: &Copy) -> bool {
        // Under a client's own id both copies have the same one, and the answer was about the one that was there by then.
        let told = |send: &Send| send.end == End::Stored(copy.id) && copy.created_ms <= send.ended_ms;
        let answered = self.issue.sends.iter().any(told);
        let came_by = |send: &Send, number: usize| {
            let arrived =
                self.arrivals.iter().any(|(call, region)| usize::from(*call) == number && *region == copy.region);
            // The row that would tell of it is gone where it was in memory only.
            let untold = self.epoch(send.epoch).is_some_and(|epoch| !epoch.durable);
            let over_ms = if untold { send.began_ms } else { send.ended_ms };
            arrived && over_ms.saturating_add(self.grace_ms) < copy.created_ms
        };
        !answered && self.issue.sends.iter().enumerate().any(|(number, send)| came_by(send, number))
    }

    /// What was refused each time is not stored.
    fn refusals(self, judged: &mut Judged) {
        let refused = !self.issue.sends.is_empty() && self.ends().all(|end| matches!(end, End::Refused(_)));
        if !refused {
            return;
        }
        match self.live().next() {
            None => judged.notes.push(Note::RefusedOnly),
            Some(copy) if self.was_watched(copy) => judged.notes.push(Note::DoubleReported),
            Some(copy) if self.is_late(copy) => judged.notes.push(Note::LateWrite),
            Some(_) => judged.wrongs.push(Wrong::RefusedAndStored),
        }
    }

    /// Whether the journal said of this copy that it might still come, before it came.
    fn was_watched(self, copy: &Copy) -> bool {
        let is_about = |row: &&Row| row.region == copy.region && row.job == Some(copy.id);
        let said = |row: &Row| row.at_ms <= copy.created_ms && row.state != State::Absent;
        self.rows.iter().filter(is_about).any(said)
    }

    /// What was answered as unknown, or not at all.
    fn unknowns(self, judged: &mut Judged) {
        for (number, send) in self.issue.sends.iter().enumerate() {
            match send.end {
                End::Unknown(id) => self.unknown(number, send, id, judged),
                End::Silent if self.live().next().is_some() => judged.notes.push(Note::SilentStored),
                End::Silent => judged.notes.push(Note::SilentAbsent),
                _ => {}
            }
        }
    }

    fn unknown(self, number: usize, send: &Send, id: Option<JobId>, judged: &mut Judged) {
        let same_call = |row: &&Row| usize::from(row.send) == number;
        let same_id = |row: &&Row| id.is_some() && row.job == id;
        let row = self.rows.iter().find(same_id).or_else(|| self.rows.iter().find(same_call));
        // A repetition of what is unknown already has no row of its own.
        let row = row.or_else(|| self.rows.first().filter(|_| !self.is_minted()));
        match row.map(|row| (row.state, row.kept)) {
            Some((State::Landed | State::Doubled, _)) => judged.notes.push(Note::UnknownLanded),
            Some((State::Absent, _)) => judged.notes.push(Note::UnknownAbsent),
            Some((State::Pending | State::Expired, true)) => judged.notes.push(Note::UnknownPending),
            Some((State::Pending | State::Expired, false)) => judged.notes.push(Note::UnknownForgotten),
            None if self.may_be_forgotten(send) => judged.notes.push(Note::UnknownForgotten),
            None => judged.wrongs.push(Wrong::Unreported),
        }
    }

    /// Whether the row of an unknown outcome may be gone with a journal that the plan destroyed: that of its own process, or for a
    /// repetition that of an earlier one.
    fn may_be_forgotten(self, send: &Send) -> bool {
        let gone = |send: &Send| self.epoch(send.epoch).is_some_and(|epoch| !epoch.durable);
        gone(send) || (!self.is_minted() && self.issue.sends.iter().any(gone))
    }

    /// What the journal says is true.
    fn rows(self, judged: &mut Judged) {
        for row in self.rows {
            let Some(id) = row.job else { continue };
            let copy = self.copies.iter().find(|copy| copy.id == id && copy.region == row.region);
            match (row.state, copy) {
                (State::Landed, None) => judged.wrongs.push(Wrong::FalselyLanded),
                (State::Absent, Some(copy)) if !copy.cancelled && !self.was_sent_again(row) => {
                    if copy.created_ms > row.at_ms.saturating_add(self.grace_ms) {
                        judged.notes.push(Note::LateWrite);
                    } else {
                        judged.wrongs.push(Wrong::FalselyAbsent);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether the same id came to the row's region more than once, or by another call: what is there now may be from that.
    fn was_sent_again(self, row: &Row) -> bool {
        let here = || self.arrivals.iter().filter(|(_, region)| *region == row.region);
        !self.is_minted() && (here().count() > 1 || here().any(|(call, _)| *call != row.send))
    }
}

impl Row {
    /// Whether the copy with this id was cancelled in favour of another one.
    fn gave_up(&self, id: JobId) -> bool {
        self.cancelled_in.is_some() && (self.job == Some(id) || self.elsewhere.is_some_and(|(_, other)| other == id))
    }
}

const fn bit(region: u8) -> u8 {
    1_u8.wrapping_shl(region as u32)
}

#[cfg(test)]
mod tests;
