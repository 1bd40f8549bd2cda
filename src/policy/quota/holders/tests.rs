//! Shares of one limit.

use proptest::prelude::*;

use super::*;

const TTL_MS: u64 = 60_000;

fn ask(sidecar: &str, sequence: u64, holds: u64, needs: u64) -> Ask {
    let sidecar = sidecar.to_owned();
    Ask {
        sidecar,
        started_unix_ms: 1,
        sequence,
        holds,
        granted: holds,
        needs,
        wants: needs + needs / 4 + 1,
        longest_call_ms: 25_000,
        held: 0,
    }
}

impl Holders {
    fn one(&mut self, limit: u64, ask: &Ask, now_ms: u64) -> Share {
        self.share(limit, TTL_MS, &[ask], now_ms)[0]
    }
}

fn calls(share: Share) -> u64 {
    match share {
        Share::Calls(calls) => calls,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_sidecar_gets_what_it_wants_and_others_get_their_part_once_it_has_given_back() {
    let mut all = Holders::default();
    assert_eq!(calls(all.one(20, &ask("a", 1, 0, 40), 0)), 20);
    assert_eq!(calls(all.one(20, &ask("b", 1, 0, 8), 0)), 0, "a may still make 20 calls");
    assert_eq!(calls(all.one(20, &ask("a", 2, 20, 40), 0)), 12, "b is due 8");
    assert_eq!(calls(all.one(20, &ask("b", 2, 0, 8), 0)), 0, "the calls of a go on");
    assert_eq!(calls(all.one(20, &ask("a", 3, 12, 40), 0)), 12);
    assert_eq!(calls(all.one(20, &ask("b", 3, 0, 8), 0)), 8);
    assert_eq!(calls(all.one(20, &ask("b", 4, 8, 30), 0)), 8);
    assert_eq!(calls(all.one(20, &ask("a", 4, 12, 40), 0)), 10, "half for each");
}

#[test]
fn requests_that_come_together_are_within_the_limit_and_are_met_up_to_one_level() {
    let asks = [ask("a", 1, 0, 40), ask("b", 1, 0, 3), ask("c", 1, 0, 40), ask("a", 1, 0, 40)];
    let shares = Holders::default().share(21, TTL_MS, &asks.iter().collect::<Vec<_>>(), 0);
    assert_eq!(shares, [Share::Calls(9), Share::Calls(3), Share::Calls(9), Share::Late(1)]);
}

#[test]
fn one_refused_call_costs_a_busy_holder_one_call() {
    let mut all = Holders::default();
    assert_eq!(calls(all.one(200, &ask("busy", 1, 0, 150), 0)), 188);
    for at in 0..12 {
        assert_eq!(calls(all.one(200, &ask(&format!("idle-{at}"), 1, 0, 0), 0)), 1);
    }
    assert_eq!(calls(all.one(200, &ask("quiet", 1, 0, 1), 0)), 0);
    assert_eq!(calls(all.one(200, &ask("busy", 2, 188, 150), 0)), 187);
}

#[test]
fn the_needs_of_a_holder_that_asks_no_more_are_forgotten_and_one_that_ends_leaves_nothing() {
    let mut all = Holders::default();
    assert_eq!(calls(all.one(10, &ask("a", 1, 0, 8), 0)), 10);
    assert_eq!(calls(all.one(10, &ask("b", 1, 0, 8), 0)), 0);
    assert_eq!(calls(all.one(10, &ask("a", 2, 10, 8), 1)), 5);
    assert_eq!(calls(all.one(10, &ask("a", 3, 5, 8), NEEDS_FOR_MS)), 10, "b has gone");
    let last = Ask { holds: 0, needs: 0, wants: 0, ..ask("a", 4, 0, 0) };
    assert_eq!(calls(all.one(10, &last, NEEDS_FOR_MS)), 0);
    assert_eq!(all.iter().map(|it| it.sidecar.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn an_idle_holder_gives_all_back_to_those_who_lack_calls() {
    let mut all = Holders::default();
    assert_eq!(calls(all.one(2, &ask("a", 1, 0, 0), 0)), 1);
    assert_eq!(calls(all.one(2, &ask("b", 1, 0, 2), 0)), 1);
    assert_eq!(calls(all.one(2, &ask("a", 2, 1, 0), 0)), 0);
    assert_eq!(calls(all.one(2, &ask("b", 2, 1, 2), 0)), 1, "a may still make one");
    assert_eq!(calls(all.one(2, &ask("a", 3, 0, 0), 0)), 0);
    assert_eq!(calls(all.one(2, &ask("b", 3, 1, 2), 0)), 2);
}

#[test]
fn a_lowered_limit_is_reached_as_holders_ask_again() {
    let mut all = Holders::default();
    assert_eq!(calls(all.one(100, &ask("a", 1, 0, 50), 0)), 63);
    assert_eq!(calls(all.one(100, &ask("b", 1, 0, 50), 0)), 37);
    assert_eq!(calls(all.one(10, &ask("a", 2, 63, 50), 0)), 5);
    assert_eq!(calls(all.one(10, &ask("b", 2, 37, 50), 0)), 5);
}

#[test]
fn a_late_request_changes_nothing_and_an_ended_holder_is_forgotten_after_its_longest_call() {
    let mut all = Holders::default();
    assert_eq!(calls(all.one(5, &ask("a", 7, 0, 4), 0)), 5);
    let before = all.clone();
    assert_eq!(all.one(5, &ask("a", 7, 0, 0), 0), Share::Late(7));
    assert_eq!(all, before);
    all.expire(TTL_MS + 25_000 + MARGIN_MS - 1);
    assert_eq!(all.count(), 1);
    all.expire(TTL_MS + 25_000 + MARGIN_MS);
    assert_eq!(all.count(), 0);
}

#[test]
fn what_a_process_holds_of_an_earlier_one_is_counted_and_not_granted_again() {
    let mut all = Holders::default();
    assert_eq!(calls(all.one(10, &ask("a", 1, 0, 8), 0)), 10);
    let restarted = Ask { started_unix_ms: 2, granted: 0, ..ask("a", 1, 6, 8) };
    assert_eq!(calls(all.one(10, &restarted, 1)), 0);
    assert_eq!(all.calls(), 16);
    let ends = TTL_MS + 25_000 + MARGIN_MS;
    all.expire(ends);
    let later = Ask { started_unix_ms: 2, granted: 0, ..ask("a", 2, 2, 8) };
    assert_eq!(calls(all.one(10, &later, ends)), 10);
}

#[test]
fn holders_are_kept_over_a_silence_of_all_until_they_could_ask_again() {
    let mut all = Holders::default();
    assert_eq!(calls(all.one(20, &ask("a", 1, 0, 8), 0)), 11);
    assert_eq!(calls(all.one(20, &ask("b", 1, 0, 8), 0)), 9);
    let late = 100 * TTL_MS;
    let mut quick = all.clone();
    quick.keep_over_silence(TTL_MS, TTL_MS / 2);
    assert_eq!(quick, all, "no silence");
    all.keep_over_silence(TTL_MS, late);
    all.expire(late);
    assert_eq!(calls(all.one(20, &ask("c", 1, 0, 8), late)), 0, "the jobs of both may go on");
    assert_eq!(calls(all.one(20, &ask("b", 2, 9, 8), late)), 8);
    let half = late + RETURN_MS.1 / 2;
    all.keep_over_silence(TTL_MS, half);
    all.expire(half);
    assert_eq!(calls(all.one(20, &ask("b", 3, 8, 8), half)), 9);
    assert_eq!(calls(all.one(20, &ask("c", 2, 0, 8), half)), 0, "a has time yet");
    let over = late + RETURN_MS.1;
    all.keep_over_silence(TTL_MS, over);
    all.expire(over);
    assert_eq!(calls(all.one(20, &ask("c", 3, 0, 8), over)), 11, "a has gone");
}

/// A sidecar of the model: it makes as many calls as it may, and learns of grants or not.
#[derive(Debug, Clone, Default)]
struct Sidecar {
    sequence: u64,
    may: u64,
    under_way: u64,
    /// A request that the hub has not seen yet.
    delayed: Option<Ask>,
}

proptest! {
    /// Requests and answers are lost, delayed and carried out in another order; calls begin and end at any time.
    #[test]
    fn calls_under_way_never_exceed_the_limit(steps in proptest::collection::vec((0..4_usize, 0..7_u8, 0..30_u64), 1..300)) {
        const LIMIT: u64 = 20;
        let mut all = Holders::default();
        let mut sidecars = vec![Sidecar::default(); 4];
        for (at, step, number) in steps {
            let it = &mut sidecars[at];
            let name = at.to_string();
            match step {
                0 => it.under_way = it.under_way.max(it.may.min(number)),
                1 => it.under_way = it.under_way.min(number),
                step => {
                    if let Some(delayed) = it.delayed.take() {
                        let _ = all.one(LIMIT, &delayed, 0);
                        continue;
                    }
                    it.sequence += 1;
                    let asked = ask(&name, it.sequence, it.may.max(it.under_way), number);
                    match step {
                        2 => {}
                        3 => it.delayed = Some(asked),
                        4 => drop(all.one(LIMIT, &asked, 0)),
                        _ => match all.one(LIMIT, &asked, 0) {
                            Share::Calls(calls) => it.may = calls,
                            Share::Late(sequence) => it.sequence = sequence,
                            Share::Full => unreachable!("there are four holders"),
                        },
                    }
                }
            }
            let most: u64 = sidecars.iter().map(|it| it.may.max(it.under_way)).sum();
            prop_assert!(most <= LIMIT, "{most} of {sidecars:?}, {all:?}");
        }
    }
}

proptest! {
    /// Whatever the needs, every holder ends at its needs, or at an equal part where they exceed the limit, and keeps it.
    #[test]
    fn shares_settle(needs in proptest::collection::vec(0..40_u64, 1..8), limit in 1..60_u64) {
        let mut all = Holders::default();
        let mut has = vec![0; needs.len()];
        let mut before = Vec::new();
        for round in 1..12 {
            before.clone_from(&has);
            for (at, needs) in needs.iter().enumerate() {
                has[at] = calls(all.one(limit, &ask(&at.to_string(), round, has[at], *needs), 0));
            }
        }
        let part = level(limit, needs.clone());
        prop_assert_eq!(&has, &before);
        let lack = needs.iter().zip(&has).filter(|(needs, has)| **has < (**needs).min(part)).count();
        // A limit below the number of those who need calls leaves some without.
        let most = needs.iter().filter(|needs| **needs > 0).count().saturating_sub(limit as usize);
        prop_assert!(lack <= most, "{:?} of {:?}, part {}", has, needs, part);
    }
}
