//! What is done about several copies.

use proptest::prelude::*;

use super::*;
use crate::outcome::remedy::{self, Remedy};

const GONE: Fate = Fate::Cancelled { by_us: true };
const CALLED_OFF: Fate = Fate::Cancelled { by_us: false };

const fn going(progress: Progress) -> Fate {
    Fate::Cancelling { since: START, progress }
}

fn remedy(placement: &Placement) -> Remedy {
    remedy::remedy(&placement.copies, &placement.told)
}

#[test]
fn the_copy_that_no_worker_had_goes_and_one_stays() {
    let stopped = Fate::Stored { progress: Progress::Stopped };
    // The client was told of the last one.
    let cases = [
        (vec![WAITING], Remedy::None),
        (vec![FINAL, WAITING], Remedy::None),
        (vec![WAITING, WAITING], Remedy::Cancel(0)),
        (vec![WAITING, STARTED], Remedy::Cancel(0)),
        (vec![WAITING, ENDED], Remedy::Cancel(0)),
        (vec![WAITING, stopped], Remedy::Cancel(0)),
        (vec![STARTED, WAITING], Remedy::Cancel(1)),
        (vec![ENDED, WAITING], Remedy::Cancel(1)),
        (vec![STARTED, STARTED], Remedy::Doubled),
        (vec![ENDED, STARTED], Remedy::Doubled),
        (vec![WAITING, WAITING, WAITING], Remedy::Cancel(0)),
        (vec![STARTED, WAITING, STARTED], Remedy::Cancel(1)),
        // One at a time, and that one again until it is gone.
        (vec![going(Progress::Waiting), WAITING, WAITING], Remedy::Cancel(0)),
        (vec![WAITING, going(Progress::Waiting), WAITING], Remedy::Cancel(1)),
        (vec![going(Progress::Started), WAITING], Remedy::Wait),
        (vec![WAITING, going(Progress::Started)], Remedy::Wait),
        (vec![GONE, WAITING, WAITING], Remedy::Cancel(1)),
        (vec![GONE, WAITING], Remedy::None),
        (vec![WAITING, Fate::Overwritten], Remedy::Doubled),
        // The client has cancelled what it knew of.
        (vec![WAITING, CALLED_OFF], Remedy::Cancel(0)),
        (vec![STARTED, CALLED_OFF], Remedy::None),
        (vec![going(Progress::Waiting), CALLED_OFF], Remedy::Cancel(0)),
        (vec![CALLED_OFF, WAITING], Remedy::None),
    ];
    for (fates, expected) in cases {
        assert_eq!(remedy(&with_copies(&fates, true)), expected, "{fates:?}");
    }
}

#[test]
fn of_copies_that_wait_the_last_stays_where_the_client_was_told_of_none() {
    assert_eq!(remedy(&with_copies(&[WAITING, WAITING], false)), Remedy::Cancel(0));
}

#[test]
fn copies_under_one_id_in_one_region_are_never_cancelled() {
    for fates in [[WAITING, WAITING], [STARTED, WAITING], [WAITING, going(Progress::Waiting)]] {
        let mut placement = with_copies(&fates, true);
        placement.copies[1].place = placement.copies[0].place.clone();
        assert_eq!(remedy(&placement), Remedy::Doubled, "{fates:?}");
    }
    // A read that lags may show the copy that was overwritten and cancelled.
    for (other, expected) in [(GONE, Remedy::Doubled), (watched(900), Remedy::Doubled), (FINAL, Remedy::Cancel(0))] {
        let mut placement = with_copies(&[WAITING, WAITING, other], false);
        placement.copies[2].place = placement.copies[0].place.clone();
        assert_eq!(remedy(&placement), expected, "{other:?}");
    }
}

fn any_progress() -> impl Strategy<Value = Progress> {
    use Progress::{Ended, Started, Stopped, Waiting};
    prop_oneof![3 => Just(Waiting), 2 => Just(Started), 1 => Just(Ended), 1 => Just(Stopped)]
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => any_progress().prop_map(|progress| Fate::Stored { progress }),
        1 => prop_oneof![Just(Progress::Waiting), Just(Progress::Started)].prop_map(going),
        1 => prop_oneof![Just(GONE), Just(CALLED_OFF), Just(FINAL), Just(watched(900)), Just(lost(Lost::Ended))],
    ]
}

proptest! {
    #[test]
    fn nothing_is_cancelled_that_has_started_or_while_nothing_else_is_there(
        fates in prop::collection::vec(any_fate(), 1..5), told: bool,
    ) {
        let placement = with_copies(&fates, told);
        let live = placement.copies.iter().filter(|copy| copy.live().is_some()).count();
        let is_called_off = told && fates.last() == Some(&CALLED_OFF);
        if let Remedy::Cancel(at) = remedy(&placement) {
            prop_assert_eq!(placement.copies[at].live(), Some(Progress::Waiting));
            prop_assert!(live > 1 || is_called_off);
            let other_goes = |(other, fate): (usize, &Fate)| other != at && matches!(fate, Fate::Cancelling { .. });
            // Another one may go only where this one was told to, too.
            let goes_already = matches!(fates[at], Fate::Cancelling { .. });
            prop_assert!(goes_already || !fates.iter().enumerate().any(other_goes));
        }
    }
}
