//! Copies that come late, and what hostile clients do.

use super::*;

#[test]
fn a_late_copy_is_cancelled_or_reported() {
    let late = || {
        let mut history = History::new().told_by(2, End::Stored(8)).stored(1, 8).stored_at(0, 7, 60_000);
        history.duplicate_ids = DuplicateIds::Refuse;
        history
    };
    late().check(&[Wrong::Doubled], &[]);
    late().cancelled().check(&[], &[Note::StoredOnce]);
    for state in [Fate::Doubled, Fate::Unknown] {
        let reported = |duplicate_ids| {
            let mut history = late().row(0, 7, state);
            history.duplicate_ids = duplicate_ids;
            history
        };
        reported(DuplicateIds::Overwrite).check(&[], &[Note::DoubleReported]);
        // There a fence keeps the second copy away: a report does not excuse it.
        reported(DuplicateIds::Refuse).check(&[Wrong::Doubled], &[]);
        reported(DuplicateIds::Same).check(&[Wrong::Doubled], &[]);
    }
    // To look for it is not to have found it.
    late().row(0, 7, Fate::Watched).check(&[Wrong::Doubled], &[]);
    late().row(0, 7, Fate::Absent).check(&[Wrong::Doubled, Wrong::FalselyAbsent], &[]);
    // Nothing fences it in a region that overwrites, and who knew of it is gone with its journal.
    let gone = |epoch, duplicate_ids| {
        let mut history = History::new().told_by(epoch, End::Stored(8)).stored(1, 8).stored_at(0, 7, 60_000);
        history.duplicate_ids = duplicate_ids;
        history
    };
    gone(1, DuplicateIds::Overwrite).check(&[], &[Note::LateWrite]);
    gone(0, DuplicateIds::Overwrite).check(&[], &[Note::LateWrite]);
    gone(2, DuplicateIds::Overwrite).check(&[Wrong::Doubled], &[]);
    gone(1, DuplicateIds::Refuse).check(&[Wrong::Doubled], &[]);
    // Nor can anybody ask for it there whom the region does not show it to.
    let mut hidden = late();
    (hidden.issue.hidden, hidden.duplicate_ids) = (true, DuplicateIds::Overwrite);
    hidden = hidden.row(0, 7, Fate::Absent);
    hidden.check(&[], &[Note::LateWrite, Note::LateWrite]);
    let mut soon = History::new().told_by(2, End::Stored(8)).stored(1, 8).stored_at(0, 7, 1_001 + GRACE_MS);
    (soon.issue.hidden, soon.issue.sends[0].ended_ms) = (true, 1_000 + GRACE_MS);
    soon.check(&[], &[Note::LateWrite]);
    let mut fenced = late();
    fenced.issue.hidden = true;
    fenced.check(&[Wrong::Doubled], &[]);
    let refused = || History::new().told_by(2, End::Refused(503)).stored_at(0, 7, 60_000);
    refused().check(&[Wrong::RefusedAndStored], &[]);
    refused().row(0, 7, Fate::Watched).check(&[Wrong::RefusedAndStored], &[]);
    refused().row(0, 7, Fate::Stored).check(&[], &[Note::DoubleReported]);
}

#[test]
fn another_job_in_the_answer_is_told_unless_its_region_answers_so_for_a_taken_id() {
    History::new().told(End::Shown(9)).check(&[Wrong::OtherJob], &[]);
    History::new().own().told(End::Shown(9)).check(&[Wrong::OtherJob], &[]);
    for refuses in [DuplicateIds::Refuse, DuplicateIds::Overwrite] {
        History::new().shared(refuses).told(End::Shown(9)).check(&[Wrong::OtherJob], &[]);
    }
    History::new().shared(DuplicateIds::Same).told(End::Shown(9)).check(&[], &[Note::IdTaken]);
}

#[test]
fn a_job_whose_id_its_client_used_again_is_lost_unless_a_region_has_overwritten_it() {
    let shared = |duplicate_ids| History::new().shared(duplicate_ids).told(End::Stored(1));
    shared(DuplicateIds::Refuse).check(&[Wrong::Lost], &[]);
    shared(DuplicateIds::Overwrite).check(&[Wrong::Lost], &[]);
    let overwritten = |duplicate_ids| {
        let mut history = shared(duplicate_ids);
        history.rivals[0].stored = 2;
        history
    };
    overwritten(DuplicateIds::Overwrite).check(&[], &[Note::OverwrittenByClient]);
    overwritten(DuplicateIds::Refuse).check(&[Wrong::Lost], &[]);
    shared(DuplicateIds::Refuse).stored(0, 1).check(&[], &[Note::StoredOnce]);
}

#[test]
fn a_job_that_ran_and_was_stored_again_under_its_id_is_told() {
    let twice = |mut history: History| {
        history = history.told(End::Stored(1)).stored(0, 1);
        history.copies[0].runs = 2;
        history
    };
    twice(History::new().own().keyed()).check(&[Wrong::RanTwice], &[Note::StoredOnce]);
    twice(History::new().own().keyed()).row(0, 1, Fate::Doubled).check(&[], &[Note::StoredOnce]);
    twice(History::new().own()).check(&[Wrong::RanTwice], &[Note::StoredOnce]);
    // The client has sent it again itself.
    twice(History::new().own().told(End::Refused(503))).check(&[], &[Note::StoredOnce]);
}

#[test]
fn a_client_that_insists_with_its_key_and_does_not_get_to_know_is_told() {
    let unknown = || History::new().keyed().told(End::Unknown(Some(7))).row(0, 7, Fate::Unknown);
    unknown().check(&[Wrong::StillUnknown], &[Note::UnknownPending]);
    unknown().told(End::Stored(7)).stored(0, 7).check(&[], &[Note::StoredOnce, Note::UnknownPending]);
    let minted = History::new().told(End::Unknown(Some(7))).row(0, 7, Fate::Unknown);
    minted.check(&[], &[Note::UnknownPending]);
}

#[test]
fn a_row_that_does_not_name_its_call_explains_a_double_as_well() {
    let mut history = History::new().told(End::Stored(8)).stored(0, 7).stored(1, 8).row(0, 7, Fate::Doubled);
    history.rows[0].call = None;
    history.check(&[], &[Note::DoubleReported]);
}
