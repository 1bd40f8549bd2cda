//! The days of the ledger in a bundle.
//!
//! | file | content |
//! |---|---|
//! | `history.jsonl` | a line for each record of each day: the record itself, which is a leaf of the day's tree, or its digest where it is withheld |
//! | `history.sha256` | the digest of each of these, as a leaf |
//! | `jobs.jsonl` | the jobs that these records give |
//! | `throttles.jsonl` | the rows of `audit.jsonl` about switches on these days |
//! | `signatures/ledger-DAY.dsse.json` | the signed head over the records of a day |

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

use data_encoding::HEXLOWER;
use http::Method;
use serde_json::Value;

use super::derived::{each_job, each_throttle};
use super::files::{DIGESTS, DayPart, HISTORY, HistoryPart, JOBS, THROTTLES, read_line, small, write};
use super::lines::{Line, Withheld};
use crate::cli::arguments::HubArgs;
use crate::cli::order::{To, order};
use crate::cli::query::list;
use crate::evidence::{Envelope, Hash, Head, Tree, Verifier};
use crate::ojs::path_segment;

/// The wanted days.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) tenant: Option<String>,
}

/// Writes the files of these days. `None` where the hub has failed, and the reason is printed.
pub(super) fn export(folder: &Path, window: &Window, hub: &HubArgs) -> Result<Option<HistoryPart>, String> {
    let Window { from, to, tenant } = window;
    let path = format!("/api/ledger/days?from={from}&to={to}");
    let Some(document) = order(To::Hub(hub), Method::GET, &path, |it| it["days"].is_array()) else { return Ok(None) };
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut history = BufWriter::new(File::create_new(folder.join(HISTORY)).map_err(cannot)?);
    let mut digests = BufWriter::new(File::create_new(folder.join(DIGESTS)).map_err(cannot)?);
    let mut days = Vec::new();
    for day in list(&document["days"]) {
        let name = day["day"].as_str().unwrap_or_default();
        if day["dropped"] == true {
            return Err(format!("{name}: the hub has dropped its records, because their time is over: begin later"));
        }
        let Some(part) = export_day(folder, name, tenant.as_deref(), (&mut history, &mut digests), hub)? else {
            return Ok(None);
        };
        days.push(part);
    }
    for file in [history, digests] {
        let file = file.into_inner().map_err(|error| cannot(error.into_error()))?;
        file.sync_all().map_err(cannot)?;
    }
    let mut part = HistoryPart { from: from.clone(), to: to.clone(), tenant: tenant.clone(), days, jobs: 0 };
    part.jobs = written(folder, JOBS, |each| each_job(folder, &part, each))?;
    written(folder, THROTTLES, |each| each_throttle(folder, &part, each))?;
    Ok(Some(part))
}

/// Writes the lines that `of` gives into a new file. Returns how many.
fn written(
    folder: &Path,
    name: &str,
    of: impl FnOnce(&mut dyn FnMut(&str) -> Result<(), String>) -> Result<u64, String>,
) -> Result<u64, String> {
    let cannot = |error: std::io::Error| format!("{name}: {error}");
    let mut file = BufWriter::new(File::create_new(folder.join(name)).map_err(cannot)?);
    let count = of(&mut |line| writeln!(file, "{line}").map_err(cannot))?;
    file.into_inner().map_err(|error| error.into_error()).and_then(|file| file.sync_all()).map_err(cannot)?;
    Ok(count)
}

