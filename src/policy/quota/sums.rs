//! The tokens of a quota by their slots, and the room that they leave.
//!
//! A stretch of slots may have as many tokens as the burst and the refill since its beginning, and as many as an hour may have. The first bound
//! is a difference of one number for the end of a stretch and one for its beginning, so that a look takes one step for each beginning.

use std::collections::BTreeMap;

use super::rate::{HOUR, Rate};

/// The tokens by their slots, for sums over stretches.
#[derive(Debug)]
pub(super) struct Sums {
    rate: Rate,
    by_slot: BTreeMap<u64, u64>,
    /// By the first slot behind blocks: their tokens.
    by_end: BTreeMap<u64, u64>,
    /// None after a change.
    points: Option<Points>,
}

/// The same, for looks.
#[derive(Debug)]
struct Points {
    /// Slots with tokens, in order.
    slots: Vec<u64>,
    /// The tokens before each of them, and all.
    before: Vec<u64>,
    /// The least [`Sums::refilled`] of each of them and those behind it.
    least: Vec<i128>,
    /// Ends of blocks in order, each with the sum of their tokens and those that end later.
    ends: Vec<(u64, u64)>,
}

impl Points {
    fn of(rate: Rate, by_slot: &BTreeMap<u64, u64>, by_end: &BTreeMap<u64, u64>) -> Self {
        let slots: Vec<u64> = by_slot.keys().copied().collect();
        let mut before = Vec::with_capacity(slots.len() + 1);
        let mut total = 0;
        for tokens in by_slot.values() {
            before.push(total);
            total += tokens;
        }
        before.push(total);
        let mut least: Vec<i128> =
            slots.iter().zip(&before[1..]).map(|(slot, tokens)| refilled(rate, *slot, *tokens)).collect();
        for place in (1..least.len()).rev() {
            least[place - 1] = least[place - 1].min(least[place]);
        }
        let mut ends: Vec<(u64, u64)> = by_end.iter().map(|(end, tokens)| (*end, *tokens)).collect();
        let mut open = 0;
        for (_, tokens) in ends.iter_mut().rev() {
            open += *tokens;
            *tokens = open;
        }
        Self { slots, before, least, ends }
    }

    /// The tokens before a slot.
    fn before(&self, slot: u64) -> u64 {
        self.before[self.slots.partition_point(|at| *at < slot)]
    }

    /// The tokens of blocks that last in a slot.
    fn open(&self, slot: u64) -> u64 {
        self.ends.get(self.ends.partition_point(|(end, _)| *end <= slot)).map_or(0, |(_, sum)| *sum)
    }

    /// The slots from `from` to `to` in which a narrowest stretch may begin: those with tokens, and the last ones of blocks.
    fn begins(&self, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let (first, behind) = (self.slots.partition_point(|at| *at < from), self.slots.partition_point(|at| *at <= to));
        let ends = self.ends.iter().map(|(end, _)| end.saturating_sub(1));
        self.slots[first..behind].iter().copied().chain(ends.filter(move |at| (from..=to).contains(at)))
    }
}

/// The refill until a slot less the tokens until its end, `tokens`; in parts of a token, of which it has [`HOUR`].
fn refilled(rate: Rate, slot: u64, tokens: u64) -> i128 {
    // A stretch of `n` slots has refilled for `n - 2` of them.
    i128::from(rate.max_per_hour) * (i128::from(slot) - 1) - i128::from(HOUR) * i128::from(tokens)
}

impl Sums {
    pub(super) fn new(rate: Rate, by_slot: &BTreeMap<u64, u64>) -> Self {
        Self { rate, by_slot: by_slot.clone(), by_end: BTreeMap::new(), points: None }
    }

    /// Adds tokens of a slot.
    pub(super) fn add(&mut self, slot: u64, tokens: u64) {
        *self.by_slot.entry(slot).or_default() += tokens;
        self.points = None;
    }

    /// Adds the tokens of a block, by the first slot behind it.
    pub(super) fn add_block(&mut self, end: u64, tokens: u64) {
        if tokens > 0 {
            *self.by_end.entry(end).or_default() += tokens;
            self.points = None;
        }
    }

