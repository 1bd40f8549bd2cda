//! The lines of a history: records, and those that are withheld.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::files::{HISTORY, read_line};
use crate::evidence::{Hash, leaf_hash};
use crate::hub::HistoryRow;

/// A record of which the bundle has the digest only.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Withheld {
    pub(super) day: String,
    pub(super) number: u64,
    /// The hash of the record as a leaf, in hex.
    pub(super) leaf: String,
    /// Why.
    pub(super) withheld: String,
}

/// A line of the history.
pub(super) enum Line {
    Record(Box<HistoryRow>),
    Withheld(Withheld),
}

impl Line {
    /// None for a line that is neither, or is not written as a hub or a bundle writes it.
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Ok(row) = serde_json::from_str::<HistoryRow>(text) {
            return row.line().is_ok_and(|line| line == text).then(|| Self::Record(Box::new(row)));
        }
        let withheld: Withheld = serde_json::from_str(text).ok()?;
        serde_json::to_string(&withheld).is_ok_and(|line| line == text).then_some(Self::Withheld(withheld))
    }

    /// Its day and its number.
    pub(super) fn place(&self) -> (&str, u64) {
        match self {
            Self::Record(row) => (&row.day, row.number),
            Self::Withheld(it) => (&it.day, it.number),
        }
    }

    /// Its hash as a leaf of the day's tree.
    pub(super) fn leaf(&self, text: &str) -> Option<Hash> {
        match self {
            Self::Record(_) => Some(leaf_hash(text.as_bytes())),
            Self::Withheld(it) => HEXLOWER.decode(it.leaf.as_bytes()).ok()?.try_into().ok(),
        }
    }
}

/// Hands each record of the history that is in full to `each`.
pub(super) fn records(folder: &Path, mut each: impl FnMut(&HistoryRow) -> Result<(), String>) -> Result<(), String> {
    let file = File::open(folder.join(HISTORY)).map_err(|error| format!("{HISTORY}: {error}"))?;
    let (mut reader, mut number) = (BufReader::new(file), 0);
    loop {
        number += 1;
        let Some(text) = read_line(&mut reader, HISTORY, number)? else { return Ok(()) };
        if let Some(Line::Record(row)) = Line::read(&text) {
            each(&row)?;
        }
    }
}
