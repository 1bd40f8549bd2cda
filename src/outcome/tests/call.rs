//! What follows within a call.

use super::*;
use crate::outcome::call::{Answered, Asking, Circumstances, Follow, Side, Step, follow, next};

const SIDE: Side = Side { until: at(20), rules: RULES, repeats: false, guarded: false };
const GUARDED: Side = Side { guarded: true, ..SIDE };

fn ms(millis: u64) -> Moment {
    Moment(START.0 + millis)
}

fn copy(fate: Fate) -> Copy {
    with_copies(&[fate], false).copies.remove(0)
}

fn asking(said: &[(u64, Answered)]) -> Asking {
    let mut asking = Asking::default();
    said.iter().for_each(|(at, answered)| asking.note(ms(*at), *answered));
    asking
}

#[test]
fn a_region_that_guards_ids_gets_the_same_job_until_it_answers() {
    use Answered::{No, Refused, Silent, Taken};
    let cases = [
        (vec![], 0, Step::SendAgain),
        (vec![(0, Silent)], 50, Step::Wait(ms(100))),
        (vec![(0, Silent)], 100, Step::SendAgain),
        (vec![(0, Taken)], 1, Step::Ask),
        (vec![(0, Taken), (1, No)], 2, Step::SendAgain),
        (vec![(0, Refused)], 1, Step::Fence),
        (vec![(0, Refused), (1, Taken)], 2, Step::Ask),
        // What goes round in a circle does so slowly.
        (vec![(0, Taken), (1, No), (2, Taken), (3, No)], 4, Step::Wait(ms(803))),
        (vec![(0, Silent), (100, Silent), (300, Silent)], 700, Step::SendAgain),
        (vec![(0, Silent), (100, Silent), (300, Silent), (700, Silent), (1_500, Silent)], 1_501, Step::Done),
    ];
    for (said, now, expected) in cases {
        assert_eq!(next(&copy(lost(Lost::TimedOut)), asking(&said), GUARDED, ms(now)), expected, "{said:?} at {now}");
    }
}

#[test]
fn an_absence_that_time_has_proved_is_proved_by_the_id_where_that_is_guarded() {
    assert_eq!(next(&copy(watched(900)), Asking::default(), GUARDED, at(10)), Step::SendAgain);
    assert_eq!(next(&copy(watched(900)), Asking::default(), SIDE, at(10)), Step::Done);
    let repeats = Side { repeats: true, ..SIDE };
    assert_eq!(next(&copy(watched(900)), Asking::default(), repeats, at(10)), Step::Ask, "it may have come since");
    assert_eq!(next(&copy(watched(900)), asking(&[(0, Answered::No)]), repeats, at(10)), Step::Done);
    for fate in [WAITING, FINAL, FENCED, BURIED, Fate::Overwritten] {
        assert_eq!(next(&copy(fate), Asking::default(), GUARDED, at(10)), Step::Done, "{fate:?}");
    }
}

/// The moments at which a call asks, when its region answers all in the same way; and where it ends.
fn asked_at(how: Lost, side: Side, word: Word) -> (Vec<u64>, Fate) {
    let mut placement = with_copies(&[lost(how)], false);
    let (mut asking, mut now, mut asked) = (Asking::default(), START, Vec::new());
    loop {
        match next(&placement.copies[0], asking, side, now) {
            Step::Ask => {
                asked.push(now.0 - START.0);
                hear(&mut placement, 0, word, now);
                asking.note(now, if word == Word::Silent { Answered::Silent } else { Answered::No });
            }
            Step::Wait(until) => now = until,
            Step::Done => return (asked, fate(&placement, 0)),
            step => panic!("{step:?} where ids are not guarded"),
        }
    }
}

#[test]
fn an_ended_call_is_absent_soon_after_grace_and_lag() {
    let (asked, fate) = asked_at(Lost::Ended, SIDE, Word::No);
    assert_eq!(asked, [0, 100, 300, 700, 1_500, 3_000, 3_100]);
    assert_eq!(fate, watched(900));
}

#[test]
fn a_call_that_timed_out_is_left_unknown_once_its_region_has_said_no_past_the_grace() {
    let (asked, fate) = asked_at(Lost::TimedOut, SIDE, Word::No);
    assert_eq!(asked, [0, 100, 300, 700, 1_500]);
    assert_eq!(fate, lost(Lost::TimedOut));
}

#[test]
fn a_repetition_waits_until_the_timed_out_call_is_absent() {
    let (asked, fate) = asked_at(Lost::TimedOut, Side { repeats: true, ..SIDE }, Word::No);
    assert_eq!((asked.last(), fate), (Some(&3_100), watched(900)));
}

#[test]
fn a_region_that_is_silent_is_asked_for_two_seconds() {
    let (asked, fate) = asked_at(Lost::Ended, SIDE, Word::Silent);
    assert_eq!((asked, fate), (vec![0, 100, 300, 700, 1_500], lost(Lost::Ended)));
}

#[test]
fn nothing_is_asked_that_could_not_be_answered_within_the_call() {
    let side = Side { until: ms(2_000), ..SIDE };
    assert_eq!(asked_at(Lost::Ended, side, Word::No).0, [0, 100, 300, 700, 1_500]);
    let over = Side { until: START, ..GUARDED };
    assert_eq!(next(&copy(lost(Lost::Ended)), Asking::default(), over, START), Step::Done);
}

#[test]
fn a_job_goes_on_only_when_it_is_absent_or_the_operator_has_chosen_so() {
    const IT: Circumstances =
        Circumstances { redirects_unknown: false, candidates_left: true, sent_again: false, gone_on_unknown: false };
    let alone = Circumstances { candidates_left: false, ..IT };
    let again = Circumstances { sent_again: true, ..alone };
    let redirects = Circumstances { redirects_unknown: true, ..IT };
    let unknown = lost(Lost::Ended);
    let cases = [
        (STARTED, IT, Follow::Answer),
        (Fate::Cancelled { by_us: false }, IT, Follow::Answer),
        (Fate::Cancelled { by_us: true }, IT, Follow::Fail),
        (watched(900), IT, Follow::Next),
        (watched(900), alone, Follow::Again),
        (watched(900), again, Follow::Fail),
        (FENCED, IT, Follow::Next),
        (FENCED, alone, Follow::Fail),
        (BURIED, alone, Follow::Fail),
        (unknown, IT, Follow::Fail),
        (unknown, redirects, Follow::Next),
        (unknown, Circumstances { gone_on_unknown: true, ..redirects }, Follow::Fail),
        (unknown, Circumstances { candidates_left: false, ..redirects }, Follow::Fail),
        (Fate::Sent, IT, Follow::Fail),
    ];
    for (fate, it, expected) in cases {
        assert_eq!(follow(&copy(fate), it), expected, "{fate:?} {it:?}");
    }
}
