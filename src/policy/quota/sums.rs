//! The tokens of a quota by their slots, and the room that they leave.
//!
//! A stretch of slots may have as many tokens as the burst and the refill since its beginning, and as many as an hour may have. The first bound
//! is a sum of one number for the end of a stretch and one for its beginning, so the fullest stretch around a slot has the greatest number of
//! each side. A [`Walk`] passes the slots in order and keeps both: a slot takes some steps, however many tokens there are.

use std::cell::OnceCell;
use std::collections::VecDeque;

use super::rate::{HOUR, Rate};

/// The latest slot of a later token; jobs beyond it are refused. Units: slots from now.
pub(super) const HORIZON: u64 = 6 * HOUR;
/// From an hour before now until an hour behind the horizon: no other slot is in a stretch with one of those that are asked for.
const SLOTS: usize = (HOUR + HORIZON + HOUR + 1) as usize;
const PARTS: i64 = HOUR as i64;
const HOUR_SLOTS: usize = HOUR as usize;
/// The tokens of one slot that are counted, far more than any quota has: sums of them stay within 64 bits.
const COUNTED_MAX: u64 = 1 << 36;

/// The tokens by their slots, and those of blocks.
#[derive(Debug)]
pub(super) struct Sums {
    rate: Rate,
    /// The slot of the first number below.
    base: u64,
    now: usize,
    /// The first slot with tokens, or with a block that ends there.
    first: usize,
    /// Until the last slot with tokens.
    tokens: Vec<u64>,
    /// By the last slots of blocks: their tokens.
    blocks: Vec<u64>,
    /// None after a change of the tokens, until the next walk.
    totals: OnceCell<Totals>,
}

/// Sums of the tokens without blocks.
#[derive(Debug)]
struct Totals {
    /// The tokens before each slot, and all.
    before: Vec<i64>,
    /// From now on: the greatest end of a stretch in each slot and those behind it.
    ends: Vec<i64>,
}

impl Totals {
    fn of(sums: &Sums) -> Self {
        let mut before = vec![0; sums.tokens.len() + 1];
        for place in sums.first..sums.tokens.len() {
            before[place + 1] = before[place] + sums.tokens[place].cast_signed();
        }
        let mut totals = Self { before, ends: vec![0; sums.tokens.len().saturating_sub(sums.now)] };
        let mut greatest = i64::MIN;
        for place in (sums.now..sums.tokens.len()).rev() {
            greatest = greatest.max(totals.end(sums.rate, place));
            totals.ends[place - sums.now] = greatest;
        }
        totals
    }

    fn before(&self, place: usize) -> i64 {
        self.before[place.min(self.before.len() - 1)]
    }

    /// The end of a stretch: the tokens until its end without the refill until then. A stretch of `n` slots has refilled for `n - 2` of them.
    fn end(&self, rate: Rate, place: usize) -> i64 {
        PARTS * self.before(place + 1) - refill(rate, place)
    }

    /// The greatest end of a stretch in a slot or behind it.
    fn last(&self, sums: &Sums, place: usize) -> i64 {
        self.ends.get(place - sums.now).copied().unwrap_or_else(|| self.end(sums.rate, place))
    }
}

fn refill(rate: Rate, slots: usize) -> i64 {
    rate.max_per_hour.cast_signed() * slots as i64
}

impl Sums {
    /// None yet. `now`: the first slot that is asked for.
    pub(super) fn new(rate: Rate, now: u64) -> Self {
        let (max_per_hour, burst) = (rate.max_per_hour.min(COUNTED_MAX), rate.burst.min(COUNTED_MAX));
        let (rate, base) = (Rate { max_per_hour, burst }, now.saturating_sub(HOUR));
        let (tokens, blocks, totals) = Default::default();
        Self { rate, base, now: (now - base) as usize, first: SLOTS, tokens, blocks, totals }
    }

    fn count(first: &mut usize, all: &mut Vec<u64>, place: usize, tokens: u64) {
        *first = place.min(*first);
        if place >= all.len() {
            all.resize(place + 1, 0);
        }
        all[place] = all[place].saturating_add(tokens).min(COUNTED_MAX);
    }

    /// Adds tokens of a slot.
    pub(super) fn add(&mut self, slot: u64, tokens: u64) {
        let Some(place) = slot.checked_sub(self.base).and_then(|it| usize::try_from(it).ok()) else { return };
        if place < SLOTS && tokens > 0 {
            Self::count(&mut self.first, &mut self.tokens, place, tokens);
            self.totals.take();
        }
    }

    /// Adds the tokens of a block, by the first slot behind it.
    pub(super) fn add_block(&mut self, end: u64, tokens: u64) {
        if tokens > 0 && end > self.base {
            let last = usize::try_from(end - 1 - self.base).unwrap_or(SLOTS);
            Self::count(&mut self.first, &mut self.blocks, last.min(SLOTS - 1), tokens);
        }
    }

