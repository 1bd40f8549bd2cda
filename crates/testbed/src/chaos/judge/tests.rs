//! Every kind of wrong is named, and what looks like it and is right is not.

use smallvec::smallvec;

use super::super::case::Rules;
use super::super::ledger::Issue;
use super::*;

mod late;

const GRACE_MS: u64 = 500;
const ANYWHERE: u8 = 0b111;
/// One process with a journal, one without, one whose journal has lost what the first wrote.
const EPOCHS: [(bool, u32); 3] = [(true, 0), (false, 1), (true, 2)];

fn copy(region: u8, id: JobId, created_ms: u64) -> Copy {
    Copy { region, id, cancelled: false, stored: 1, runs: 0, acknowledged: 0, created_ms }
}

/// A history that is told step by step.
struct History {
    issue: Issue,
    copies: Vec<Copy>,
    rows: Vec<Row>,
    arrivals: Vec<(u8, u8)>,
    seen: u8,
    rivals: Vec<Copy>,
    duplicate_ids: DuplicateIds,
}

impl History {
    /// A flexible job without an id, of which nothing has happened yet.
    fn new() -> Self {
        let (own, sends) = (None, smallvec![]);
        let issue = Issue {
            client: "test",
            permitted: ANYWHERE,
            own,
            shares_id: false,
            keyed: false,
            hidden: false,
            first: 0,
            sends,
        };
        let (copies, rows, arrivals, rivals) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { issue, copies, rows, arrivals, seen: 0, rivals, duplicate_ids: DuplicateIds::Overwrite }
    }

    /// Its id is that of another job, too, which has a copy.
    fn shared(mut self, duplicate_ids: DuplicateIds) -> Self {
        (self.issue.own, self.issue.shares_id, self.duplicate_ids) = (Some(1), true, duplicate_ids);
        self.rivals.push(copy(0, 1, 1_000));
        self
    }

    fn own(mut self) -> Self {
        self.issue.own = Some(1);
        self
    }

    fn keyed(mut self) -> Self {
        self.issue.keyed = true;
        self
    }

    fn pinned(mut self, region: u8) -> Self {
        self.issue.permitted = bit(region);
        self
    }

    /// A call from 1000 ms on for every call before, 100 ms long.
    fn told(self, end: End) -> Self {
        self.told_by(0, end)
    }

    fn told_by(mut self, epoch: u16, end: End) -> Self {
        let began_ms = 1_000 * (self.issue.sends.len() as u64 + 1);
        self.issue.sends.push(Send { epoch, began_ms, ended_ms: began_ms + 100, end, ours: false });
        self
    }

    /// The last call came to a region, which has stored it so under an id.
    fn stored_at(mut self, region: u8, id: JobId, created_ms: u64) -> Self {
        self = self.arrived(region);
        self.copies.push(copy(region, id, created_ms));
        self
    }

    /// As part of the last call.
    fn stored(self, region: u8, id: JobId) -> Self {
        let at = self.issue.sends.last().map_or(1_000, |send| send.began_ms);
        self.stored_at(region, id, at + 50)
    }

    fn arrived(mut self, region: u8) -> Self {
        self.arrivals.push((self.issue.sends.len().saturating_sub(1) as u8, region));
        self.seen |= bit(region);
        self
    }

    fn cancelled(mut self) -> Self {
        self.copies.last_mut().unwrap().cancelled = true;
        self
    }

    /// The journal says of the last call.
    fn row(mut self, region: u8, id: JobId, state: Fate) -> Self {
        let send = self.issue.sends.len() as u8 - 1;
        let at_ms = self.issue.sends.last().unwrap().ended_ms;
        let (job, call, elsewhere, cancelled_in) = (Some(id), Some((0, send)), None, None);
        self.rows.push(Row { job, region, call, at_ms, state, elsewhere, cancelled_in, kept: true });
        self
    }

    #[track_caller]
    fn check(self, wrongs: &[Wrong], notes: &[Note]) {
        let epochs = EPOCHS.map(|(durable, generation)| Epoch {
            why: "test",
            durable,
            generation,
            able: true,
            from_ms: 0,
            until_ms: u64::MAX,
        });
        let rules = Rules { grace_ms: GRACE_MS, duplicate_ids: [self.duplicate_ids; 3] };
        let judged = judge(Case {
            issue: &self.issue,
            copies: &self.copies,
            rows: &self.rows,
            arrivals: &self.arrivals,
            seen: self.seen,
            epochs: &epochs,
            rivals: &self.rivals,
            rules: &rules,
        });
        assert_eq!((judged.wrongs.as_slice(), judged.notes.as_slice()), (wrongs, notes));
    }
}

