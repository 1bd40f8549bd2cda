//! What follows once the call is over.

use super::*;
use crate::outcome::Settlement;
use crate::outcome::background::{Action, next};

const DAY: u64 = 24 * 60 * 60;
const GONE: Fate = Fate::Cancelled { by_us: true };

fn going(progress: Progress) -> Fate {
    Fate::Cancelling { since: START, progress }
}

/// What follows in a round that begins now, where nobody has been heard yet.
fn fresh(placement: &Placement, now: Moment, guarded: bool) -> Action {
    next(placement, now, now, |_| guarded)
}

fn heard(mut placement: Placement, now: Moment) -> Placement {
    placement.copies.iter_mut().for_each(|copy| copy.asked.heard = Some(now));
    placement
}

#[test]
fn what_is_not_known_is_asked_and_what_is_known_is_settled() {
    let cases = [
        (vec![lost(Lost::Ended)], Action::Ask(0)),
        (vec![FINAL, lost(Lost::TimedOut)], Action::Ask(1)),
        (vec![watched(900), WAITING], Action::Ask(0)),
        (vec![FENCED], Action::Bury(0)),
        (vec![FENCED, WAITING], Action::Bury(0)),
        (vec![WAITING], Action::Settle(Settlement::Stored)),
        (vec![FINAL, WAITING], Action::Settle(Settlement::Stored)),
        (vec![GONE, STARTED], Action::Settle(Settlement::Stored)),
        (vec![BURIED, FINAL], Action::Settle(Settlement::Absent)),
        (vec![Fate::Overwritten, WAITING], Action::Settle(Settlement::Doubled)),
        // A call is busy with it.
        (vec![Fate::Sent], Action::Rest),
        (vec![lost(Lost::Ended), Fate::Sent], Action::Rest),
    ];
    for (fates, expected) in cases {
        assert_eq!(fresh(&with_copies(&fates, false), at(10), false), expected, "{fates:?}");
    }
}

#[test]
fn a_placement_whose_call_is_under_way_or_that_is_settled_is_left_alone() {
    let mut open = with_copies(&[lost(Lost::Ended)], false);
    open.told = Told::Nothing;
    assert_eq!(fresh(&open, at(10), false), Action::Rest);
    let mut settled = with_copies(&[lost(Lost::Ended)], false);
    settled.apply(Event::Settled(Settlement::Expired), at(10), RULES);
    assert_eq!(fresh(&settled, at(10), false), Action::Rest);
}

#[test]
fn a_fence_needs_a_region_that_guards_ids_and_has_said_no_and_an_id_of_ours() {
    let mut placement = with_copies(&[lost(Lost::TimedOut)], false);
    assert_eq!(fresh(&placement, at(10), true), Action::Ask(0), "it was not heard yet");
    hear(&mut placement, 0, Word::No, at(10));
    assert_eq!(fresh(&placement, at(20), true), Action::Fence(0));
    assert_eq!(fresh(&placement, at(20), false), Action::Ask(0));
    placement.identity.own_id = Some("a".to_owned());
    assert_eq!(fresh(&placement, at(20), true), Action::Ask(0), "the client's own id is not taken from it");
}

#[test]
fn a_copy_is_cancelled_only_when_every_other_was_seen_in_the_same_round() {
    let placement = with_copies(&[WAITING, WAITING], true);
    let round = at(10);
    assert_eq!(next(&placement, at(10), round, |_| false), Action::Ask(0));
    let mut one = placement.clone();
    one.copies[0].asked.heard = Some(round);
    assert_eq!(next(&one, at(10), round, |_| false), Action::Ask(1));
    let both = heard(placement, round);
    assert_eq!(next(&both, at(10), round, |_| false), Action::Cancel(0));
    assert_eq!(next(&both, at(12), at(11), |_| false), Action::Ask(0), "what an earlier round saw is old");
}

