//! The settings of the bodies of jobs that a hub keeps.

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::base::text::parse_size;

/// One message of a sidecar fits; a hub that keeps more than a terabyte needs another database. Units: bytes.
const BYTES: (u64, u64) = (16 << 20, 1 << 40);

/// The bodies of jobs that a hub keeps for the loss of a region.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BodySettings {
    /// The file of the key that seals them: 64 hexadecimal digits.
    pub(super) key_file: PathBuf,
    /// The most that they take, as they are kept. Units: bytes.
    #[serde(default = "ten_gibibytes", deserialize_with = "size")]
    pub(super) bytes_max: u64,
}

const fn ten_gibibytes() -> u64 {
    10 << 30
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_size(&text).ok_or_else(|| D::Error::custom("expected a number of bytes, such as 10GiB"))
}

impl BodySettings {
    /// The mistakes, each beginning with its key.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let is_fit = (BYTES.0..=BYTES.1).contains(&self.bytes_max);
        if is_fit { Vec::new() } else { vec!["bytes_max: expected 16MiB to 1024GiB".to_owned()] }
    }
}