#[test]
fn a_job_that_is_stored_where_it_was_said_is_well() {
    History::new().told(End::Stored(7)).stored(0, 7).check(&[], &[Note::StoredOnce]);
    History::new().pinned(1).told(End::Stored(7)).stored(1, 7).check(&[], &[Note::StoredOnce]);
    History::new().told(End::Refused(503)).check(&[], &[Note::RefusedOnly]);
    History::new().told(End::Refused(503)).told(End::Stored(7)).stored(0, 7).check(&[], &[Note::StoredOnce]);
}

#[test]
fn a_2xx_that_no_region_has_is_lost() {
    History::new().told(End::Stored(7)).check(&[Wrong::Lost], &[]);
    History::new().told(End::Stored(7)).stored(0, 8).check(&[Wrong::Lost], &[]);
    History::new().told(End::Stored(7)).stored(0, 7).cancelled().check(&[Wrong::Lost], &[]);
    // Unless the journal says that another copy is kept in its place.
    let mut kept = History::new().told(End::Stored(7)).stored(0, 7).cancelled().stored(1, 8).row(1, 8, Fate::Stored);
    kept.rows[0].elsewhere = Some((0, 7));
    kept.rows[0].cancelled_in = Some(0);
    kept.check(&[], &[Note::OtherCopyKept]);
    // Or said so, in a journal that went with its process.
    let untold = |epoch| History::new().told_by(epoch, End::Stored(7)).stored(0, 7).cancelled().stored(1, 8);
    untold(1).check(&[], &[Note::OtherCopyKept]);
    untold(0).check(&[Wrong::Lost], &[]);
}

#[test]
fn a_pinned_job_in_another_region_or_at_its_socket_is_told() {
    History::new()
        .pinned(1)
        .told(End::Stored(7))
        .stored(0, 7)
        .check(&[Wrong::Astray, Wrong::Leaked], &[Note::StoredOnce]);
    History::new().pinned(1).told(End::Stored(7)).arrived(0).stored(1, 7).check(&[Wrong::Leaked], &[Note::StoredOnce]);
    // Cancelled or not, it was there.
    let cancelled = History::new().pinned(1).told(End::Refused(503)).stored(0, 7).cancelled();
    cancelled.check(&[Wrong::Astray, Wrong::Leaked], &[Note::RefusedOnly]);
}

#[test]
fn a_double_that_nobody_reports_is_told() {
    // An unknown outcome that was sent to the next region.
    History::new().told(End::Stored(8)).stored(0, 7).stored(1, 8).check(&[Wrong::Doubled], &[]);
    // A 504 after which the job was sent again under a new id.
    History::new().told(End::Stored(8)).stored(0, 7).stored(0, 8).check(&[Wrong::Doubled], &[]);
    History::new()
        .told(End::Stored(9))
        .stored(0, 7)
        .stored(1, 8)
        .stored(2, 9)
        .check(&[Wrong::Doubled, Wrong::Doubled], &[]);
    // A 503 for what was stored makes the client send it again.
    let replayed = History::new().told(End::Refused(503)).stored(0, 7).told(End::Stored(8)).stored(1, 8);
    replayed.check(&[Wrong::Doubled], &[]);
}

#[test]
fn a_double_is_explained_by_the_journal_or_by_who_made_it() {
    for state in [Fate::Doubled, Fate::Unknown] {
        let reported = History::new().told(End::Stored(8)).stored(0, 7).stored(1, 8).row(0, 7, state);
        reported.check(&[], &[Note::DoubleReported]);
    }
    // One report explains one copy.
    let two = History::new().told(End::Stored(9)).stored(0, 7).stored(1, 8).stored(2, 9).row(0, 7, Fate::Doubled);
    two.check(&[Wrong::Doubled], &[Note::DoubleReported]);
    // What a journal says was absent is no report.
    let absent = History::new().told(End::Stored(8)).stored(0, 7).stored(1, 8).row(0, 7, Fate::Absent);
    absent.check(&[Wrong::Doubled, Wrong::FalselyAbsent], &[]);
    let replayed = |history: History| history.told(End::Silent).stored(0, 7).told(End::Stored(8)).stored(1, 8);
    replayed(History::new()).check(&[], &[Note::DoubleByReplay, Note::SilentStored]);
    replayed(History::new().own()).check(&[Wrong::Doubled], &[Note::SilentStored]);
    // One lost answer explains one further copy.
    replayed(History::new()).stored(2, 9).check(&[Wrong::Doubled], &[Note::DoubleByReplay, Note::SilentStored]);
    // A lost answer that is not repeated explains nothing.
    History::new().told(End::Silent).stored(0, 7).stored(1, 8).check(&[Wrong::Doubled], &[Note::SilentStored]);
}

