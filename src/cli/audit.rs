//! `ojs-sidecar audit export` and `audit verify`: the audit trail of a hub.

use std::io::Read as _;
use std::path::Path;

use http::Method;

use super::arguments::{AuditCommand, HubArgs};
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::{complain, say};
use crate::hub::{AuditRow, verify};

/// Carries out one of the two.
pub(super) fn audit(command: &AuditCommand) -> u8 {
    match command {
        AuditCommand::Export { after, hub } => export(*after, hub),
        AuditCommand::Verify { file, end } => check(file, end.as_deref()),
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
    if let Some(hash) = end {
        complain(format_args!("row {after} is the last one; its hash is {hash}"));
    }
    DONE
}

fn check(file: &Path, end: Option<&str>) -> u8 {
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
    match verify(text.lines(), end) {
        Ok((rows, hash)) => {
            say(format_args!("{rows} rows are as they were written; the hash of the last one is {hash}"));
            DONE
        }
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}
