//! The sidecars that hold calls of one fleet limit, and the share of each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// More holders than sidecars that one hub serves.
const HOLDERS_MAX: usize = 20_000;
/// A sidecar asks again at least every ten seconds: one that has missed three times needs nothing. Units: milliseconds.
const NEEDS_FOR_MS: u64 = 30_000;
/// Clocks of two databases, or a request that was under way for long, differ by less. Units: milliseconds.
const MARGIN_MS: u64 = 5_000;

/// The request of one process for calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct Ask {
    /// The process.
    pub(in crate::hub) holder: String,
    pub(in crate::hub) sequence: u64,
    /// The most calls at once that it makes until there is another grant.
    pub(in crate::hub) holds: u64,
    /// The calls at once that its clients want.
    pub(in crate::hub) needs: u64,
    /// The calls at once that it would like to have.
    pub(in crate::hub) wants: u64,
    /// How long a call goes on at most. Units: milliseconds.
    pub(in crate::hub) longest_call_ms: u64,
}

/// The answer to a request for calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum Share {
    /// So many calls at once.
    Calls(u64),
    /// A later request of the process came first, with this sequence.
    Late(u64),
    /// There are as many holders as may be.
    Full,
}

/// One holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::hub) struct Holder {
    /// The most calls at once that it may make, as far as is known.
    pub(in crate::hub) calls: u64,
    pub(in crate::hub) needs: u64,
    /// When its needs are forgotten. Units: milliseconds of the record's clock.
    pub(in crate::hub) needs_end_ms: u64,
    pub(in crate::hub) sequence: u64,
    /// When nothing of it is left. Units: milliseconds of the record's clock.
    pub(in crate::hub) ends_ms: u64,
}

impl Holder {
    /// Its needs; none where it has not asked for long.
    fn needs_at(&self, now_ms: u64) -> u64 {
        if self.needs_end_ms > now_ms { self.needs } else { 0 }
    }
}

/// The most calls that each need is met up to, so that all of them together stay within the limit: a lower need leaves the rest to others.
fn level(limit: u64, mut needs: Vec<u64>) -> u64 {
    needs.sort_unstable();
    let mut left = limit;
    for (place, need) in needs.iter().enumerate() {
        let part = left / (needs.len() - place) as u64;
        if *need > part {
            return part.max(1);
        }
        left -= need;
    }
    limit
}

/// The holders of one limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::hub) struct Holders(BTreeMap<String, Holder>);

impl Holders {
    /// Drops the holders whose time is over.
    pub(super) fn expire(&mut self, now_ms: u64) {
        self.0.retain(|_, it| it.ends_ms > now_ms);
    }

    /// Divides the limit anew for a request: the calls are all that the process may make for `ttl_ms`, counted from before `now_ms`. The sum
    /// of all calls never rises above the limit by it. Where others lack calls that they are due, this holder gives back those beyond its own.
    pub(super) fn share(&mut self, limit: u64, ttl_ms: u64, ask: &Ask, now_ms: u64) -> Share {
        let known = self.0.get(&ask.holder);
        if let Some(known) = known.filter(|it| it.sequence >= ask.sequence) {
            return Share::Late(known.sequence);
        }
        if known.is_none() && self.0.len() >= HOLDERS_MAX {
            return Share::Full;
        }
        let others: Vec<&Holder> = self.0.iter().filter(|(name, _)| **name != ask.holder).map(|(_, it)| it).collect();
        let level = level(limit, others.iter().map(|it| it.needs_at(now_ms)).chain([ask.needs]).collect());
        let due = |it: &Holder| it.needs_at(now_ms).min(level);
        let sum = |calls: &dyn Fn(&Holder) -> u64| others.iter().fold(0, |sum, it| calls(it).saturating_add(sum));
        let free = limit.saturating_sub(sum(&|it| it.calls));
        // Beyond its own part a holder gets the calls that no other one holds or is due.
        let rest = limit.saturating_sub(sum(&|it| it.calls.max(due(it))));
        let most = ask.wants.min(rest.max(ask.needs.min(level)));
        // Calls beyond those that it holds come from those that nobody holds.
        let calls = most.min(ask.holds.max(free));
        let holder = Holder {
            calls: calls.max(ask.holds),
            needs: ask.needs,
            needs_end_ms: now_ms.saturating_add(NEEDS_FOR_MS),
            sequence: ask.sequence,
            ends_ms: now_ms.saturating_add(ttl_ms).saturating_add(ask.longest_call_ms).saturating_add(MARGIN_MS),
        };
        if ask.wants == 0 && ask.holds == 0 {
            // The process ends, and nothing of it is under way.
            self.0.remove(&ask.holder);
        } else {
            self.0.insert(ask.holder.clone(), holder);
        }
        Share::Calls(calls)
    }

    /// The holders, by name.
    pub(in crate::hub) fn iter(&self) -> impl Iterator<Item = (&String, &Holder)> {
        self.0.iter()
    }

