//! What is known of a copy after its region has spoken.

use super::*;
use crate::outcome::{Settlement, State};

fn told_to_go(progress: Progress) -> Fate {
    Fate::Cancelling { since: START, progress }
}

#[test]
fn a_word_changes_what_is_known_only_as_far_as_it_proves() {
    use Progress::{Cancelled, Ended, Started, Stopped, Waiting};
    let unknown = lost(Lost::Ended);
    let going = told_to_go(Waiting);
    // What was known, what is said after so many seconds, what is known then.
    let cases = [
        (unknown, Word::Has(Waiting), 0, WAITING),
        (unknown, Word::Has(Cancelled), 0, Fate::Cancelled { by_us: false }),
        (unknown, Word::Tombstone(false), 0, FENCED),
        (unknown, Word::Tombstone(true), 0, BURIED),
        (unknown, Word::No, 9_999, unknown),
        (unknown, Word::Silent, 9_999, unknown),
        (unknown, Word::Taken, 5, Fate::Unknown { lost: Lost::Ended, since: at(5) }),
        (lost(Lost::TimedOut), Word::Has(Started), 0, STARTED),
        (watched(900), Word::Has(Started), 5, STARTED),
        (watched(900), Word::Taken, 5, Fate::Unknown { lost: Lost::Ended, since: at(5) }),
        (FENCED, Word::Tombstone(true), 5, BURIED),
        (WAITING, Word::Has(Started), 5, STARTED),
        // What is shown no more, a worker has had, or its region shows it late.
        (WAITING, Word::No, 5, STARTED),
        (WAITING, Word::Other, 5, Fate::Overwritten),
        (STARTED, Word::Has(Stopped), 5, Fate::Stored { progress: Stopped }),
        (going, Word::Has(Cancelled), 5, Fate::Cancelled { by_us: true }),
        (going, Word::Has(Started), 5, told_to_go(Started)),
        (going, Word::Has(Ended), 5, ENDED),
        (going, Word::Has(Stopped), 5, Fate::Overwritten),
        (going, Word::Other, 5, Fate::Overwritten),
        (going, Word::No, 5, going),
        (going, Word::No, 900, Fate::Cancelled { by_us: true }),
        (going, Word::Silent, 900, going),
        (told_to_go(Started), Word::Has(Started), 899, told_to_go(Started)),
        (told_to_go(Started), Word::Has(Started), 900, STARTED),
    ];
    for (before, word, after, expected) in cases {
        let mut placement = with_copies(&[before], false);
        hear(&mut placement, 0, word, at(after));
        assert_eq!(fate(&placement, 0), expected, "{before:?} {word:?} after {after} s");
    }
}

#[test]
fn what_may_be_hidden_from_who_asks_is_never_held_to_be_gone() {
    for before in [lost(Lost::Ended), lost(Lost::TimedOut), watched(900), told_to_go(Progress::Waiting)] {
        let mut placement = with_copies(&[before], false);
        for second in [1_000, 2_000, 3_000, 4_000] {
            placement.apply(Event::Heard(0, Word::No, Trust::Doubted), at(second), RULES);
        }
        assert_eq!(fate(&placement, 0), before);
    }
}

#[test]
fn a_watched_copy_is_final_after_two_noes_past_the_watch() {
    let mut placement = with_copies(&[watched(900)], false);
    for second in [100, 200, 899, 900] {
        hear(&mut placement, 0, Word::No, at(second));
        assert_eq!(fate(&placement, 0), watched(900), "{second}");
    }
    hear(&mut placement, 0, Word::No, at(901));
    assert_eq!(fate(&placement, 0), FINAL);
}

#[test]
fn a_restart_begins_anew_what_lasts_for_a_time_and_keeps_what_is_proved() {
    let cases = [
        (Fate::Sent, Fate::Unknown { lost: Lost::Ended, since: at(7) }),
        (lost(Lost::TimedOut), Fate::Unknown { lost: Lost::TimedOut, since: at(7) }),
        (watched(20), watched(907)),
        (told_to_go(Progress::Started), Fate::Cancelling { since: at(7), progress: Progress::Started }),
        (FINAL, FINAL),
        (FENCED, FENCED),
        (STARTED, STARTED),
        (Fate::Overwritten, Fate::Overwritten),
        (Fate::Cancelled { by_us: true }, Fate::Cancelled { by_us: true }),
    ];
    for (before, expected) in cases {
        let mut placement = with_copies(&[before], false);
        placement.copies[0].asked.noes = 1;
        placement.apply(Event::Restarted, at(7), RULES);
        assert_eq!((fate(&placement, 0), placement.copies[0].asked.noes), (expected, 0), "{before:?}");
    }
    let mut open = with_copies(&[Fate::Sent], false);
    open.told = Told::Nothing;
    open.apply(Event::Restarted, at(7), RULES);
    assert_eq!(open.told, Told::BrokenOff);
}

#[test]
fn only_a_copy_that_is_there_can_be_told_to_go_and_each_time_counts() {
    let mut placement = with_copies(&[WAITING, lost(Lost::Ended)], false);
    placement.apply(Event::Cancelling(0), at(1), RULES);
    placement.apply(Event::Cancelling(1), at(1), RULES);
    let going = |since| Fate::Cancelling { since, progress: Progress::Waiting };
    assert_eq!((fate(&placement, 0), fate(&placement, 1)), (going(at(1)), lost(Lost::Ended)));
    placement.apply(Event::Cancelling(0), at(800), RULES);
    hear(&mut placement, 0, Word::No, at(1_000));
    assert_eq!(fate(&placement, 0), going(at(800)), "the second request may still be under way");
}

#[test]
fn what_is_sent_again_is_open_again() {
    let mut placement = with_copies(&[FINAL], false);
    placement.apply(Event::Settled(Settlement::Absent), at(1), RULES);
    assert_eq!(placement.state(), State::Absent);
    placement.apply(Event::Sending(place("a", "n"), None), at(2), RULES);
    assert_eq!((placement.settled, placement.state()), (None, State::Unknown));
    placement.apply(Event::NotStored(1), at(3), RULES);
    assert_eq!((placement.copies.len(), placement.state()), (1, State::Absent));
    placement.apply(Event::Sending(place("a", "m"), None), at(4), RULES);
    placement.apply(Event::Lost(1, Lost::TimedOut), at(5), RULES);
    assert_eq!(fate(&placement, 1), Fate::Unknown { lost: Lost::TimedOut, since: at(5) });
    placement.apply(Event::Stored(1), at(6), RULES);
    assert_eq!(placement.stored(), Some(&place("a", "m")));
}

#[test]
fn a_placement_rests_only_when_nothing_is_left_to_be_done() {
    let gone = Fate::Cancelled { by_us: false };
    let cases = [
        (vec![WAITING], true, true),
        (vec![FINAL, STARTED], true, true),
        (vec![BURIED], false, true),
        (vec![watched(900), WAITING], true, false),
        (vec![FENCED], false, false),
        (vec![WAITING, WAITING], true, false),
        // It is to be said that both may have run.
        (vec![WAITING, Fate::Overwritten], true, false),
        // The client's cancellation is to be carried to the copy that came late.
        (vec![WAITING, gone], true, false),
        (vec![STARTED, gone], true, true),
        (vec![WAITING, Fate::Cancelled { by_us: true }], true, true),
    ];
    for (fates, told, expected) in cases {
        assert_eq!(with_copies(&fates, told).is_at_rest(), expected, "{fates:?}");
    }
}