#[test]
fn a_key_is_kept_over_a_kill_and_lost_only_with_its_journal() {
    let over = |earlier: u16, later: u16| {
        let history = History::new().keyed().told_by(earlier, End::Silent).stored(0, 7);
        history.told_by(later, End::Stored(8)).stored(1, 8)
    };
    over(0, 0).check(&[Wrong::Doubled], &[Note::SilentStored]);
    over(0, 2).check(&[], &[Note::DoubleByLostKey, Note::SilentStored]);
    over(0, 1).check(&[], &[Note::DoubleByLostKey, Note::SilentStored]);
    over(1, 2).check(&[], &[Note::DoubleByLostKey, Note::SilentStored]);
    // So is a client's own id, which is recorded before its job is sent.
    let own = |later: u16| {
        let history = History::new().own().told_by(0, End::Silent).stored(0, 1);
        history.told_by(later, End::Stored(1)).stored(1, 1)
    };
    own(0).check(&[Wrong::Doubled], &[Note::SilentStored]);
    own(2).check(&[], &[Note::DoubleByOwnId, Note::SilentStored]);
    // The same key gives the same job.
    History::new()
        .keyed()
        .told(End::Stored(7))
        .stored(0, 7)
        .told(End::Stored(8))
        .stored(0, 8)
        .check(&[Wrong::Doubled], &[]);
}

#[test]
fn what_was_refused_and_is_stored_is_told() {
    History::new().told(End::Refused(503)).stored(0, 7).check(&[Wrong::RefusedAndStored], &[]);
    History::new().told(End::Refused(429)).stored(0, 7).check(&[Wrong::RefusedAndStored], &[]);
    History::new().told(End::Refused(503)).stored(0, 7).cancelled().check(&[], &[Note::RefusedOnly]);
    // The region has it by its own word.
    History::new().own().told(End::Conflict).stored(0, 1).check(&[], &[]);
    // Unless the journal has said before that it might still come.
    let watched = |state, ms| History::new().told(End::Refused(503)).stored_at(0, 7, ms).row(0, 7, state);
    watched(Fate::Stored, 1_100).check(&[], &[Note::DoubleReported]);
    watched(Fate::Unknown, 1_100).check(&[], &[Note::DoubleReported]);
    // What was there by then had not been proved absent.
    watched(Fate::Stored, 1_099).check(&[Wrong::RefusedAndStored], &[]);
    // A 503 is no excuse for a write within the call.
    let mut within = History::new().told(End::Refused(503)).stored_at(0, 7, 1_001 + GRACE_MS);
    within.issue.sends[0].ended_ms = 1_000 + GRACE_MS;
    within.check(&[Wrong::RefusedAndStored], &[]);
}

#[test]
fn a_write_long_after_the_call_is_the_regions_doing_and_one_in_time_is_not() {
    let written_at = |ms: u64| History::new().told(End::Stored(8)).stored(1, 8).stored_at(0, 7, ms);
    written_at(1_100 + GRACE_MS + 1).check(&[], &[Note::LateWrite]);
    written_at(1_100 + GRACE_MS).check(&[Wrong::Doubled], &[]);
    // A fence keeps it away, journal or not.
    let mut fenced = written_at(1_100 + GRACE_MS + 1);
    fenced.duplicate_ids = DuplicateIds::Refuse;
    fenced.check(&[Wrong::Doubled], &[]);
    // Within a call that went on, the journal tells; one in memory is gone with its process.
    let within = |epoch: u16| {
        let mut history =
            History::new().told_by(epoch, End::Stored(8)).stored(1, 8).stored_at(0, 7, 1_000 + GRACE_MS + 1);
        history.issue.sends[0].ended_ms = 1_000 + GRACE_MS;
        history
    };
    within(0).check(&[Wrong::Doubled], &[]);
    within(1).check(&[], &[Note::LateWrite]);
    // Also under the client's own id, which both copies have.
    let mut own = History::new().own().told_by(1, End::Stored(1)).stored(1, 1).stored_at(0, 1, 1_001 + GRACE_MS);
    own.issue.sends[0].ended_ms = 1_000 + GRACE_MS;
    own.check(&[], &[Note::LateWrite]);
    // Of a job that was refused, the journal has said before that it might still come.
    let refused = |history: History, ms: u64| {
        let mut history = history.told(End::Refused(429)).stored_at(0, 7, ms).row(0, 7, Fate::Stored);
        (history.issue.sends[0].ended_ms, history.rows[0].at_ms) = (1_000 + 2 * GRACE_MS, 1_000 + 2 * GRACE_MS);
        history.told(End::Stored(8)).stored(0, 8)
    };
    refused(History::new(), 1_000 + 2 * GRACE_MS).check(&[], &[Note::DoubleReported]);
    refused(History::new(), 999 + 2 * GRACE_MS).check(&[Wrong::Doubled], &[]);
    // With a key it is one job, of which one copy has to go.
    refused(History::new().keyed(), 1_000 + 2 * GRACE_MS).check(&[Wrong::Doubled], &[]);
    // Only in a region that the call came to.
    let mut elsewhere = written_at(5_000);
    elsewhere.arrivals.retain(|(_, region)| *region == 1);
    elsewhere.check(&[Wrong::Doubled], &[]);
}

