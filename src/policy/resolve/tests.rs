use proptest::prelude::*;

use super::*;

const GRACE: Duration = Duration::from_secs(2);
const UNTIL: Duration = Duration::from_secs(20);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn heard(said: &[(u64, Word)]) -> Vec<Heard> {
    said.iter().map(|(at, word)| Heard { at: ms(*at), word: *word }).collect()
}

#[test]
fn a_job_is_absent_only_after_the_connections_end_and_two_noes_past_the_grace() {
    use Word::{Has, HasNot as No, Silent};
    let check = |lost, said: &[(u64, Word)], expected| {
        assert_eq!(judge(lost, &heard(said), GRACE, UNTIL), expected, "{lost:?} {said:?}");
    };
    check(Lost::Ended, &[], Verdict::AskAt(ms(0)));
    check(Lost::Ended, &[(0, Has)], Verdict::Found);
    check(Lost::Ended, &[(0, No)], Verdict::AskAt(ms(100)));
    check(Lost::Ended, &[(0, No), (100, No), (300, No), (700, No), (1500, No)], Verdict::AskAt(ms(2000)));
    check(Lost::Ended, &[(0, No), (1999, No), (2000, No)], Verdict::AskAt(ms(2100)));
    check(Lost::Ended, &[(0, No), (2000, No), (2100, No)], Verdict::Absent);
    check(Lost::Ended, &[(2000, No), (2100, Silent)], Verdict::AskAt(ms(2200)));
    check(Lost::Ended, &[(2000, No), (2100, Silent), (2200, No)], Verdict::Absent);
    check(Lost::Ended, &[(2000, No), (2100, Has)], Verdict::Found);
    check(Lost::Ended, &[(0, Silent), (100, Silent), (300, Silent)], Verdict::Unknown);
    check(Lost::TimedOut, &[(0, No), (100, No), (300, No)], Verdict::AskAt(ms(700)));
    check(Lost::TimedOut, &[(0, No), (1999, No), (2000, No)], Verdict::AskAt(ms(2100)));
    check(Lost::TimedOut, &[(0, No), (2000, No), (2100, No)], Verdict::Unknown);
    check(Lost::TimedOut, &[(2000, No), (2100, Has)], Verdict::Found);
    check(Lost::TimedOut, &[(19_900, No)], Verdict::Unknown);
    check(Lost::TimedOut, &[(19_900, Has)], Verdict::Found);
}

#[test]
fn what_follows_keeps_pins_and_sends_again_at_most_once() {
    let plain = Circumstances {
        pinned: false,
        redirects_unknown: false,
        candidates_left: 1,
        sent_again: false,
        gone_on_unknown: false,
    };
    let alone = Circumstances { candidates_left: 0, ..plain };
    let redirects = Circumstances { redirects_unknown: true, ..plain };
    for (verdict, it, expected) in [
        (Verdict::Found, alone, Follow::Answer),
        (Verdict::Absent, plain, Follow::Next),
        (Verdict::Absent, alone, Follow::Again),
        (Verdict::Absent, Circumstances { pinned: true, ..alone }, Follow::Again),
        (Verdict::Absent, Circumstances { sent_again: true, ..alone }, Follow::Fail),
        (Verdict::Unknown, plain, Follow::Fail),
        (Verdict::Unknown, redirects, Follow::Next),
        (Verdict::Unknown, Circumstances { pinned: true, ..redirects }, Follow::Fail),
        (Verdict::Unknown, Circumstances { gone_on_unknown: true, ..redirects }, Follow::Fail),
        (Verdict::Unknown, Circumstances { candidates_left: 0, ..redirects }, Follow::Fail),
    ] {
        assert_eq!(follow(verdict, it), expected, "{verdict:?} {it:?}");
    }
}

