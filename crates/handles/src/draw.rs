//! Randomness as a value: one seed is drawn per decision, and everything random in it follows from that seed.
//!
//! That keeps the deciding code free of hidden state: the same seed gives the same decision, in a dry run as in a live call, and
//! a failing simulation is replayed from its seed.

/// A small deterministic generator (SplitMix64): good enough to spread load, never used for secrets.
#[derive(Debug, Clone, Copy)]
pub struct Draw(u64);

impl Draw {
    /// Starts from a seed.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift: the bias is below 2^-32 for every bound that occurs here.
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number in `0.0..1.0`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_bounds_hold() {
        let (mut a, mut b) = (Draw::from_seed(7), Draw::from_seed(7));
        for bound in 1..1_000 {
            let drawn = a.below(bound);
            assert_eq!(drawn, b.below(bound));
            assert!(drawn < bound);
            let unit = a.unit();
            b.next();
            assert!((0.0..1.0).contains(&unit));
        }
        assert_eq!(a.below(0), 0);
    }
}
