use super::super::background::{Action, next};
use super::super::{Ruling, Settlement, State};
use super::*;

fn ruling(stored: bool) -> Ruling {
    Ruling { stored, reason: "seen".to_owned(), at: at(10) }
}

fn decide(placement: &mut Placement, region: &str, stored: bool) {
    placement.apply(Event::Decided(place(region, region), ruling(stored)), at(10), RULES);
}

fn undecided(placement: &Placement, name: &str, region: Option<&str>) -> Vec<String> {
    let region = region.map(|it| RegionId::parse(it).unwrap());
    placement.undecided(name, region.as_ref()).into_iter().map(|place| place.region.to_string()).collect()
}

#[test]
fn an_operators_word_ends_what_nobody_can_tell() {
    for (stored, settled, state) in
        [(true, Settlement::Stored, State::Stored), (false, Settlement::Absent, State::Absent)]
    {
        let mut placement = with_copies(&[lost(Lost::TimedOut)], false);
        assert_eq!(placement.state(), State::Unknown);
        decide(&mut placement, "a", stored);
        assert_eq!(next(&placement, at(11), at(11), |_| true), Action::Settle(settled));
        assert_eq!((placement.state(), placement.doubt()), (state, None));
        assert_eq!(placement.stored().is_some(), stored);
        assert_eq!(placement.copies[0].ruling.as_deref(), Some(&ruling(stored)));
    }
}

#[test]
fn an_operator_decides_only_about_what_its_region_has_not_told() {
    let all = [lost(Lost::Ended), watched(900), FINAL, WAITING];
    let mut placement = with_copies(&all, true);
    assert_eq!(undecided(&placement, "d", None), ["a", "b"], "by the id that its client knows");
    assert_eq!(undecided(&placement, "b", None), ["b"], "by the id of one");
    assert_eq!(undecided(&placement, "d", Some("a")), ["a"]);
    assert!(undecided(&placement, "d", Some("c")).is_empty());
    decide(&mut placement, "c", true);
    decide(&mut placement, "d", false);
    assert_eq!((fate(&placement, 2), fate(&placement, 3)), (FINAL, WAITING));
    decide(&mut placement, "b", false);
    assert_eq!((fate(&placement, 1), undecided(&placement, "d", None).len()), (FINAL, 1));
    for name in ["a", "d", "0"] {
        assert!(placement.is_named(name), "{name}");
    }
    assert!(!placement.is_named("e"));
}

#[test]
fn of_several_copies_under_one_id_the_last_is_the_one_that_an_operator_says_is_there() {
    let mut placement = with_copies(&[lost(Lost::Ended), lost(Lost::Ended)], false);
    placement.copies[1].place = place("a", "a");
    assert_eq!(undecided(&placement, "a", None), ["a"], "one place");
    decide(&mut placement, "a", true);
    assert_eq!((fate(&placement, 0), fate(&placement, 1)), (FINAL, WAITING));
    assert_eq!(next(&placement, at(11), at(11), |_| true), Action::Settle(Settlement::Stored));
}

#[test]
fn what_nobody_could_tell_for_a_day_can_still_be_decided_and_what_is_known_cannot() {
    for (how, expected) in [(Settlement::Expired, 1), (Settlement::Doubled, 0)] {
        let mut placement = with_copies(&[lost(Lost::Ended)], false);
        placement.apply(Event::Settled(how), at(9), RULES);
        assert_eq!(undecided(&placement, "a", None).len(), expected, "{how:?}");
    }
    let mut placement = with_copies(&[lost(Lost::Ended)], false);
    placement.apply(Event::Settled(Settlement::Expired), at(9), RULES);
    decide(&mut placement, "a", false);
    assert_eq!((placement.settled, placement.state()), (None, State::Absent));
}

#[test]
fn a_region_that_does_not_have_what_an_operator_says_it_has_is_believed() {
    let mut placement = with_copies(&[watched(900), WAITING], true);
    decide(&mut placement, "a", true);
    assert_eq!(fate(&placement, 0), WAITING);
    placement.apply(Event::Heard(0, Word::No, Trust::Doubted), at(11), RULES);
    assert_eq!(fate(&placement, 0), WAITING, "it may be hidden from who asks");
    hear(&mut placement, 0, Word::No, at(12));
    assert_eq!(fate(&placement, 0), Fate::Unknown { lost: Lost::Ended, since: at(12) });
    assert_eq!(placement.stored(), Some(&place("b", "b")), "and the other one stays");
}
