//! `ledger`: for how long the history of jobs is kept.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::base::text::parse_duration;

/// The shortest time is two days, because the rows of a day are dropped together. Ten years are the longest time of a law on books.
const RETENTION: (Duration, Duration) = (Duration::from_secs(48 * 60 * 60), Duration::from_secs(3_660 * 24 * 60 * 60));

/// The ledger of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerSettings {
    /// How long a row is kept: its day is dropped as a whole.
    #[serde(default = "quarter", deserialize_with = "duration")]
    pub(super) retention: Duration,
}

const fn quarter() -> Duration {
    Duration::from_secs(90 * 24 * 60 * 60)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(|_| D::Error::custom("expected a duration, such as 2160h"))
}

impl LedgerSettings {
    /// The mistake in it, beginning with its key.
    pub(super) fn mistake(&self) -> Option<String> {
        let is_right = (RETENTION.0..=RETENTION.1).contains(&self.retention);
        (!is_right).then(|| "retention: expected 48h to 3660d".to_owned())
    }
}