#[test]
fn the_background_asks_until_it_knows_or_a_day_is_over() {
    let fresh = Later {
        lost: Lost::Ended,
        trusted: true,
        watched: false,
        age: ms(3_000),
        asks: 1,
        noes: 1,
        word: Word::HasNot,
    };
    let two = Later { asks: 2, noes: 2, ..fresh };
    let elsewhere = Later { watched: true, ..two };
    for (it, expected) in [
        (Later { word: Word::Has, ..elsewhere }, Next::Landed),
        (fresh, Next::AskIn(ms(1_000))),
        (two, Next::Absent),
        (Later { lost: Lost::TimedOut, ..two }, Next::AskIn(ms(2_000))),
        (Later { trusted: false, ..two }, Next::AskIn(ms(2_000))),
        (Later { asks: 40, noes: 0, ..elsewhere }, Next::AskIn(LATER_PAUSE_WATCHING)),
        (Later { age: WATCH, ..elsewhere }, Next::Absent),
        (Later { lost: Lost::TimedOut, asks: 40, age: WATCH, ..elsewhere }, Next::AskIn(LATER_PAUSE_MAX)),
        (Later { lost: Lost::TimedOut, age: GIVE_UP, ..two }, Next::Expired),
        (Later { word: Word::Silent, noes: 0, age: GIVE_UP, ..two }, Next::Expired),
    ] {
        assert_eq!(later(it), expected, "{it:?}");
    }
}

#[test]
fn a_no_counts_after_the_grace_and_while_a_late_copy_is_waited_for_only_after_that() {
    let grace = ms(2_000);
    for (word, age, watched, expected) in [
        (Word::HasNot, ms(1_999), false, false),
        (Word::HasNot, grace, false, true),
        (Word::HasNot, WATCH - ms(1), true, false),
        (Word::HasNot, WATCH, true, true),
        (Word::Silent, WATCH, true, false),
        (Word::Has, WATCH, false, false),
    ] {
        assert_eq!(counts(word, age, grace, watched), expected, "{word:?} {age:?} {watched}");
    }
}

#[test]
fn of_two_copies_the_one_that_waits_is_cancelled_and_never_one_that_is_alone() {
    use CopyState::{Completed, Gone, Started, Waiting};
    for (state, attempt, expected) in [
        ("available", 0, Waiting),
        ("scheduled", 0, Waiting),
        ("available", 1, Started),
        ("active", 0, Started),
        ("completed", 1, Completed),
        ("discarded", 1, Started),
        ("cancelled", 0, Gone),
        ("cancelled", 1, Started),
        ("odd", 0, Started),
    ] {
        assert_eq!(CopyState::of(state, attempt), expected, "{state} {attempt}");
    }
    for (late, other, expected) in [
        (Waiting, Waiting, Remedy::CancelLate),
        (Waiting, Started, Remedy::CancelLate),
        (Started, Waiting, Remedy::CancelOther),
        (Started, Started, Remedy::Doubled),
        (Completed, Started, Remedy::Doubled),
        (Waiting, Completed, Remedy::CancelLate),
        (Completed, Waiting, Remedy::CancelOther),
        (Waiting, Gone, Remedy::None),
        (Started, Gone, Remedy::None),
        (Gone, Waiting, Remedy::None),
    ] {
        assert_eq!(remedy(late, other, Told::Nobody), expected, "{late:?} {other:?}");
    }
}

#[test]
fn once_one_copy_was_told_to_be_cancelled_the_other_one_is_never_unless_the_first_is_completed() {
    use CopyState::{Completed, Gone, Started, Waiting};
    for (late, other, told, expected) in [
        (Waiting, Waiting, Told::Late, Remedy::CancelLate),
        (Waiting, Started, Told::Late, Remedy::CancelLate),
        (Started, Waiting, Told::Late, Remedy::Wait),
        (Completed, Waiting, Told::Late, Remedy::CancelOther),
        (Started, Started, Told::Late, Remedy::Doubled),
        (Gone, Waiting, Told::Late, Remedy::None),
        (Waiting, Waiting, Told::Other, Remedy::CancelOther),
        (Started, Waiting, Told::Other, Remedy::CancelOther),
        (Waiting, Started, Told::Other, Remedy::Wait),
        (Waiting, Completed, Told::Other, Remedy::CancelLate),
        (Started, Started, Told::Other, Remedy::Doubled),
        (Waiting, Gone, Told::Other, Remedy::None),
    ] {
        assert_eq!(remedy(late, other, told), expected, "{late:?} {other:?} {told:?}");
    }
}

