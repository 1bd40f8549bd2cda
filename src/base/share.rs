//! A share of jobs, and the jobs that it falls on.

use serde::{Deserialize, Serialize};

/// Parts of a whole.
const WHOLE: u64 = 10_000;

/// A share of jobs. Shape: 0 to 10 000. Units: hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Share(u16);

impl Share {
    /// All jobs.
    pub const ALL: Self = Self(10_000);
    /// No job.
    pub const NONE: Self = Self(0);

    /// Reads a share such as `5%`, `0.25%` or `5`, with two decimals at most.
    ///
    /// Errors: a sentence with the expectation.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected a share from 0% to 100% with two decimals at most, such as 5%";
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) || decimals.len() > 2 {
            return Err(EXPECTED);
        }
        let hundredths = decimals.parse::<u16>().map_err(|_| EXPECTED)? * if decimals.len() == 1 { 10 } else { 1 };
        let whole = whole.parse::<u16>().ok().filter(|whole| *whole <= 100).ok_or(EXPECTED)?;
        Self::try_from(whole * 100 + hundredths).map_err(|_| EXPECTED)
    }

    /// Whether it falls on the job with this number. Of any jobs with numbers in a row, as many are drawn as the share of them is, to less than one job.
    #[must_use]
    pub const fn draws(self, number: u64) -> bool {
        let (place, share) = (number % WHOLE, self.0 as u64);
        (place + 1) * share / WHOLE != place * share / WHOLE
    }

    /// Whether `part` of `whole` jobs are more than this share of them, besides the share that `other` of `other_whole` jobs are.
    #[must_use]
    pub fn is_exceeded(self, (part, whole): (u64, u64), (other, other_whole): (u64, u64)) -> bool {
        // In whole numbers, so that a share at the bound does not exceed it. Without others none of them is a part.
        let [part, whole, other, others] = [part, whole, other, other_whole.max(1)].map(u128::from);
        let (more, less) = (part.saturating_mul(others), other.saturating_mul(whole));
        more.saturating_sub(less).saturating_mul(u128::from(WHOLE))
            > whole.saturating_mul(others).saturating_mul(self.0.into())
    }
}

impl TryFrom<u16> for Share {
    type Error = &'static str;

    fn try_from(hundredths: u16) -> Result<Self, Self::Error> {
        if hundredths <= Self::ALL.0 { Ok(Self(hundredths)) } else { Err("expected at most 10000") }
    }
}

impl From<Share> for u16 {
    fn from(share: Share) -> Self {
        share.0
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, hundredths) = (self.0 / 100, self.0 % 100);
        match hundredths {
            0 => write!(f, "{whole}%"),
            _ if hundredths % 10 == 0 => write!(f, "{whole}.{}%", hundredths / 10),
            _ => write!(f, "{whole}.{hundredths:02}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    #[test]
    fn a_share_is_read_as_it_is_written_and_nothing_else_is_one() {
        for (text, hundredths) in
            [("5%", 500), ("0.25%", 25), ("0.5%", 50), ("100%", 10_000), ("0%", 0), ("2.05%", 205)]
        {
            let share = Share::parse(text).unwrap();
            assert_eq!((u16::from(share), share.to_string().as_str()), (hundredths, text));
        }
        assert_eq!(Share::parse("7"), Share::parse("7%"));
        for wrong in ["", "%", "150%", "100.01%", "-1%", "1.234%", "5 %", "a", "1.%", ".5%", "99999999999%", "+5%"] {
            assert!(Share::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn of_any_jobs_in_a_row_the_share_is_drawn_to_less_than_one_job(
            hundredths in 0_u16..=10_000, first in 0_u64..1 << 40, count in 0_u64..3_000
        ) {
            let share = Share::try_from(hundredths).unwrap();
            let drawn = (first..first + count).filter(|number| share.draws(*number)).count() as f64;
            let exact = count as f64 * f64::from(hundredths) / 10_000.0;
            prop_assert!((drawn - exact).abs() < 1.0, "{drawn} of {count}, expected {exact}");
        }
    }

    #[test]
    fn a_share_is_exceeded_by_more_than_others_have() {
        let one = Share::parse("1%").unwrap();
        assert!(one.is_exceeded((2, 100), (0, 0)) && !one.is_exceeded((1, 100), (0, 100)));
        assert!(!one.is_exceeded((5, 100), (40, 1_000)), "as many fail elsewhere, to the bound");
        assert!(!Share::ALL.is_exceeded((9, 9), (0, 9)) && !one.is_exceeded((0, 0), (0, 0)));
    }
}
