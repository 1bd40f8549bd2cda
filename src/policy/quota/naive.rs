//! A naive model of a quota, which forgets nothing, against the ledger.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::rate::HOUR;
use super::*;

/// The room of a slot by all stretches, one by one: each begins and ends with that slot, or with tokens, because others are wider for as many tokens.
/// `blocks`: of each, the first slot behind it and its tokens.
pub(super) fn room(rate: Rate, slots: &BTreeMap<u64, u64>, blocks: &[(u64, u64)], slot: u64) -> u64 {
    let mut room = rate.max_per_hour.min(rate.burst);
    let lasts = blocks.iter().map(|(end, _)| end.saturating_sub(1)).filter(|it| (slot - HOUR..slot).contains(it));
    for from in slots.range(slot - HOUR..slot).map(|(from, _)| *from).chain(lasts).chain([slot]) {
        let open: u64 = blocks.iter().filter(|(end, _)| *end > from).map(|(_, tokens)| tokens).sum();
        let mut tokens = open + slots.range(from..=slot).map(|(_, tokens)| tokens).sum::<u64>();
        let later = slots.range(slot + 1..).map(|(to, tokens)| (*to, *tokens));
        for (to, further) in std::iter::once((slot, 0)).chain(later) {
            tokens += further;
            let longer = rate.burst + rate.max_per_hour * (to - from).saturating_sub(1) / HOUR;
            room = room.min(rate.most_in(to - from + 1).unwrap_or(longer).saturating_sub(tokens));
        }
    }
    room
}

/// One process, as it knows itself.
#[derive(Debug, Default, Clone)]
struct Process {
    sequence: u64,
    left: u64,
    end: u64,
    /// Later tokens that no job has taken.
    later: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Naive {
    rate: Rate,
    now: u64,
    ledger: Ledger,
    processes: Vec<Process>,
    /// Every token that was ever taken.
    taken: BTreeMap<u64, u64>,
}

impl Naive {
    /// All tokens but those of blocks, and the blocks but that of one process.
    fn all(&self, without: usize) -> (BTreeMap<u64, u64>, Vec<(u64, u64)>) {
        let mut slots = self.taken.clone();
        for (slot, tokens) in self.processes.iter().flat_map(|it| &it.later) {
            *slots.entry(*slot).or_default() += tokens;
        }
        let others = self.processes.iter().enumerate().filter(|(place, _)| *place != without);
        (slots, others.map(|(_, it)| (it.end, it.left)).collect())
    }

    /// A process has used some of its tokens, and asks. Checks the answer.
    fn ask(&mut self, place: usize, (uses, needs, wants_later): (u64, u64, u64)) {
        let (rate, now) = (self.rate, self.now);
        let it = &mut self.processes[place];
        let (mut dropped, mut rows) = (0, Vec::new());
        if it.end > now {
            let used = uses.min(it.left);
            it.left -= used;
            *self.taken.entry(now).or_default() += used;
        } else {
            dropped = std::mem::take(&mut it.left);
        }
        for (slot, tokens) in std::mem::take(&mut it.later) {
            // Jobs take all before the slot comes, and some before that.
            let spent = if slot <= now { tokens } else { uses.min(tokens) };
            *self.taken.entry(slot).or_default() += spent;
            rows.push(SpentLater { at_ms: slot * SLOT_MS, spent, left: tokens - spent });
            if spent < tokens {
                it.later.insert(slot, tokens - spent);
            }
        }
        it.sequence += 1;
        let ask = BlockAsk {
            process: format!("{place}"),
            sequence: it.sequence,
            answered: Some(it.sequence - 1),
            left: it.left,
            dropped,
            wants: rate.burst,
            needs,
            later: rows,
            wants_later,
        };
        let (left, had) = (it.left, it.later.values().sum::<u64>());
        let block = self.ledger.ask(rate, &ask, now * SLOT_MS).unwrap();
        let (mut slots, mut blocks) = self.all(place);
        let most = (now..now + 6).map(|slot| room(rate, &slots, &blocks, slot)).min().unwrap();
        assert!(left + block.further <= most.max(left), "{left} and {} of {most}", block.further);
        let it = &mut self.processes[place];
        (it.left, it.end) = (left + block.further, block.ends_ms / SLOT_MS);
        blocks.push((it.end, it.left));
        let (mut wants, mut from) = (wants_later.saturating_sub(had), now + 1);
        for (at_ms, tokens) in block.later {
            let slot = at_ms / SLOT_MS;
            has_none(rate, (&slots, &blocks), (from, slot));
            assert_eq!(tokens, room(rate, &slots, &blocks, slot).min(wants), "{slot}");
            *slots.entry(slot).or_default() += tokens;
            *it.later.entry(slot).or_default() += tokens;
            (wants, from) = (wants - tokens, slot);
        }
        let last = now + 6 * HOUR + 1;
        if wants > 0 {
            has_none(rate, (&slots, &blocks), (from, last));
        }
        let next = block.next_ms.map_or(last, |at_ms| at_ms / SLOT_MS);
        has_none(rate, (&slots, &blocks), (now, next));
        assert!(next == last || room(rate, &slots, &blocks, next) > 0, "{next}");
    }
}

/// Some of these slots, with the first and the last of them, have no room.
fn has_none(rate: Rate, (slots, blocks): (&BTreeMap<u64, u64>, &[(u64, u64)]), (from, behind): (u64, u64)) {
    let step = usize::try_from((behind.saturating_sub(from) / 4).max(1)).unwrap();
    for slot in (from..behind).step_by(step).chain((from < behind).then(|| behind - 1)) {
        assert_eq!(room(rate, slots, blocks, slot), 0, "{slot} of {from} to {behind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_ledger_that_forgets_answers_as_one_that_does_not(
        (max_per_hour, burst) in (1_u64..60, 1_u64..12),
        steps in proptest::collection::vec((0_usize..4, 0_u64..300, (0_u64..9, 0_u64..9, 0_u64..5)), 1..40),
    ) {
        let rate = Rate { max_per_hour, burst };
        let (ledger, taken) = Default::default();
        let mut naive = Naive { rate, now: 1_000_000, ledger, processes: vec![Process::default(); 4], taken };
        for (place, pause, numbers) in steps {
            // Many requests in one slot, and some after long.
            naive.now += if pause < 150 { pause / 60 } else { pause };
            naive.ask(place, numbers);
        }
    }
}
