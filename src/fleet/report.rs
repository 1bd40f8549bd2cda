//! Reports: the outcomes of a sidecar, for its hub.
//!
//! A sidecar sends each outcome that is open, or was, and again after each change of it, until the hub has taken it. The journal keeps them; a
//! new connection sends them all again, so that a hub which has lost its record gets them back.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::status::is_name;
use crate::outcome::State;

/// Reports in one request.
pub const REPORTS_MAX: usize = 256;
/// The longest request of reports, as JSON. A report has some hundred bytes for each copy of its job. Units: bytes.
pub const REPORTS_BYTES_MAX: usize = 1024 * 1024;
/// The longest row that is sent; in place of a longer one the hub gets its number and state. Units: bytes.
pub const REPORT_BYTES_MAX: usize = 64 * 1024;

/// Reports of one sidecar, in the order of their revisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reports {
    /// The name of the sidecar in the inventory.
    pub sidecar: String,
    /// When its process started; revisions of one process are compared, and another process is believed. Units: milliseconds since the Unix
    /// epoch.
    pub started_unix_ms: u64,
    /// One for each outcome that has changed.
    pub reports: Vec<Report>,
}

/// The present state of one outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The number of the outcome at its sidecar, `id` in its row.
    pub number: u64,
    /// The number of its last change in this process, from 1.
    pub revision: u64,
    /// The state, one of those of `ojs-sidecar outcomes --state`.
    pub state: String,
    /// The row, as `GET /v1/federation/outcomes` of the sidecar shows it.
    pub row: Value,
}

impl Report {
    /// Whether something is still to be found out about it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        [State::Open, State::Unknown, State::Watched].iter().any(|state| state.as_str() == self.state)
    }
}

impl Reports {
    /// The first member that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        if !is_name(&self.sidecar) {
            return Some("`sidecar`: expected 1 to 128 bytes of visible ASCII");
        }
        if self.reports.len() > REPORTS_MAX {
            return Some("`reports`: expected at most 256 of them");
        }
        if self.reports.iter().any(|it| State::parse(&it.state).is_none()) {
            return Some("`state`: expected the state of an outcome");
        }
        if self.reports.iter().any(|it| !it.row.is_object()) {
            return Some("`row`: expected an object");
        }
        let is_number = |number: u64| i64::try_from(number).is_ok();
        if !self.reports.iter().all(|it| is_number(it.number) && is_number(it.revision))
            || !is_number(self.started_unix_ms)
        {
            return Some("`number`, `revision` and `started_unix_ms`: expected numbers below 2^63");
        }
        let mut seen = HashSet::new();
        if !self.reports.iter().all(|it| seen.insert(it.number)) {
            return Some("`number`: expected each outcome once");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(number: u64, state: &str) -> Report {
        Report { number, revision: 1, state: state.to_owned(), row: serde_json::json!({}) }
    }

    fn reports(all: Vec<Report>) -> Reports {
        Reports { sidecar: "pod".to_owned(), started_unix_ms: 1, reports: all }
    }

    #[test]
    fn reports_that_cannot_be_right_are_named_by_their_member() {
        assert_eq!(reports(vec![report(1, "unknown"), report(2, "doubled")]).mistake(), None);
        for (wrong, member) in [
            (Reports { sidecar: "a b".to_owned(), ..reports(vec![]) }, "`sidecar`"),
            (Reports { started_unix_ms: u64::MAX, ..reports(vec![]) }, "`number`"),
            (reports(vec![report(1, "lost")]), "`state`"),
            (reports(vec![Report { row: Value::Null, ..report(1, "unknown") }]), "`row`"),
            (reports(vec![report(1, "unknown"), report(1, "unknown")]), "`number`"),
            (reports((0..257).map(|number| report(number, "unknown")).collect()), "`reports`"),
        ] {
            assert!(
                wrong.mistake().is_some_and(|mistake| mistake.starts_with(member)),
                "{member}: {:?}",
                wrong.mistake()
            );
        }
    }

    #[test]
    fn a_doubled_outcome_is_closed_and_a_watched_one_is_open() {
        assert_eq!(
            ["unknown", "watched", "doubled", "stored"].map(|state| report(1, state).is_open()),
            [true, true, false, false]
        );
    }
}
