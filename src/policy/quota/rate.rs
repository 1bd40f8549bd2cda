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
    #[cfg(test)]
    pub(super) const fn most_in(self, slots: u64) -> Option<u64> {
        if slots > HOUR + 1 {
            return None;
        }
        let refilled = self.max_per_hour.saturating_mul(slots.saturating_sub(2)) / HOUR;
        let bucket = self.burst.saturating_add(refilled);
        Some(if bucket < self.max_per_hour { bucket } else { self.max_per_hour })
    }
}
