//! `uwer`: the central store of tasks of the legacy orchestration UWER.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::base::text::parse_duration;

/// A sender may repeat a task of yesterday. Ten years are the longest time of a law on books.
const RETENTION: (Duration, Duration) = (Duration::from_secs(48 * 60 * 60), Duration::from_secs(3_660 * 24 * 60 * 60));

/// The store of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UwerSettings {
    /// The file of the key that seals the bytes of dead letters: 64 hexadecimal digits.
    pub(super) key_file: PathBuf,
    /// How long a task is kept after its job was stored, and a dead letter after it came last.
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

impl UwerSettings {
    /// The mistakes, each beginning with its key. A store that a restart forgets would let a repeated task run twice.
    pub(super) fn mistakes(&self, is_durable: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        if !(RETENTION.0..=RETENTION.1).contains(&self.retention) {
            wrong.push("uwer.retention: expected 48h to 3660d".to_owned());
        }
        if !is_durable {
            wrong.push(
                "uwer: a hub without `record.path` or `record.postgres` forgets the tasks at a restart: set one of them".to_owned(),
            );
        }
        wrong
    }
}