/// Writes the records of a day up to the signed head.
fn export_day(
    folder: &Path,
    day: &str,
    tenant: Option<&str>,
    (history, digests): (&mut BufWriter<File>, &mut BufWriter<File>),
    hub: &HubArgs,
) -> Result<Option<DayPart>, String> {
    let path = format!("/api/ledger/heads?day={day}");
    let Some(document) = order(To::Hub(hub), Method::GET, &path, |it| it["payload"].is_string()) else {
        return Ok(None);
    };
    let envelope = Envelope::read(document.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let head = Head::unverified(&envelope).map_err(|error| error.to_string())?;
    let mut part = DayPart { day: day.to_owned(), records: 0, withheld: 0 };
    write(&folder.join(part.head()), &document.to_string())?;
    let (mut tree, tenant) =
        (Tree::new(), tenant.map(|it| format!("&tenant={}", path_segment(it))).unwrap_or_default());
    while tree.size() < head.size {
        let path = format!("/api/ledger/history?day={day}&from={}{tenant}", tree.size());
        let Some(page) = order(To::Hub(hub), Method::GET, &path, |it| it["rows"].is_array()) else { return Ok(None) };
        let rows = list(&page["rows"]);
        if rows.is_empty() {
            return Err(format!("{day}: the hub has {} records of {} that it has signed", tree.size(), head.size));
        }
        let left = usize::try_from(head.size - tree.size()).unwrap_or(usize::MAX);
        for row in rows.iter().take(left) {
            let (line, leaf) = exported(day, tree.size(), row)?;
            part.withheld += u64::from(row["line"].is_null());
            let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
            writeln!(history, "{line}").map_err(cannot)?;
            writeln!(digests, "{}", HEXLOWER.encode(&leaf)).map_err(cannot)?;
            tree.push(leaf);
        }
    }
    part.records = tree.size();
    if !head.is_of(&tree) {
        return Err(format!(
            "{day}: the hub has sent other records than it has signed: compare with an earlier bundle"
        ));
    }
    Ok(Some(part))
}

/// The line of a record as the hub has sent it, and its leaf.
fn exported(day: &str, number: u64, row: &Value) -> Result<(String, Hash), String> {
    let text = |member: &str| row[member].as_str().map(str::to_owned);
    let wrong = |cause: &str| format!("{day}: record {number} {cause}");
    let line = match (text("line"), text("withheld"), text("leaf")) {
        (Some(line), None, _) => line,
        (None, Some(withheld), Some(leaf)) => {
            let withheld = Withheld { day: day.to_owned(), number, leaf, withheld };
            serde_json::to_string(&withheld).map_err(|error| wrong(&error.to_string()))?
        }
        _ => return Err(wrong("is not sent as this version of the program reads it")),
    };
    let read = Line::read(&line).filter(|it| it.place() == (day, number));
    let leaf = read.as_ref().and_then(|it| it.leaf(&line)).ok_or_else(|| wrong("is not the one that was written"))?;
    if text("leaf").as_deref() != Some(&HEXLOWER.encode(&leaf)) {
        return Err(wrong("was changed in the hub's record: it does not have its digest"));
    }
    Ok((line, leaf))
}

/// Checks the files of these days; a sentence for the operator.
///
/// Errors: the first mistake, with the record.
pub(super) fn check(folder: &Path, part: &HistoryPart, keys: &[Verifier]) -> Result<String, String> {
    let open =
        |name: &str| File::open(folder.join(name)).map(BufReader::new).map_err(|error| format!("{name}: {error}"));
    let (mut history, mut digests, mut number) = (open(HISTORY)?, open(DIGESTS)?, 0);
    let (mut records, mut withheld) = (0, 0);
    for day in &part.days {
        let head = opened(folder, day, keys)?;
        let (mut tree, mut hidden) = (Tree::new(), 0);
        while tree.size() < day.records {
            number += 1;
            let at = format!("record {} of {}", tree.size(), day.day);
            let text = read_line(&mut history, HISTORY, number)?;
            let digest = read_line(&mut digests, DIGESTS, number)?;
            let (Some(text), Some(digest)) = (text, digest) else { return Err(format!("{at} is missing")) };
            let changed = || format!("{HISTORY}: {at} was changed: it is not written as a hub writes it");
            let line = Line::read(&text).ok_or_else(changed)?;
            check_place(&line, &day.day, tree.size())?;
            let leaf = line.leaf(&text).ok_or_else(changed)?;
            if HEXLOWER.encode(&leaf) != digest {
                return Err(format!("{HISTORY}: {at} was changed: it does not have its digest in {DIGESTS}"));
            }
            hidden += u64::from(matches!(line, Line::Withheld(_)));
            tree.push(leaf);
        }
        if !head.is_of(&tree) {
            let signed = head.size;
            return Err(format!(
                "{HISTORY}: the {} records of {} are not the {signed} that were signed: some were written anew with their digests, or are missing",
                tree.size(),
                day.day
            ));
        }
        if hidden != day.withheld {
            return Err(format!(
                "{HISTORY}: {hidden} records of {} are withheld, and the manifest says {}",
                day.day, day.withheld
            ));
        }
        (records, withheld) = (records + tree.size(), withheld + hidden);
    }
    for (file, reader) in [(HISTORY, &mut history), (DIGESTS, &mut digests)] {
        if read_line(reader, file, number + 1)?.is_some() {
            return Err(format!("{file}: line {} and those behind it were added", number + 1));
        }
    }
    check_derived(folder, part)?;
    let days = part.days.len();
    Ok(format!(
        "{records} records of {days} days are as they were signed, {withheld} of them withheld; {} jobs",
        part.jobs
    ))
}

/// The signed head of a day.
fn opened(folder: &Path, day: &DayPart, keys: &[Verifier]) -> Result<Head, String> {
    let name = day.head();
    let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let envelope = Envelope::read(&small(&folder.join(&name))?).map_err(|error| wrong(&error))?;
    let head = Head::open(&envelope, keys).map_err(|error| wrong(&error))?;
    if !head.log.ends_with(&format!("/jobs/{}", day.day)) {
        return Err(wrong(&format_args!("it is the head of {}, and not of {}", head.log, day.day)));
    }
    Ok(head)
}

fn check_place(line: &Line, day: &str, number: u64) -> Result<(), String> {
    let (found_day, found) = line.place();
    match found.cmp(&number) {
        _ if found_day != day => Err(format!(
            "{HISTORY}: record {number} of {day} is missing, and record {found} of {found_day} stands in its place"
        )),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => {
            Err(format!("{HISTORY}: record {number} of {day} is missing, or stands behind record {found}"))
        }
        std::cmp::Ordering::Less => {
            Err(format!("{HISTORY}: record {found} of {day} stands twice, or behind a later one"))
        }
    }
}

/// The jobs and the throttles are those of the records and of the rows.
fn check_derived(folder: &Path, part: &HistoryPart) -> Result<(), String> {
    for name in [JOBS, THROTTLES] {
        let file = File::open(folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let (mut reader, mut number) = (BufReader::new(file), 0);
        let mut same = |line: &str| {
            number += 1;
            match read_line(&mut reader, name, number)? {
                Some(found) if found == line => Ok(()),
                Some(_) => Err(format!("{name}: line {number} was changed: the records give another one")),
                None => Err(format!("{name}: line {number} is missing")),
            }
        };
        let count = match name {
            JOBS => each_job(folder, part, &mut same)?,
            _ => each_throttle(folder, part, &mut same)?,
        };
        if name == JOBS && count != part.jobs {
            return Err(format!("{JOBS}: the records give {count} jobs, and the manifest says {}", part.jobs));
        }
        if read_line(&mut reader, name, count + 1)?.is_some() {
            return Err(format!("{name}: line {} was added", count + 1));
        }
    }
    Ok(())
}