    fn walk(&self) -> Walk<'_> {
        Walk::new(self, self.totals.get_or_init(|| Totals::of(self)))
    }

    /// How many further tokens there may be in a block of so many slots from now on.
    pub(super) fn room(&self, slots: u64) -> u64 {
        let mut walk = self.walk();
        let mut room = walk.room();
        for _ in 1..slots {
            walk.pass();
            room = room.min(walk.room());
        }
        room
    }

    /// The first slot with room for one more token; none beyond the horizon.
    pub(super) fn next(&self) -> Option<u64> {
        let mut walk = self.walk();
        walk.find().then(|| walk.slot())
    }

    /// Adds so many tokens to slots behind now, each as early as there is room. Returns their slots, which are as many as there is room for
    /// within the horizon, and the first slot with room for one more token.
    pub(super) fn reserve(&mut self, mut tokens: u64) -> (Vec<(u64, u64)>, Option<u64>) {
        let mut walk = self.walk();
        let (is_full, mut found) = (walk.room() == 0, Vec::new());
        walk.pass();
        while tokens > 0 && walk.find() {
            let some = walk.room().min(tokens);
            walk.take(some);
            found.push((walk.slot(), some));
            tokens -= some;
        }
        // Slots that were full stay so.
        let next = if is_full && walk.find() { Some(walk.slot()) } else { None };
        found.iter().for_each(|(slot, tokens)| self.add(*slot, *tokens));
        (found, if is_full { next } else { self.next() })
    }
}

/// Numbers of slots, of which the first is the greatest, and each is greater than those behind it.
#[derive(Debug, Default)]
struct Greatest(VecDeque<(usize, i64)>);

impl Greatest {
    fn push(&mut self, place: usize, number: i64) {
        while self.0.back().is_some_and(|(_, last)| *last <= number) {
            self.0.pop_back();
        }
        self.0.push_back((place, number));
    }

    /// Adds a slot before all others.
    fn push_before(&mut self, place: usize, number: i64) {
        if self.0.front().is_none_or(|(_, first)| *first < number) {
            self.0.push_front((place, number));
        }
    }

    /// Forgets those before a slot.
    fn forget(&mut self, before: usize) {
        while self.0.front().is_some_and(|(place, _)| *place < before) {
            self.0.pop_front();
        }
    }
}

/// One pass over the slots from now on. Numbers of buckets are in parts of a token, of which it has [`HOUR`].
#[derive(Debug)]
struct Walk<'a> {
    sums: &'a Sums,
    totals: &'a Totals,
    /// The tokens of blocks that last in each slot, from now or from the first slot with tokens on.
    open: Vec<i64>,
    place: usize,
    /// Tokens that were taken in slots before this one, and in this one.
    taken: i64,
    here: i64,
    /// By the slots before this one in which a fullest stretch may begin: [`Walk::begin`], and the tokens of the hour that begins there. What
    /// was taken before such a slot is not in them, what was taken since is to be added.
    begins: Greatest,
    hours: Greatest,
}

impl<'a> Walk<'a> {
    fn new(sums: &'a Sums, totals: &'a Totals) -> Self {
        let (mut open, mut lasts) = (vec![0; sums.blocks.len()], 0);
        for place in (sums.first.min(sums.now)..sums.blocks.len()).rev() {
            lasts += sums.blocks[place].cast_signed();
            open[place] = lasts;
        }
        let (begins, hours) = Default::default();
        let mut walk = Self { sums, totals, open, place: sums.now, taken: 0, here: 0, begins, hours };
        for place in (sums.first..sums.now).rev() {
            if walk.is_begin(place) {
                walk.begins.push_before(place, walk.begin(place));
                walk.hours.push_before(place, walk.hour(place));
            }
        }
        walk
    }

    /// Whether a fullest stretch may begin with a slot: one that begins with another slot is as full, and shorter, from the next slot on.
    fn is_begin(&self, place: usize) -> bool {
        let has = |all: &[u64]| place < all.len() && all[place] > 0;
        has(&self.sums.tokens) || has(&self.sums.blocks)
    }

    fn before(&self, place: usize) -> i64 {
        self.totals.before(place)
    }

    fn open(&self, place: usize) -> i64 {
        if place < self.open.len() { self.open[place] } else { 0 }
    }

    /// The beginning of a stretch: the refill before it, and the blocks that last then, without the tokens before it.
    fn begin(&self, place: usize) -> i64 {
        PARTS * (self.open(place) - self.before(place) - self.taken) + refill(self.sums.rate, place + 1)
    }

    /// The tokens of the hour that begins in a slot.
    fn hour(&self, place: usize) -> i64 {
        self.before(place + HOUR_SLOTS + 1) - self.before(place) + self.open(place) - self.taken
    }

    /// The slot in which it is.
    const fn slot(&self) -> u64 {
        self.sums.base + self.place as u64
    }