#[test]
fn a_key_has_no_end_while_the_copy_that_is_kept_is_not_known() {
    for fates in [&[WAITING, lost(Lost::Ended)][..], &[WAITING, WAITING]] {
        assert_eq!(with_copies(fates, false).verdict(), None, "{fates:?}");
    }
    assert!(with_copies(&[GONE, WAITING], false).verdict().is_some());
}

#[test]
fn a_cancellation_that_is_not_answered_is_repeated_in_the_next_round() {
    let round = at(10);
    let mut placement = heard(with_copies(&[WAITING, WAITING], true), round);
    placement.apply(Event::Cancelling(0), at(10), RULES);
    hear(&mut placement, 0, Word::Silent, at(12));
    let Action::Wait(until) = next(&placement, at(12), round, |_| false) else { panic!("it was told just now") };
    assert_eq!(next(&placement, until, until, |_| false), Action::Ask(0));
    hear(&mut placement, 0, Word::Has(Progress::Waiting), until);
    hear(&mut placement, 1, Word::Has(Progress::Waiting), until);
    assert_eq!(next(&placement, until, until, |_| false), Action::Cancel(0));
}

#[test]
fn what_several_copies_come_to_is_said() {
    let cases = [
        (vec![WAITING, STARTED], Action::Cancel(0)),
        (vec![STARTED, WAITING], Action::Cancel(1)),
        (vec![STARTED, ENDED], Action::Settle(Settlement::Doubled)),
        (vec![WAITING, Fate::Overwritten], Action::Settle(Settlement::Doubled)),
        (vec![WAITING, Fate::Cancelled { by_us: false }], Action::Cancel(0)),
    ];
    for (fates, expected) in cases {
        let placement = heard(with_copies(&fates, true), at(10));
        assert_eq!(fresh(&placement, at(10), false), expected, "{fates:?}");
    }
}

#[test]
fn questions_become_rarer_and_hit_the_moment_from_which_a_no_counts() {
    let mut placement = with_copies(&[lost(Lost::Ended)], false);
    let mut asked_at = Vec::new();
    let mut now = START;
    while asked_at.len() < 4 {
        match fresh(&placement, now, false) {
            Action::Ask(0) => {
                asked_at.push(now.since(START).as_millis());
                hear(&mut placement, 0, Word::No, now);
            }
            Action::Wait(until) => now = until,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(asked_at, [0, 1_000, 3_000, 4_000]);
    assert_eq!(fate(&placement, 0), watched(900));
}

#[test]
fn a_late_copy_is_looked_for_every_ten_seconds_at_least() {
    let mut placement = with_copies(&[watched(900)], false);
    let mut now = at(100);
    for _ in 0..20 {
        hear(&mut placement, 0, Word::No, now);
        let Action::Wait(until) = fresh(&placement, now, false) else { panic!("it was asked just now") };
        assert!(until.since(now) <= secs(10));
        now = until;
    }
}

#[test]
fn nobody_is_asked_for_longer_than_a_day() {
    let expired = Action::Settle(Settlement::Expired);
    let cases = [
        (vec![lost(Lost::TimedOut)], DAY - 1, Action::Ask(0)),
        (vec![lost(Lost::TimedOut)], DAY, expired),
        (vec![watched(900), WAITING], DAY, expired),
        (vec![going(Progress::Waiting), STARTED], DAY, expired),
        (vec![FENCED], DAY, Action::Settle(Settlement::Absent)),
        (vec![WAITING, WAITING], DAY, Action::Ask(0)),
        // Two are there, and nobody has said for a day that one of them has gone.
        (vec![WAITING, WAITING], 2 * DAY, Action::Settle(Settlement::Doubled)),
        (vec![WAITING, Fate::Cancelled { by_us: false }], 2 * DAY, expired),
    ];
    for (fates, second, expected) in cases {
        assert_eq!(fresh(&with_copies(&fates, true), at(second), false), expected, "{fates:?} after {second} s");
    }
}