#[test]
fn an_unknown_that_nobody_lists_is_told() {
    History::new().told(End::Unknown(Some(7))).check(&[Wrong::Unreported], &[]);
    History::new().told(End::Unknown(None)).stored(0, 7).check(&[Wrong::Unreported], &[]);
    History::new().told_by(1, End::Unknown(Some(7))).check(&[], &[Note::UnknownForgotten]);
    for (state, note) in [(Fate::Unknown, Note::UnknownPending), (Fate::Absent, Note::UnknownAbsent)] {
        History::new().told(End::Unknown(Some(7))).row(0, 7, state).check(&[], &[note]);
    }
    let mut forgotten = History::new().told(End::Unknown(Some(7))).row(0, 7, Fate::Unknown);
    forgotten.rows[0].kept = false;
    forgotten.check(&[], &[Note::UnknownForgotten]);
    let landed = History::new().told(End::Unknown(Some(7))).stored(0, 7).row(0, 7, Fate::Stored);
    landed.check(&[], &[Note::UnknownLanded]);
    // The row of another call of the same job is another one's.
    let other = History::new().told(End::Unknown(Some(7))).row(0, 7, Fate::Unknown).told(End::Unknown(Some(8)));
    other.check(&[Wrong::Unreported], &[Note::UnknownPending]);
}

#[test]
fn a_journal_that_says_what_is_not_true_is_told() {
    History::new()
        .told(End::Unknown(Some(7)))
        .row(0, 7, Fate::Stored)
        .check(&[Wrong::FalselyLanded], &[Note::UnknownLanded]);
    let absent = |ms: u64| History::new().told(End::Unknown(Some(7))).row(0, 7, Fate::Absent).stored_at(0, 7, ms);
    absent(1_050).check(&[Wrong::FalselyAbsent], &[Note::UnknownAbsent]);
    absent(1_100 + GRACE_MS + 1).check(&[], &[Note::UnknownAbsent, Note::LateWrite]);
    let mut fenced = absent(1_100 + GRACE_MS + 1);
    fenced.duplicate_ids = DuplicateIds::Refuse;
    fenced.check(&[Wrong::FalselyAbsent], &[Note::UnknownAbsent]);
    // Of a job under the client's own id, what is there may be from a later call.
    let refused = || History::new().own().told(End::Refused(503)).row(0, 1, Fate::Absent);
    refused().told(End::Stored(1)).stored(0, 1).check(&[], &[Note::StoredOnce]);
    refused().stored_at(0, 1, 1_050).check(&[Wrong::RefusedAndStored, Wrong::FalselyAbsent], &[]);
}

#[test]
fn a_minted_id_that_a_region_was_sent_twice_is_told() {
    let twice = |mut history: History| {
        history.copies[0].stored = 2;
        history.duplicate_ids = DuplicateIds::Overwrite;
        history
    };
    twice(History::new().told(End::Stored(7)).stored(0, 7)).check(&[Wrong::Resent], &[Note::StoredOnce]);
    twice(History::new().own().told(End::Stored(1)).stored(0, 1)).check(&[], &[Note::StoredOnce]);
    twice(History::new().keyed().told(End::Stored(7)).stored(0, 7)).check(&[], &[Note::StoredOnce]);
}
