//! `ojs-sidecar audit export` and `audit verify`: the audit trail of a hub.

use std::io::Read as _;
use std::path::Path;

use http::Method;

use super::arguments::{AuditCommand, HubArgs};
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::{complain, say};
use crate::hub::{AuditRow, Verified, verify};

/// Carries out one of the two.
pub(super) fn audit(command: &AuditCommand) -> u8 {
    match command {
        AuditCommand::Export { after, hub } => export(*after, hub),
        AuditCommand::Verify { file, start, end } => check(file, start.as_deref(), end.as_deref()),
    }
}

/// Prints every row behind a number; exit code 1 where the hub does not answer.
fn export(mut after: u64, hub: &HubArgs) -> u8 {
    let mut end = None;
    loop {
        let path = format!("/v1/hub/audit?after={after}");
        let Some(mut document) = order(To::Hub(hub), Method::GET, &path, |it| it["rows"].is_array()) else {
            return FAILED;
        };
        let Ok(rows) = serde_json::from_value::<Vec<AuditRow>>(document["rows"].take()) else {
            complain("the hub's rows are not those of this version of the program");
            return FAILED;
        };
        let before = after;
        for row in rows {
            match serde_json::to_string(&row) {
                Ok(line) => say(line),
                Err(error) => {
                    complain(error);
                    return FAILED;
                }
            }
            after = row.number;
            end = Some(row.hash);
        }
        if document["more"] != true {
            break;
        }
        if after <= before {
            complain("the hub says that there are more rows, and sends none behind the last one");
            return FAILED;
        }
    }
    match end {
        Some(hash) => complain(format_args!("row {after} is the last one; its hash is {hash}")),
        None if after > 0 => complain(format_args!("the trail has no rows behind row {after}")),
        None => complain("the trail has no rows yet"),
    }
    DONE
}

/// Checks a file; exit code 1 for the first mistake in it.
fn check(file: &Path, start: Option<&str>, end: Option<&str>) -> u8 {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            complain(format_args!("{}: {error}", file.display()));
            return FAILED;
        }
    };
    match verify(text.lines(), start, end) {
        Ok(trail) => {
            say(shown(&trail));
            DONE
        }
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}

/// The result, for the operator.
fn shown(trail: &Verified) -> String {
    let Verified { first, last, hash, end } = trail;
    let mut text = match last - first + 1 {
        1 => format!("row {first} is as it was written, and the only one; its hash is {hash}"),
        rows => format!(
            "{rows} rows are as they were written, row {first} to row {last}; the hash of the last one is {hash}"
        ),
    };
    if let Some(row) = end {
        text.push_str(&format!("\nthe hash of --end is that of row {row}"));
    }
    text
}
