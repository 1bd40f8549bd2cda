//! Waits that differ, so that a crowd that was refused at once does not come back at once.

use crate::base::Draw;

/// A wait for `Retry-After`, a little longer than the least one: at most half as long again, one second where that is less,
/// and at least 1.
///
/// Units: whole seconds, as the header has them.
#[must_use]
pub fn jittered(seconds: u64, draw: &mut Draw) -> u64 {
    let least = seconds.max(1);
    // Never less: before the time is over the answer would be the same.
    least.saturating_add(draw.below((least / 2).max(1).saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_a_minute_is_spread_over_a_quarter() {
        let waits: BTreeSet<_> = (0..1_000).map(|seed| jittered(30, &mut Draw::from_seed(seed))).collect();
        assert_eq!(waits, (30..=45).collect());
        for seconds in [0, 1] {
            let waits: BTreeSet<_> = (0..100).map(|seed| jittered(seconds, &mut Draw::from_seed(seed))).collect();
            assert_eq!(waits, [1, 2].into());
        }
    }

    proptest! {
        #[test]
        fn a_wait_is_never_shorter_and_at_most_half_as_long_again_or_a_second_more(seconds in 0..u64::MAX / 2, seed: u64) {
            let (wait, least) = (jittered(seconds, &mut Draw::from_seed(seed)), seconds.max(1));
            prop_assert!(wait >= least && wait - least <= (least / 2).max(1));
        }
    }
}
