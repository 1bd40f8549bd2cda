//! The audit trail: one row for each change by an operator or by the hub of another region, each with the hash of the row before it.
//!
//! Shape of the hashed bytes: the JSON array of the row's members in the order of [`AuditRow`], without `hash`; SHA-256, in lower-case hex.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

/// The action of the row that closes a day of the ledger. Its subject has the day, how many records it has, and the root of their tree in hex.
pub const LEDGER_CLOSED: &str = "ledger_closed";
/// The hash before the first row.
const FIRST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One change by an operator, or by the hub of another region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRow {
    /// Its number, from 1, without gaps.
    pub number: u64,
    /// When, by the hub's clock. Units: milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// The name of the client that asked for it: the one in its certificate, `token ISSUER#SUBJECT`, or `hub REGION`.
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
    /// The row as an exported line, without its end: its members in the order of this type, which is that of the leaves of the signed log.
    ///
    /// Errors: none for texts and numbers.
    pub fn line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Whether it is as it was written, and the one behind this end of the trail.
    pub(super) fn follows(&self, end: &Head) -> bool {
        (self.number, &self.previous) == (end.number + 1, &end.hash) && self.computed_hash() == self.hash
    }

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
    /// No row at all.
    #[error("the trail has no rows: nothing was ordered at the hub yet, or the file is not the exported one")]
    Empty,
    /// The first row has another number than 1, and the caller expected the whole trail.
    #[error("the trail begins at row {0}, and the rows before it are missing; for a later part, say --start with the hash of row {before}", before = .0.saturating_sub(1))]
    Start(u64),
    /// The first row does not follow the expected one.
    #[error("row {0}, the first one, does not follow the row with the hash of --start")]
    Before(u64),
    /// The rows are in order, and none has the expected hash.
    #[error(
        "no row of {first} to {last} has the hash of --end: rows at the end are missing, or it is another trail; the hash of row {last} is {hash}"
    )]
    End {
        /// The number of the first row.
        first: u64,
        /// The number of the last row.
        last: u64,
        /// The hash of the last row.
        hash: String,
    },
}

/// A trail in which every row follows the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The number of the first row.
    pub first: u64,
    /// The number of the last row.
    pub last: u64,
    /// The hash of the last row.
    pub hash: String,
    /// The number of the row with the expected hash; none where no hash was expected.
    pub end: Option<u64>,
}

/// Checks a trail of one row a line, as `ojs-sidecar audit export` writes it. `start`: the hash of the row before the first one, where the
/// trail does not begin at row 1. `end`: the hash of some row, as an earlier export has printed it.
///
/// Errors: [`ChainError`], the first mistake.
pub fn verify<L: AsRef<str>>(
    lines: impl Iterator<Item = L>,
    start: Option<&str>,
    end: Option<&str>,
) -> Result<Verified, ChainError> {
    let (mut first, mut found, mut before): (_, _, Option<Head>) = (None, None, None);
    for (place, line) in lines.enumerate().filter(|(_, line)| !line.as_ref().trim().is_empty()) {
        let row: AuditRow = serde_json::from_str(line.as_ref())
            .map_err(|error| ChainError::Row { line: place + 1, cause: error.to_string() })?;
        if row.computed_hash() != row.hash {
            return Err(ChainError::Changed(before.as_ref().map_or(row.number, |before| before.number + 1)));
        }
        match &before {
            None => check_first(&row, start)?,
            Some(before) if row.follows(before) => {}
            Some(_) => return Err(ChainError::Gap(row.number)),
        }
        first = first.or(Some(row.number));
        found = found.or_else(|| end.filter(|end| *end == row.hash).map(|_| row.number));
        before = Some(Head { number: row.number, hash: row.hash });
    }
    let (Some(first), Some(Head { number: last, hash })) = (first, before) else { return Err(ChainError::Empty) };
    if end.is_some() && found.is_none() {
        return Err(ChainError::End { first, last, hash });
    }
    Ok(Verified { first, last, hash, end: found })
}

/// Checks the place of the first row.
fn check_first(row: &AuditRow, start: Option<&str>) -> Result<(), ChainError> {
    match start {
        Some(start) if start == row.previous => Ok(()),
        Some(_) => Err(ChainError::Before(row.number)),
        None if row.number != 1 => Err(ChainError::Start(row.number)),
        None if row.previous != FIRST => Err(ChainError::Gap(row.number)),
        None => Ok(()),
    }
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

    fn check(lines: &[String], start: Option<&str>, end: Option<&str>) -> Result<Verified, ChainError> {
        verify(lines.iter().map(String::as_str), start, end)
    }

    fn hash(line: &str) -> String {
        serde_json::from_str::<AuditRow>(line).unwrap().hash
    }

    #[test]
    fn a_line_and_its_leaf_stay_as_they_are_because_heads_are_signed_over_them() {
        let line = &trail()[0];
        let written = r#"{"number":1,"unix_ms":7,"caller":"ann.x","action":"switch_set","subject":"drain a","lasts_ms":60000,"force":false,"reason":"a \"storm\"","ticket":"OPS-1","author":"ann","previous":"0000000000000000000000000000000000000000000000000000000000000000","hash":"HASH"}"#;
        assert_eq!(*line, written.replace("HASH", &hash(line)));
        assert_eq!(serde_json::from_str::<AuditRow>(line).unwrap().line().unwrap(), *line);
    }

    #[test]
    fn a_whole_trail_is_right_and_so_is_a_later_part_behind_the_hash_of_the_row_before() {
        let lines = trail();
        let whole = check(&lines, None, None).unwrap();
        assert_eq!((whole.first, whole.last, whole.end), (1, 3, None));
        assert_eq!(check(&lines[1..], None, None), Err(ChainError::Start(2)));
        assert_eq!(check(&lines[1..], Some(&hash(&lines[0])), None).unwrap().first, 2);
        assert_eq!(check(&lines[1..], Some(&hash(&lines[1])), None), Err(ChainError::Before(2)));
        assert_eq!(check(&[], None, None), Err(ChainError::Empty));
    }

    #[test]
    fn the_hash_of_an_earlier_export_is_that_of_a_row_until_rows_at_the_end_are_missing() {
        let lines = trail();
        for (number, line) in (1..).zip(&lines) {
            assert_eq!(check(&lines, None, Some(&hash(line))).unwrap().end, Some(number));
        }
        let cut = check(&lines[..2], None, Some(&hash(&lines[2])));
        assert_eq!(cut, Err(ChainError::End { first: 1, last: 2, hash: hash(&lines[1]) }));
    }

    #[test]
    fn every_change_of_a_trail_is_named_by_its_row() {
        let lines = trail();
        for (from, to) in
            [("drain b", "drain c"), ("OPS-1", "OPS-2"), ("\"unix_ms\":7", "\"unix_ms\":8"), ("false", "true")]
        {
            let mut changed = lines.clone();
            changed[1] = lines[1].replace(from, to);
            assert_eq!(check(&changed, None, None), Err(ChainError::Changed(2)), "{to}");
        }
        assert_eq!(check(&[lines[0].clone(), lines[2].clone()], None, None), Err(ChainError::Gap(3)));
        let mut torn = lines.clone();
        torn[2].truncate(20);
        assert!(matches!(check(&torn, None, None), Err(ChainError::Row { line: 3, .. })));
    }
}
