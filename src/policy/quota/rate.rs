//! The rate of a quota, in slots of time.

/// The length of a slot. A block of tokens begins and ends with slots: shorter ones waste less of a limit and cost more requests. Units: milliseconds.
pub const SLOT_MS: u64 = 5_000;
/// Units: milliseconds.
const HOUR_MS: u64 = 3_600_000;
/// The slots of an hour.
pub(super) const HOUR: u64 = HOUR_MS / SLOT_MS;

/// How many jobs may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In any hour.
    pub max_per_hour: u64,
    /// At once. The bucket refills by `max_per_hour` an hour.
    pub burst: u64,
}

impl Rate {
    /// The least burst by which a steady stream reaches `max_per_hour`: the tokens of three slots.
    #[must_use]
    pub const fn burst_min(max_per_hour: u64) -> u64 {
        let three = max_per_hour.saturating_mul(3).div_ceil(HOUR);
        if three == 0 { 1 } else { three }
    }

    /// The burst of a quota that names none: the tokens of a minute.
    #[must_use]
    pub const fn burst_usual(max_per_hour: u64) -> u64 {
        let minute = max_per_hour.div_ceil(60);
        if minute == 0 { 1 } else { minute }
    }

    /// The most tokens in so many slots behind each other. A stretch of time that touches them is longer than all but two of them, so the
    /// bucket has refilled for so long at least. None for slots that no hour touches together.
    pub(super) const fn most_in(self, slots: u64) -> Option<u64> {
        if slots > HOUR + 1 {
            return None;
        }
        let refilled = self.max_per_hour.saturating_mul(slots.saturating_sub(2)) / HOUR;
        let bucket = self.burst.saturating_add(refilled);
        Some(if bucket < self.max_per_hour { bucket } else { self.max_per_hour })
    }

    /// The fewest slots behind each other that may have so many tokens; one more than an hour touches where no number of them may.
    pub(super) fn slots_for(self, tokens: u64) -> u64 {
        if tokens <= self.burst.min(self.max_per_hour) {
            return 1;
        }
        if tokens > self.max_per_hour {
            return HOUR + 2;
        }
        let lacking = (tokens - self.burst).saturating_mul(HOUR);
        (lacking.div_ceil(self.max_per_hour.max(1)) + 2).min(HOUR + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_slots_for_tokens_are_those_that_may_have_them() {
        for rate in [(1, 1), (5, 2), (1_000, 17), (7_200, 30), (100_000, 1_000), (3, 9)] {
            let rate = Rate { max_per_hour: rate.0, burst: rate.1 };
            for tokens in (1..=rate.max_per_hour + 1).step_by(1 + rate.max_per_hour as usize / 50) {
                let slots = rate.slots_for(tokens);
                assert!(rate.most_in(slots).is_none_or(|most| most >= tokens), "{rate:?} {tokens}");
                assert!(slots == 1 || rate.most_in(slots - 1).is_some_and(|most| most < tokens), "{rate:?} {tokens}");
            }
        }
    }
}
