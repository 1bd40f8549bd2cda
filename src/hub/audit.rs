//! The audit trail: one row for each change by an operator, each with the hash of the row before it.
//!
//! Shape of the hashed bytes: the JSON array of the row's members in the order of [`AuditRow`], without `hash`; SHA-256, in lower-case hex.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

/// The hash before the first row.
const FIRST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One change by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRow {
    /// Its number, from 1, without gaps.
    pub number: u64,
    /// When, by the hub's clock. Units: milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// The name of the client that asked for it: the one in its certificate, or `token ISSUER#SUBJECT`.
    pub caller: String,
    /// The change, such as `switch_set`.
    pub action: String,
    /// The object of the action, such as `drain eu-west-1`.
    pub subject: String,
    /// How long it lasts; none where something has ended. Units: milliseconds.
    pub lasts_ms: Option<u64>,
    /// Whether a rule of safety was passed over.
    pub force: bool,
    /// Why, in the author's words.
    pub reason: String,
    /// The ticket.
    pub ticket: String,
    /// The operator, as the request named them, or as their token does.
    pub author: String,
    /// The hash of the row before.
    pub previous: String,
    /// The hash of this row.
    pub hash: String,
}

/// A change before it has its place in the trail.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) unix_ms: u64,
    pub(super) caller: String,
    pub(super) action: &'static str,
    pub(super) subject: String,
    pub(super) lasts_ms: Option<u64>,
    pub(super) force: bool,
    pub(super) reason: String,
    pub(super) ticket: String,
    pub(super) author: String,
}

/// The end of the trail, which the next row follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) number: u64,
    pub(super) hash: String,
}

impl Default for Head {
    fn default() -> Self {
        Self { number: 0, hash: FIRST.to_owned() }
    }
}

impl Head {
    /// Adds an entry to the trail, and returns its row.
    pub(super) fn add(&mut self, entry: Entry) -> AuditRow {
        let row = AuditRow {
            number: self.number + 1,
            unix_ms: entry.unix_ms,
            caller: entry.caller,
            action: entry.action.to_owned(),
            subject: entry.subject,
            lasts_ms: entry.lasts_ms,
            force: entry.force,
            reason: entry.reason,
            ticket: entry.ticket,
            author: entry.author,
            previous: self.hash.clone(),
            hash: String::new(),
        };
        let row = AuditRow { hash: row.computed_hash(), ..row };
        *self = Self { number: row.number, hash: row.hash.clone() };
        row
    }
}

impl AuditRow {
    fn computed_hash(&self) -> String {
        let members = serde_json::json!([
            self.number,
            self.unix_ms,
            self.caller,
            self.action,
            self.subject,
            self.lasts_ms,
            self.force,
            self.reason,
            self.ticket,
            self.author,
            self.previous,
        ]);
        HEXLOWER.encode(digest(&SHA256, members.to_string().as_bytes()).as_ref())
    }
}

/// The first mistake in a trail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// A line is no row.
    #[error("line {line} is no audit row: {cause}")]
    Row {
        /// The line, from 1.
        line: usize,
        /// The cause, by the JSON parser.
        cause: String,
    },
    /// A row is not the one that was written: its content or its hash was changed.
    #[error("row {0} was changed: its content does not have its hash")]
    Changed(u64),
    /// The row before is missing or was replaced.
    #[error("row {0} does not follow the row before it")]
    Gap(u64),
    /// The rows are in order, and do not end with the expected hash: rows at the end are missing.
    #[error(
        "the trail ends with the hash {0}, which is not the expected one: rows at the end are missing, or it is another trail"
    )]
    End(String),
}

/// Checks a trail of one row a line, as `ojs-sidecar audit export` writes it; it may begin behind the first row. Returns the number of rows
/// and the hash of the last one. `end`: the expected hash of the last row.
///
/// Errors: [`ChainError`], the first mistake.
pub fn verify<'l>(lines: impl Iterator<Item = &'l str>, end: Option<&str>) -> Result<(u64, String), ChainError> {
    let (mut rows, mut before): (u64, Option<Head>) = (0, None);
    for (place, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row: AuditRow = serde_json::from_str(line)
            .map_err(|error| ChainError::Row { line: place + 1, cause: error.to_string() })?;
        if row.computed_hash() != row.hash {
            return Err(ChainError::Changed(row.number));
        }
        let follows = match &before {
            Some(before) => (before.number + 1, &before.hash) == (row.number, &row.previous),
            None => row.number > 1 || (row.number == 1 && row.previous == FIRST),
        };
        if !follows {
            return Err(ChainError::Gap(row.number));
        }
        (rows, before) = (rows + 1, Some(Head { number: row.number, hash: row.hash }));
    }
    let hash = before.unwrap_or_default().hash;
    if end.is_some_and(|end| end != hash) {
        return Err(ChainError::End(hash));
    }
    Ok((rows, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(subject: &str) -> Entry {
        let text = |text: &str| text.to_owned();
        let (caller, reason, ticket, author) = (text("ann.x"), text("a \"storm\""), text("OPS-1"), text("ann"));
        Entry {
            unix_ms: 7,
            caller,
            action: "switch_set",
            subject: text(subject),
            lasts_ms: Some(60_000),
            force: false,
            reason,
            ticket,
            author,
        }
    }

    fn trail() -> Vec<String> {
        let mut head = Head::default();
        ["drain a", "drain b", "evacuate c"]
            .map(|subject| serde_json::to_string(&head.add(entry(subject))).unwrap())
            .to_vec()
    }

    fn check(lines: &[String], end: Option<&str>) -> Result<(u64, String), ChainError> {
        verify(lines.iter().map(String::as_str), end)
    }

    #[test]
    fn a_whole_trail_and_its_later_part_are_right() {
        let lines = trail();
        let (rows, end) = check(&lines, None).unwrap();
        assert_eq!(rows, 3);
        assert_eq!(check(&lines[1..], Some(&end)).unwrap(), (2, end));
        assert_eq!(check(&[], None).unwrap().0, 0);
    }

    #[test]
    fn every_change_of_a_trail_is_named_by_its_row() {
        let lines = trail();
        let (_, end) = check(&lines, None).unwrap();
        for (from, to) in
            [("drain b", "drain c"), ("OPS-1", "OPS-2"), ("\"unix_ms\":7", "\"unix_ms\":8"), ("false", "true")]
        {
            let mut changed = lines.clone();
            changed[1] = lines[1].replace(from, to);
            assert_eq!(check(&changed, None), Err(ChainError::Changed(2)), "{to}");
        }
        assert_eq!(check(&[lines[0].clone(), lines[2].clone()], None), Err(ChainError::Gap(3)));
        assert!(matches!(check(&lines[..2], Some(&end)), Err(ChainError::End(_))));
        let mut torn = lines.clone();
        torn[2].truncate(20);
        assert!(matches!(check(&torn, None), Err(ChainError::Row { line: 3, .. })));
    }
}
