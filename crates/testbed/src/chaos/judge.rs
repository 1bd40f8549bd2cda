//! The judgement over one job: its clients' answers, the journal's records, the regions' jobs and the bytes at their
//! sockets. Pure: its tests feed it histories of every kind of fault.
//!
//! The rule is the program's second promise and its first. A 2xx means that a permitted region has the job, once. A job
//! that may have happened twice, or not at all, is in the journal. No byte of a pinned job comes to another region's
//! socket. A client that sends a job again without id or key duplicates it itself, which is counted apart.

use super::case::{Case, Copy, Epoch, Fate, Judged, Note, Row, Wrong};
use super::ledger::{End, JobId, Send};
use crate::DuplicateIds;

/// Judges one job.
pub(super) fn judge(case: Case<'_>) -> Judged {
    let mut judged = Judged::default();
    case.places(&mut judged);
    case.answers(&mut judged);
    case.doubles(&mut judged);
    case.refusals(&mut judged);
    case.unknowns(&mut judged);
    case.rows(&mut judged);
    case.runs(&mut judged);
    case.last_word(&mut judged);
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
        // Where a taken id is refused, or returned, the same id is sent again to clear up the first try.
        let again = |copy: &Copy| copy.stored > 1 && self.overwrites(copy.region);
        if self.is_minted() && self.copies.iter().any(again) {
            judged.wrongs.push(Wrong::Resent);
        }
    }

    /// Every 2xx is stored.
    fn answers(self, judged: &mut Judged) {
        let mut once = false;
        for end in self.ends() {
            if let End::Shown(_) = end {
                self.shown(judged);
            }
            let End::Stored(id) = end else { continue };
            if self.live().any(|copy| copy.id == id) {
                once = true;
            } else if self.live().next().is_some() && self.was_given_up(id) {
                judged.notes.push(Note::OtherCopyKept);
            } else if self.was_overwritten(id) {
                judged.notes.push(Note::OverwrittenByClient);
            } else {
                judged.wrongs.push(Wrong::Lost);
            }
        }
        if once && self.live().count() == 1 {
            judged.notes.push(Note::StoredOnce);
        }
    }

    /// Another job was shown: right only where a region does so with an id that is taken, and the client had used this one before.
    fn shown(self, judged: &mut Judged) {
        let may_be = self.issue.shares_id && self.rules.duplicate_ids.contains(&DuplicateIds::Same);
        if may_be { judged.notes.push(Note::IdTaken) } else { judged.wrongs.push(Wrong::OtherJob) }
    }

    /// Whether another job of the same client has its id, in a region that has overwritten one.
    fn was_overwritten(self, id: JobId) -> bool {
        self.rivals.iter().any(|copy| copy.id == id && copy.stored > 1 && self.overwrites(copy.region))
    }

    /// A job that the client did not send twice itself runs once.
    fn runs(self, judged: &mut Judged) {
        let own = self.issue.own.is_some() && !self.issue.keyed && self.issue.sends.len() > 1;
        let forgotten = self.issue.keyed && self.own_doing().1 > 0;
        for copy in self.copies.iter().filter(|copy| copy.runs > 1) {
            if !(own || forgotten || self.issue.shares_id || self.is_reported(copy)) {
                judged.wrongs.push(Wrong::RanTwice);
            }
        }
    }

    /// A client that has a key, and insists, gets to know.
    fn last_word(self, judged: &mut Judged) {
        let last = self.issue.sends.last().map(|send| send.end);
        if self.issue.keyed && matches!(last, Some(End::Unknown(_) | End::Silent)) {
            judged.wrongs.push(Wrong::StillUnknown);
        }
    }

    /// Whether a copy was cancelled in favour of another one, by the journal, or by one that no longer exists.
    fn was_given_up(self, id: JobId) -> bool {
        if self.rows.iter().any(|row| row.gave_up(id)) {
            return true;
        }
        let cancelled = self.copies.iter().any(|copy| copy.id == id && copy.cancelled);
        cancelled && self.issue.sends.iter().any(|send| self.epoch(send.epoch).is_some_and(|epoch| !epoch.durable))
    }

    /// Every further copy has a reported reason.
    fn doubles(self, judged: &mut Judged) {
        let mut extra = self.live().count().saturating_sub(1);
        let reasons = [
            (Note::DoubleReported, self.live().filter(|copy| self.is_reported(copy) && self.may_double()).count()),
            (Note::LateWrite, self.live().filter(|copy| self.is_excused(copy)).count()),
            self.own_doing(),
        ];
        for (note, explained) in reasons {
            let explained = explained.min(extra);
            judged.notes.extend(std::iter::repeat_n(note, explained));
            extra -= explained;
        }
        judged.wrongs.extend(std::iter::repeat_n(Wrong::Doubled, extra));
    }

    /// Whether it may be stored twice at all, and said: not where every region with a copy refuses or returns a taken id.
    fn may_double(self) -> bool {
        self.live().any(|copy| self.overwrites(copy.region))
    }

    /// How many copies the client, or the plan, has to answer for.
    fn own_doing(self) -> (Note, usize) {
        let sends = &self.issue.sends;
        let repeated = |place: usize| place + 1 < sends.len();
        // Keys and ids of clients are recorded before anything is sent.
        if !self.is_minted() {
            let open = |send: &Send| !matches!(send.end, End::Refused(_) | End::Conflict);
            let forgotten = |(place, send): &(usize, &Send)| {
                open(send) && sends.iter().skip(place + 1).any(|later| self.has_forgotten(send.epoch, later.epoch))
            };
            let note = if self.issue.keyed { Note::DoubleByLostKey } else { Note::DoubleByOwnId };
            return (note, sends.iter().enumerate().filter(forgotten).count());
        }
        let silent =
            sends.iter().enumerate().filter(|(place, send)| send.end == End::Silent && repeated(*place)).count();
        (Note::DoubleByReplay, silent)
    }

    /// Whether a later process lacks records of an earlier one.
    fn has_forgotten(self, earlier: u16, later: u16) -> bool {
        let (Some(earlier), Some(later)) = (self.epoch(earlier), self.epoch(later)) else { return false };
        earlier != later && (!earlier.durable || earlier.generation != later.generation)
    }

    fn epoch(self, number: u16) -> Option<&'c Epoch> {
        self.epochs.get(usize::from(number))
    }

    /// Whether the journal reports this copy as superfluous, or as unknown; or as stored late, for a job that its
    /// client's answer denied and that has no tie to the one that the client then sent.
    fn is_reported(self, copy: &Copy) -> bool {
        let is_about = |row: &&Row| row.region == copy.region && row.job == Some(copy.id);
        let refused = |row: &Row| {
            let send = row
                .call
                .map_or_else(|| self.issue.sends.last(), |(_, number)| self.issue.sends.get(usize::from(number)));
            self.is_minted() && send.is_some_and(|send| matches!(send.end, End::Refused(_)))
        };
        self.rows.iter().filter(is_about).any(|row| match row.state {
            Fate::Doubled | Fate::Unknown | Fate::Expired => true,
            // Where it is watched for, and there, the sidecar has not found it: at the end of a run nothing is late any more.
            Fate::Stored => refused(row) && row.at_ms <= copy.created_ms,
            Fate::Watched | Fate::Absent => false,
        })
    }

    /// Whether no report of a late copy was possible: only where its region overwrites, so that no fence holds, and the
    /// journal with its record is destroyed, or the region hides the job from the sidecar.
    fn is_excused(self, copy: &Copy) -> bool {
        let last = u16::try_from(self.epochs.len().saturating_sub(1)).unwrap_or(u16::MAX);
        let is_gone =
            |send: &Send| self.epoch(send.epoch).is_some_and(|it| !it.durable) || self.has_forgotten(send.epoch, last);
        let is_untold = || self.issue.hidden || self.issue.sends.iter().any(is_gone);
        self.overwrites(copy.region) && self.is_late(copy) && is_untold()
    }

    fn overwrites(self, region: u8) -> bool {
        self.rules.duplicate_ids.get(usize::from(region)).is_some_and(|it| *it == DuplicateIds::Overwrite)
    }

    /// Whether a copy was stored so long after a call had come to its region that the sidecar could not know: after its
    /// end, or, where its absence was proved within the call and that record is destroyed, after its beginning.
    fn is_late(self, copy: &Copy) -> bool {
        // Under a client's own id both copies have the same one, and the answer was about the one that was there by then.
        let told = |send: &Send| send.end == End::Stored(copy.id) && copy.created_ms <= send.ended_ms;
        let answered = self.issue.sends.iter().any(told);
        let came_by = |send: &Send, number: usize| {
            let arrived =
                self.arrivals.iter().any(|(call, region)| usize::from(*call) == number && *region == copy.region);
            // A record in memory only is lost with its process, and a job that no region shows the sidecar cannot be
            // reported.
            let untold = self.issue.hidden || self.epoch(send.epoch).is_some_and(|epoch| !epoch.durable);
            let over_ms = if untold { send.began_ms } else { send.ended_ms };
            arrived && over_ms.saturating_add(self.rules.grace_ms) < copy.created_ms
        };
        !answered && self.issue.sends.iter().enumerate().any(|(number, send)| came_by(send, number))
    }

    /// A job that was refused each time is not stored.
    fn refusals(self, judged: &mut Judged) {
        let refused = !self.issue.sends.is_empty() && self.ends().all(|end| matches!(end, End::Refused(_)));
        if !refused {
            return;
        }
        match self.live().next() {
            None => judged.notes.push(Note::RefusedOnly),
            Some(copy) if self.was_watched(copy) => judged.notes.push(Note::DoubleReported),
            Some(copy) if self.is_excused(copy) => judged.notes.push(Note::LateWrite),
            Some(_) => judged.wrongs.push(Wrong::RefusedAndStored),
        }
    }

    /// Whether the journal said of this copy that it might still come, before it came.
    fn was_watched(self, copy: &Copy) -> bool {
        let is_about = |row: &&Row| row.region == copy.region && row.job == Some(copy.id);
        let says = |fate: Fate| !matches!(fate, Fate::Absent | Fate::Watched);
        let said = |row: &Row| row.at_ms <= copy.created_ms && says(row.state);
        self.rows.iter().filter(is_about).any(said)
    }

    /// Jobs with an unknown outcome, or without an answer.
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
        let same_call = |row: &&Row| row.call.is_some_and(|(_, call)| usize::from(call) == number);
        let same_id = |row: &&Row| id.is_some() && row.job == id;
        let row = self.rows.iter().find(same_id).or_else(|| self.rows.iter().find(same_call));
        // A repetition of an unknown job has no record of its own.
        let row = row.or_else(|| self.rows.first().filter(|_| !self.is_minted()));
        match row.map(|row| (row.state, row.kept)) {
            Some((Fate::Stored | Fate::Doubled, _)) => judged.notes.push(Note::UnknownLanded),
            Some((Fate::Absent | Fate::Watched, _)) => judged.notes.push(Note::UnknownAbsent),
            Some((Fate::Unknown | Fate::Expired, true)) => judged.notes.push(Note::UnknownPending),
            Some((Fate::Unknown | Fate::Expired, false)) => judged.notes.push(Note::UnknownForgotten),
            None if self.may_be_forgotten(send) => judged.notes.push(Note::UnknownForgotten),
            None => judged.wrongs.push(Wrong::Unreported),
        }
    }

    /// Whether the record of an unknown outcome may be lost with a journal that the plan destroyed: that of its own
    /// process, or for a repetition that of an earlier one.
    fn may_be_forgotten(self, send: &Send) -> bool {
        let gone = |send: &Send| self.epoch(send.epoch).is_some_and(|epoch| !epoch.durable);
        gone(send) || (!self.is_minted() && self.issue.sends.iter().any(gone))
    }

    /// The journal's records are true.
    fn rows(self, judged: &mut Judged) {
        for row in self.rows {
            let Some(id) = row.job else { continue };
            let copy = self.copies.iter().find(|copy| copy.id == id && copy.region == row.region);
            match (row.state, copy) {
                // Its client has used the id for another job since, which is there in its place.
                (Fate::Stored, None) if self.issue.shares_id => {}
                (Fate::Stored, None) => judged.wrongs.push(Wrong::FalselyLanded),
                (Fate::Absent, Some(copy)) if !copy.cancelled && !self.was_sent_again(row) => {
                    if self.is_excused(copy) {
                        judged.notes.push(Note::LateWrite);
                    } else {
                        judged.wrongs.push(Wrong::FalselyAbsent);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether the same id came to the record's region more than once, or by another call: the present job may be from
    /// that.
    fn was_sent_again(self, row: &Row) -> bool {
        // A request that the wire swallowed never came to the region, and a later one has a record of its own.
        let is_same = |it: &&Row| it.job == row.job && it.region == row.region;
        if !self.is_minted() && self.rows.iter().filter(is_same).any(|it| it.state == Fate::Stored) {
            return true;
        }
        let here = || self.arrivals.iter().filter(|(_, region)| *region == row.region);
        !self.is_minted()
            && (here().count() > 1 || here().any(|(call, _)| row.call.is_none_or(|(_, of_row)| *call != of_row)))
    }
}

const fn bit(region: u8) -> u8 {
    1_u8.wrapping_shl(region as u32)
}

#[cfg(test)]
mod tests;