    /// How many further tokens there may be in a block from slot `first` to slot `last`, and a slot behind `first` before which there is no room
    /// for one in any slot, where there is none in `first`. Takes the looks at stretches off `steps`.
    pub(super) fn look(&mut self, first: u64, last: u64, steps: &mut u64) -> (u64, u64) {
        let (rate, parts) = (self.rate, i128::from(HOUR));
        if self.points.is_none() {
            *steps = steps.saturating_sub(self.by_slot.len() as u64 / 8);
        }
        let points = self.points.get_or_insert_with(|| Points::of(rate, &self.by_slot, &self.by_end));
        let (mut room, mut behind) = (rate.max_per_hour.min(rate.burst), first + 1);
        for from in points.begins(first.saturating_sub(HOUR), last).chain([first, last]) {
            *steps = steps.saturating_sub(1);
            let (reach, base, open) = (first.max(from), points.before(from), points.open(from));
            let until = |to: u64| (points.before(to + 1) - base).saturating_add(open);
            // The hour that begins there.
            let in_hour = until(from + HOUR);
            if in_hour >= rate.max_per_hour {
                behind = behind.max(from + HOUR + 1);
            }
            // The stretch that ends with the first slot, and longer ones.
            let shortest = until(reach);
            let most = rate.most_in(reach - from + 1).unwrap_or(rate.max_per_hour);
            if shortest >= most {
                behind = behind.max(from + rate.slots_for(shortest + 1) - 1);
            }
            room = room.min(rate.max_per_hour.saturating_sub(in_hour)).min(most.saturating_sub(shortest));
            let place = points.slots.partition_point(|at| *at <= reach);
            if let Some(least) = points.least.get(place) {
                let given = i128::from(rate.max_per_hour) * i128::from(from);
                let base = parts * (i128::from(base) - i128::from(open) + i128::from(rate.burst)) - given;
                let left = |least: i128| (least + base).div_euclid(parts);
                room = room.min(u64::try_from(left(*least)).unwrap_or_default());
                // The last stretch that is full.
                let full = points.least[place..].partition_point(|least| left(*least) <= 0);
                if full > 0 {
                    behind = behind.max(points.slots[place + full - 1] + 1);
                }
            }
        }
        (room, behind)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The room by all stretches, one by one.
    fn room(rate: Rate, slots: &[u64], blocks: &[(u64, u64)], (first, last): (u64, u64)) -> u64 {
        let mut room = rate.max_per_hour.min(rate.burst);
        for from in first.saturating_sub(HOUR)..=last {
            let open: u64 = blocks.iter().filter(|(end, _)| *end > from).map(|(_, tokens)| tokens).sum();
            let reach = first.max(from);
            let mut tokens = open + slots[from as usize..reach as usize].iter().sum::<u64>();
            for to in reach..=from + HOUR {
                tokens += slots[to as usize];
                room = room.min(rate.most_in(to - from + 1).unwrap().saturating_sub(tokens));
            }
        }
        room
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn a_look_finds_the_room_of_all_stretches_in_a_step_for_each_beginning(
            (max_per_hour, burst) in (1_u64..3_000, 1_u64..40),
            block in (1_u64..12, 0_u64..4),
            adds in proptest::collection::vec((HOUR..HOUR * 3, 1_u64..30), 1..16),
        ) {
            let rate = Rate { max_per_hour, burst };
            let (end, mut slots) = (HOUR * 2 + block.0, vec![0_u64; HOUR as usize * 5]);
            let mut sums = Sums::new(rate, &BTreeMap::new());
            let held = block.1.min(burst).min(max_per_hour);
            sums.add_block(end, held);
            for (slot, tokens) in adds {
                for last in [slot, slot + 5] {
                    let mut steps = u64::MAX;
                    let (found, behind) = sums.look(slot, last, &mut steps);
                    let all = room(rate, &slots, &[(end, held)], (slot, last));
                    prop_assert_eq!(found, all, "{} to {}", slot, last);
                    prop_assert!(u64::MAX - steps < 40, "{} steps", u64::MAX - steps);
                    if last == slot && found == 0 && behind <= HOUR * 3 {
                        let before = room(rate, &slots, &[(end, held)], (behind - 1, behind - 1));
                        prop_assert!(behind > slot && before == 0, "no room before {}", behind);
                    }
                }
                let (found, _) = sums.look(slot, slot, &mut 0);
                let some = found.min(tokens);
                slots[slot as usize] += some;
                if some > 0 {
                    sums.add(slot, some);
                }
            }
        }
    }
}
