//! The files of a bundle that follow from its records: jobs and throttles. The check gives the same lines, and compares.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::files::{HistoryPart, ROWS, read_line};
use super::lines::records;
use crate::hub::{AuditRow, Outline, day_text};

/// Records whose jobs are in memory at once: some hundred bytes each.
const RECORDS_AT_ONCE: u64 = 200_000;
/// Units: milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// The start of the actions of the audit trail that are about switches.
const SWITCHES: &str = "switch_";

/// Hands a line for each job of the records that are in full to `each`. Returns how many.
pub(super) fn each_job(
    folder: &Path,
    part: &HistoryPart,
    each: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<u64, String> {
    let shown: u64 = part.days.iter().map(|day| day.records.saturating_sub(day.withheld)).sum();
    let (parts, mut count) = (shown.div_ceil(RECORDS_AT_ONCE), 0);
    for part in 0..parts {
        let mut outline = Outline::new(part, parts);
        records(folder, |row| outline.take(row))?;
        for line in outline.lines() {
            each(&line)?;
            count += 1;
        }
    }
    Ok(count)
}

/// Hands each row of the audit trail of these days, with its line, to `each`.
pub(super) fn each_row(
    folder: &Path,
    part: &HistoryPart,
    each: &mut dyn FnMut(&AuditRow, &str) -> Result<(), String>,
) -> Result<(), String> {
    let file = File::open(folder.join(ROWS)).map_err(|error| format!("{ROWS}: {error}"))?;
    let (mut reader, mut number) = (BufReader::new(file), 0);
    loop {
        number += 1;
        let Some(line) = read_line(&mut reader, ROWS, number)? else { return Ok(()) };
        let Ok(row) = serde_json::from_str::<AuditRow>(&line) else { continue };
        let day = day_text(row.unix_ms / DAY_MS);
        if (&part.from..=&part.to).contains(&&day) {
            each(&row, &line)?;
        }
    }
}

/// Hands each row of the audit trail about a switch on these days to `each`. Returns how many.
pub(super) fn each_throttle(
    folder: &Path,
    part: &HistoryPart,
    each: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<u64, String> {
    let mut count = 0;
    each_row(folder, part, &mut |row, line| {
        if row.action.starts_with(SWITCHES) {
            each(line)?;
            count += 1;
        }
        Ok(())
    })?;
    Ok(count)
}
