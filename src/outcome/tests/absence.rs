//! When an absence counts.

use proptest::prelude::*;

use super::*;

/// What is known of a lost copy after these answers "no such job".
fn after(how: Lost, noes: &[u64]) -> Fate {
    let mut placement = with_copies(&[lost(how)], false);
    for millis in noes {
        hear(&mut placement, 0, Word::No, Moment(START.0 + millis));
    }
    fate(&placement, 0)
}

#[test]
fn grace_and_lag_add_up_before_a_no_counts() {
    let absent = watched(900);
    let cases = [
        (Lost::Ended, vec![2_999, 3_000], lost(Lost::Ended)),
        (Lost::Ended, vec![0, 1, 2, 2_999], lost(Lost::Ended)),
        (Lost::Ended, vec![3_000, 3_001], absent),
        (Lost::Ended, vec![0, 1, 3_000, 60_000], absent),
        // After a timeout the time begins with the first sign of life.
        (Lost::TimedOut, vec![3_000, 3_001, 5_999, 6_000], lost(Lost::TimedOut)),
        (Lost::TimedOut, vec![0, 3_000, 3_001], absent),
        (Lost::TimedOut, vec![60_000, 63_000, 63_001], absent),
    ];
    for (how, noes, expected) in cases {
        assert_eq!(after(how, &noes), expected, "{how:?} {noes:?}");
    }
}

#[test]
fn another_job_under_its_id_counts_as_a_no() {
    let mut placement = with_copies(&[lost(Lost::Ended)], false);
    hear(&mut placement, 0, Word::Other, at(4));
    hear(&mut placement, 0, Word::No, at(5));
    assert_eq!(fate(&placement, 0), watched(900));
}

#[test]
fn an_id_that_is_taken_begins_the_time_anew() {
    let mut placement = with_copies(&[lost(Lost::Ended)], false);
    hear(&mut placement, 0, Word::No, at(4));
    hear(&mut placement, 0, Word::Taken, at(5));
    for second in [6, 7] {
        hear(&mut placement, 0, Word::No, at(second));
    }
    assert_eq!(fate(&placement, 0), Fate::Unknown { lost: Lost::Ended, since: at(5) });
}

fn any_word() -> impl Strategy<Value = Word> {
    prop_oneof![
        4 => Just(Word::No),
        1 => Just(Word::Other),
        1 => Just(Word::Taken),
        2 => Just(Word::Silent),
    ]
}

proptest! {
    #[test]
    fn no_absence_is_believed_without_two_believed_noes_past_grace_and_lag(
        timed_out: bool,
        said in prop::collection::vec((0_u64..3_000, any_word(), any::<bool>()), 0..12),
    ) {
        let how = if timed_out { Lost::TimedOut } else { Lost::Ended };
        let mut placement = with_copies(&[lost(how)], false);
        let (mut now, mut taken) = (START, START);
        let mut noes = Vec::new();
        for (passed, word, believed) in said {
            now = Moment(now.0 + passed);
            let trust = if believed { Trust::Believed } else { Trust::Doubted };
            placement.apply(Event::Heard(0, word, trust), now, RULES);
            match word {
                Word::No | Word::Other if believed => noes.push(now),
                Word::Taken => (taken, noes) = (now, Vec::new()),
                _ => {}
            }
            let from = if timed_out { noes.first().copied() } else { Some(taken) };
            let counted = noes.iter().filter(|no| from.is_some_and(|from| no.since(from) >= RULES.grace + RULES.lag));
            let is_absent = matches!(fate(&placement, 0), Fate::Absent { .. });
            prop_assert_eq!(is_absent, counted.count() >= 2);
            if is_absent {
                break;
            }
        }
    }
}