    /// The calls of all of them together.
    pub(in crate::hub) fn calls(&self) -> u64 {
        self.0.values().fold(0, |sum, it| sum.saturating_add(it.calls))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TTL_MS: u64 = 60_000;

    fn ask(holder: &str, sequence: u64, holds: u64, needs: u64) -> Ask {
        let holder = holder.to_owned();
        Ask { holder, sequence, holds, needs, wants: needs + needs / 4 + 1, longest_call_ms: 25_000 }
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
        assert_eq!(calls(all.share(20, TTL_MS, &ask("a", 1, 0, 40), 0)), 20);
        assert_eq!(calls(all.share(20, TTL_MS, &ask("b", 1, 0, 8), 0)), 0, "a may still make 20 calls");
        assert_eq!(calls(all.share(20, TTL_MS, &ask("a", 2, 20, 40), 0)), 12, "b is due 8");
        assert_eq!(calls(all.share(20, TTL_MS, &ask("b", 2, 0, 8), 0)), 0, "the calls of a go on");
        assert_eq!(calls(all.share(20, TTL_MS, &ask("a", 3, 12, 40), 0)), 12);
        assert_eq!(calls(all.share(20, TTL_MS, &ask("b", 3, 0, 8), 0)), 8);
        assert_eq!(calls(all.share(20, TTL_MS, &ask("b", 4, 8, 30), 0)), 8);
        assert_eq!(calls(all.share(20, TTL_MS, &ask("a", 4, 12, 40), 0)), 10, "half for each");
    }

    #[test]
    fn one_refused_call_costs_a_busy_holder_one_call() {
        let mut all = Holders::default();
        assert_eq!(calls(all.share(200, TTL_MS, &ask("busy", 1, 0, 150), 0)), 188);
        for at in 0..12 {
            assert_eq!(calls(all.share(200, TTL_MS, &ask(&format!("idle-{at}"), 1, 0, 0), 0)), 1);
        }
        assert_eq!(calls(all.share(200, TTL_MS, &ask("quiet", 1, 0, 1), 0)), 0);
        assert_eq!(calls(all.share(200, TTL_MS, &ask("busy", 2, 188, 150), 0)), 187);
    }

    #[test]
    fn the_needs_of_a_holder_that_asks_no_more_are_forgotten_and_one_that_ends_leaves_nothing() {
        let mut all = Holders::default();
        assert_eq!(calls(all.share(10, TTL_MS, &ask("a", 1, 0, 8), 0)), 10);
        assert_eq!(calls(all.share(10, TTL_MS, &ask("b", 1, 0, 8), 0)), 0);
        assert_eq!(calls(all.share(10, TTL_MS, &ask("a", 2, 10, 8), 1)), 5);
        assert_eq!(calls(all.share(10, TTL_MS, &ask("a", 3, 5, 8), NEEDS_FOR_MS)), 10, "b has gone");
        let last = Ask { holds: 0, needs: 0, wants: 0, ..ask("a", 4, 0, 0) };
        assert_eq!(calls(all.share(10, TTL_MS, &last, NEEDS_FOR_MS)), 0);
        assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn an_idle_holder_gives_all_back_to_those_who_lack_calls() {
        let mut all = Holders::default();
        assert_eq!(calls(all.share(2, TTL_MS, &ask("a", 1, 0, 0), 0)), 1);
        assert_eq!(calls(all.share(2, TTL_MS, &ask("b", 1, 0, 2), 0)), 1);
        assert_eq!(calls(all.share(2, TTL_MS, &ask("a", 2, 1, 0), 0)), 0);
        assert_eq!(calls(all.share(2, TTL_MS, &ask("b", 2, 1, 2), 0)), 1, "a may still make one");
        assert_eq!(calls(all.share(2, TTL_MS, &ask("a", 3, 0, 0), 0)), 0);
        assert_eq!(calls(all.share(2, TTL_MS, &ask("b", 3, 1, 2), 0)), 2);
    }

    #[test]
    fn a_lowered_limit_is_reached_as_holders_ask_again() {
        let mut all = Holders::default();
        assert_eq!(calls(all.share(100, TTL_MS, &ask("a", 1, 0, 50), 0)), 63);
        assert_eq!(calls(all.share(100, TTL_MS, &ask("b", 1, 0, 50), 0)), 37);
        assert_eq!(calls(all.share(10, TTL_MS, &ask("a", 2, 63, 50), 0)), 5);
        assert_eq!(calls(all.share(10, TTL_MS, &ask("b", 2, 37, 50), 0)), 5);
    }

    #[test]
    fn a_late_request_changes_nothing_and_an_ended_holder_is_forgotten_after_its_longest_call() {
        let mut all = Holders::default();
        assert_eq!(calls(all.share(5, TTL_MS, &ask("a", 7, 0, 4), 0)), 5);
        let before = all.clone();
        assert_eq!(all.share(5, TTL_MS, &ask("a", 7, 0, 0), 0), Share::Late(7));
        assert_eq!(all, before);
        all.expire(TTL_MS + 25_000 + MARGIN_MS - 1);
        assert_eq!(all.len(), 1);
        all.expire(TTL_MS + 25_000 + MARGIN_MS);
        assert_eq!(all.len(), 0);
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
                            let _ = all.share(LIMIT, TTL_MS, &delayed, 0);
                            continue;
                        }
                        it.sequence += 1;
                        let asked = ask(&name, it.sequence, it.may.max(it.under_way), number);
                        match step {
                            2 => {}
                            3 => it.delayed = Some(asked),
                            4 => drop(all.share(LIMIT, TTL_MS, &asked, 0)),
                            _ => match all.share(LIMIT, TTL_MS, &asked, 0) {
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
                    has[at] = calls(all.share(limit, TTL_MS, &ask(&at.to_string(), round, has[at], *needs), 0));
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
}