    /// How many further tokens there may be in this slot.
    fn room(&self) -> u64 {
        let (rate, place, taken) = (self.sums.rate, self.place, self.taken + self.here);
        let greatest = |all: &Greatest| all.0.front().map_or(i64::MIN / 2, |(_, number)| *number);
        let last = |place: usize| self.totals.last(self.sums, place);
        // Stretches that begin before this slot, and those that begin with it and are longer.
        let longer = (greatest(&self.begins) + last(place)).max(self.begin(place) + last(place + 1)) + PARTS * taken;
        let burst = rate.burst.cast_signed();
        let in_bucket = (PARTS * burst - longer).div_euclid(PARTS);
        let at_once = burst - self.before(place + 1) + self.before(place) - self.open(place) - self.here;
        let in_hour = rate.max_per_hour.cast_signed() - greatest(&self.hours).max(self.hour(place)) - taken;
        u64::try_from(in_bucket.min(at_once).min(in_hour)).unwrap_or_default()
    }

    /// Takes tokens of this slot.
    const fn take(&mut self, tokens: u64) {
        self.here += tokens.cast_signed();
    }

    /// Goes on to the next slot.
    fn pass(&mut self) {
        let place = self.place;
        if self.here > 0 || self.is_begin(place) {
            self.begins.push(place, self.begin(place));
            self.hours.push(place, self.hour(place));
        }
        (self.taken, self.here, self.place) = (self.taken + self.here, 0, place + 1);
        let first = self.place.saturating_sub(HOUR_SLOTS);
        self.begins.forget(first);
        self.hours.forget(first);
    }

    /// Goes on to the first slot with room, from this one on. Returns false where there is none within the horizon.
    fn find(&mut self) -> bool {
        let behind = self.sums.now + HORIZON as usize + 1;
        let most = self.sums.rate.max_per_hour.cast_signed();
        while self.place < behind {
            // No slot of a full hour has room.
            let first = self.hours.0.front().filter(|(_, tokens)| tokens + self.taken + self.here >= most);
            match first.map(|(first, _)| first + HOUR_SLOTS + 1) {
                Some(until) => (self.place..until.min(behind)).for_each(|_| self.pass()),
                None if self.room() > 0 => return true,
                None => self.pass(),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::naive::room;
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn each_slot_has_the_room_of_all_stretches(
            (max_per_hour, burst) in (1_u64..3_000, 1_u64..40),
            blocks in proptest::collection::vec((HOUR..HOUR * 2 + 9, 0_u64..9), 0..6),
            adds in proptest::collection::vec((HOUR..HOUR * 5, 1_u64..30), 0..16),
            takes in proptest::collection::vec((0..HOUR / 2, 1_u64..9), 1..9),
        ) {
            let (rate, now) = (Rate { max_per_hour, burst }, HOUR * 2);
            let (mut sums, mut slots) = (Sums::new(rate, now), BTreeMap::new());
            for (slot, tokens) in adds {
                sums.add(slot, tokens);
                *slots.entry(slot).or_default() += tokens;
            }
            blocks.iter().for_each(|(end, tokens)| sums.add_block(*end, *tokens));
            let of_block = (now..now + 6).map(|slot| room(rate, &slots, &blocks, slot)).min();
            prop_assert_eq!(Some(sums.room(6)), of_block);
            let mut walk = sums.walk();
            for (pause, tokens) in takes {
                (0..pause).for_each(|_| walk.pass());
                let all = room(rate, &slots, &blocks, walk.slot());
                prop_assert_eq!(walk.room(), all, "{}", walk.slot());
                let some = all.min(tokens);
                walk.take(some);
                *slots.entry(walk.slot()).or_default() += some;
                prop_assert_eq!(walk.room(), all - some);
                let before = walk.slot();
                if walk.find() {
                    prop_assert!(room(rate, &slots, &blocks, walk.slot()) > 0);
                }
                // Some of the slots that it has passed, and the first and the last of them.
                for slot in (before..walk.slot()).step_by(37).chain(walk.slot().checked_sub(1).filter(|it| *it >= before)) {
                    prop_assert_eq!(room(rate, &slots, &blocks, slot), 0, "{}", slot);
                }
                if walk.slot() > HOUR * 6 {
                    break;
                }
            }
        }
    }

    #[test]
    fn slots_that_no_stretch_reaches_count_nowhere_and_numbers_are_bounded() {
        let (rate, now) = (Rate { max_per_hour: u64::MAX, burst: u64::MAX }, HOUR * 2);
        let mut sums = Sums::new(rate, now);
        for (slot, tokens) in [(HOUR - 1, 1), (now + HORIZON + HOUR + 1, 1), (u64::MAX, 1), (0, u64::MAX)] {
            sums.add(slot, tokens);
        }
        sums.add_block(HOUR, 1);
        assert_eq!((sums.tokens.len(), sums.blocks.len(), sums.room(6)), (0, 0, COUNTED_MAX));
        sums.add_block(u64::MAX, 3);
        assert_eq!(sums.room(6), COUNTED_MAX - 3);
        for slot in HOUR..now + HORIZON + HOUR {
            sums.add(slot, u64::MAX);
            sums.add_block(slot, u64::MAX);
        }
        assert_eq!((sums.room(6), sums.next()), (0, None));
        // Time began less than an hour ago.
        let mut early = Sums::new(Rate { max_per_hour: 3, burst: 3 }, 2);
        early.add(0, 2);
        assert_eq!((early.room(6), early.reserve(2)), (1, (vec![(3, 1), (HOUR + 1, 1)], Some(HOUR + 1))));
    }
}