#[test]
fn a_copy_that_is_not_shown_is_gone_only_where_that_is_proved() {
    let unseen = Elsewhere { copy: None, stored: false, cancelling: false, absent: false, trusted: true, noes: 2 };
    for (it, expected) in [
        (Elsewhere { copy: Some(CopyState::Waiting), ..unseen }, Some(CopyState::Waiting)),
        (unseen, Some(CopyState::Gone)),
        (Elsewhere { noes: 1, ..unseen }, None),
        (Elsewhere { trusted: false, ..unseen }, None),
        (Elsewhere { trusted: false, absent: true, ..unseen }, Some(CopyState::Gone)),
        (Elsewhere { stored: true, ..unseen }, Some(CopyState::Started)),
        (Elsewhere { stored: true, cancelling: true, ..unseen }, Some(CopyState::Gone)),
    ] {
        assert_eq!(other_copy(it), expected, "{it:?}");
    }
}

#[test]
fn what_cannot_be_decided_is_asked_about_ever_less_and_not_after_a_day() {
    let it =
        Later { lost: Lost::Ended, trusted: true, watched: true, age: ms(1_000), asks: 3, noes: 0, word: Word::Has };
    assert_eq!(undecided(it), Next::AskIn(ms(4_000)));
    assert_eq!(undecided(Later { asks: 40, ..it }), Next::AskIn(LATER_PAUSE_WATCHING));
    assert_eq!(undecided(Later { asks: 40, age: WATCH, ..it }), Next::AskIn(LATER_PAUSE_MAX));
    assert_eq!(undecided(Later { age: GIVE_UP, ..it }), Next::Expired);
}

fn words() -> impl Strategy<Value = Word> {
    prop_oneof![Just(Word::HasNot), Just(Word::Silent), Just(Word::Has)]
}

proptest! {
    /// A call that asks as it is told to comes to an end, and never takes a job for absent that could still be stored.
    #[test]
    fn asking_ends_and_proves_no_more_than_was_said(
        answers in proptest::collection::vec(words(), 200),
        timed_out in any::<bool>(),
        grace_ms in 0..5_000_u64,
        until_ms in 0..30_000_u64,
        took in 0..50_u64,
    ) {
        let lost = if timed_out { Lost::TimedOut } else { Lost::Ended };
        let (grace, until) = (ms(grace_ms), ms(until_ms));
        let mut said: Vec<Heard> = Vec::new();
        let mut now = Duration::ZERO;
        let mut answers = answers.into_iter();
        let verdict = loop {
            match judge(lost, &said, grace, until) {
                Verdict::AskAt(at) => {
                    prop_assert!(at < until);
                    now = now.max(at);
                    let Some(word) = answers.next() else { break Verdict::Unknown };
                    said.push(Heard { at: now, word });
                    now += ms(took);
                }
                verdict => break verdict,
            }
        };
        prop_assert!(said.len() < 200, "{said:?}");
        let noes = said.iter().filter(|it| it.word == Word::HasNot && it.at >= grace).count();
        match verdict {
            Verdict::Found => prop_assert!(said.iter().any(|it| it.word == Word::Has)),
            Verdict::Absent => prop_assert!(lost == Lost::Ended && noes >= 2 && said.iter().all(|it| it.word != Word::Has)),
            _ => prop_assert!(lost == Lost::TimedOut || noes < 2),
        }
    }
}
