//! The days of the ledger in a bundle.
//!
//! | file | content |
//! |---|---|
//! | `history.jsonl` | a line for each record of each day: the record itself, which is a leaf of the day's tree, or its digest where it is withheld |
//! | `history.sha256` | the digest of each of these, as a leaf |
//! | `jobs.jsonl` | the jobs that these records give |
//! | `throttles.jsonl` | the rows of `audit.jsonl` about switches on these days |
//! | `signatures/ledger-DAY.dsse.json` | the signed head over the records of a day |

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use http::Method;
use serde_json::Value;

use super::derived::{each_job, each_throttle};
use super::files::{DIGESTS, DayPart, HISTORY, HistoryPart, JOBS, MANIFEST, ROWS, THROTTLES, read_line, small, write};
use super::lines::{Line, Withheld};
use super::replays;
use crate::base::text::rfc3339;
use crate::cli::arguments::HubArgs;
use crate::cli::order::{To, order};
use crate::cli::query::list;
use crate::evidence::{Envelope, Hash, Head, Tree, Verifier};
use crate::hub::{AuditRow, LEDGER_CLOSED, day_text, read_day};
use crate::ojs::path_segment;

/// Units: milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// By how much the clocks of two hubs may differ. Units: milliseconds.
const SKEW_MS: u64 = 5 * 60 * 1_000;

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
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut history = BufWriter::new(File::create_new(folder.join(HISTORY)).map_err(cannot)?);
    let mut digests = BufWriter::new(File::create_new(folder.join(DIGESTS)).map_err(cannot)?);
    let (mut days, mut next) = (Vec::new(), Some(from.clone()));
    while let Some(from) = next.take() {
        let path = format!("/api/ledger/days?from={from}&to={to}");
        let Some(document) = order(To::Hub(hub), Method::GET, &path, |it| it["days"].is_array()) else {
            return Ok(None);
        };
        for day in list(&document["days"]) {
            let name = day["day"].as_str().unwrap_or_default();
            if day["dropped"] == true {
                return Err(format!(
                    "{name}: the hub has dropped its records, because their time is over: begin later"
                ));
            }
            let Some(part) = export_day(folder, name, tenant.as_deref(), (&mut history, &mut digests), hub)? else {
                return Ok(None);
            };
            days.push(part);
        }
        let last = days.last().and_then(|part: &DayPart| read_day(&part.day));
        next = last.filter(|_| document["more"] == true).map(|day| day_text(day + 1));
    }
    for file in [history, digests] {
        let file = file.into_inner().map_err(|error| cannot(error.into_error()))?;
        file.sync_all().map_err(cannot)?;
    }
    let mut part =
        HistoryPart { from: from.clone(), to: to.clone(), tenant: tenant.clone(), days, jobs: 0, replays: None };
    part.jobs = written(folder, JOBS, |each| each_job(folder, &part, each))?;
    written(folder, THROTTLES, |each| each_throttle(folder, &part, each))?;
    let Some(replays) = replays::export(folder, &part, hub)? else { return Ok(None) };
    part.replays = Some(replays);
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

/// The name of the log of a day, by that of the audit trail.
pub(super) fn day_log(trail: &str, day: &str) -> String {
    format!("{trail}/jobs/{day}")
}

/// Checked before: the keys, the signed head of the audit trail, and earlier heads of days.
pub(super) struct With<'c> {
    pub(super) keys: &'c [Verifier],
    pub(super) head: &'c Head,
    pub(super) earlier: &'c [(&'c PathBuf, Head)],
}

/// The history and the digests, line by line.
struct Lines {
    history: BufReader<File>,
    digests: BufReader<File>,
    /// The lines so far.
    number: u64,
}

/// Checks the files of these days; a sentence for the operator.
///
/// Errors: the first mistake, with the record.
pub(super) fn check(folder: &Path, part: &HistoryPart, with: &With<'_>) -> Result<String, String> {
    check_order(part)?;
    let closings = closings(folder)?;
    let open =
        |name: &str| File::open(folder.join(name)).map(BufReader::new).map_err(|error| format!("{name}: {error}"));
    let mut lines = Lines { history: open(HISTORY)?, digests: open(DIGESTS)?, number: 0 };
    let (mut records, mut withheld) = (0, 0);
    for day in &part.days {
        let head = opened(folder, day, with)?;
        check_day(&mut lines, day, &head, with)?;
        let closed = closings.get(&day.day);
        if closed.is_some_and(|closed| *closed != format!("{} {}", head.size, head.root)) {
            let day = &day.day;
            return Err(format!(
                "{HISTORY}: the records of {day} are not those with which the audit trail has closed it"
            ));
        }
        (records, withheld) = (records + day.records, withheld + day.withheld);
    }
    let Lines { mut history, mut digests, number } = lines;
    for (file, reader) in [(HISTORY, &mut history), (DIGESTS, &mut digests)] {
        if read_line(reader, file, number + 1)?.is_some() {
            return Err(format!("{file}: line {} and those behind it were added", number + 1));
        }
    }
    check_derived(folder, part)?;
    let replays = match part.replays {
        Some(expected) => {
            let counts = replays::check(folder, part)?;
            if counts.whole != expected {
                let whole = counts.whole;
                return Err(format!("{MANIFEST}: it says {expected} replays, and there are {whole} with their lines"));
            }
            counts.shown()
        }
        None => match replays::count(folder, part)? {
            0 => String::new(),
            count => format!("; the manifests of {count} replays are not in it"),
        },
    };
    let (days, jobs) = (part.days.len(), part.jobs);
    Ok(format!(
        "{records} records of {days} days are as they were signed, {withheld} of them withheld; {jobs} jobs{replays}"
    ))
}

/// Checks the records of a day by its signed head, and by earlier heads of it.
fn check_day(lines: &mut Lines, day: &DayPart, head: &Head, with: &With<'_>) -> Result<(), String> {
    let name = &day.day;
    let mut earlier: Vec<&(&PathBuf, Head)> = with.earlier.iter().filter(|(_, it)| it.log == head.log).collect();
    earlier.sort_by_key(|(_, it)| it.size);
    let mut earlier = earlier.into_iter().peekable();
    let (mut tree, mut hidden) = (Tree::new(), 0);
    while tree.size() < day.records {
        let (leaf, is_withheld) = next_leaf(lines, name, tree.size())?;
        hidden += u64::from(is_withheld);
        tree.push(leaf);
        while let Some((path, it)) = earlier.next_if(|(_, it)| it.size == tree.size()) {
            if !it.is_of(&tree) {
                let (path, size) = (path.display(), it.size);
                return Err(format!("{path}: the first {size} records of {name} are not those of this earlier head"));
            }
        }
    }
    let size = tree.size();
    if let Some((path, it)) = earlier.next() {
        let path = path.display();
        return Err(format!("{path}: this earlier head of {name} has {} records, and the bundle has {size}", it.size));
    }
    if !head.is_of(&tree) {
        let signed = head.size;
        return Err(format!(
            "{HISTORY}: the {size} records of {name} are not the {signed} that were signed: some were written anew with their digests, or are missing"
        ));
    }
    if hidden != day.withheld {
        let said = day.withheld;
        return Err(format!("{HISTORY}: {hidden} records of {name} are withheld, and the manifest says {said}"));
    }
    Ok(())
}

/// The leaf of the next record, which has this number, and whether it is withheld.
fn next_leaf(lines: &mut Lines, day: &str, number: u64) -> Result<(Hash, bool), String> {
    lines.number += 1;
    let at = format!("record {number} of {day}");
    let text = read_line(&mut lines.history, HISTORY, lines.number)?;
    let digest = read_line(&mut lines.digests, DIGESTS, lines.number)?;
    let (Some(text), Some(digest)) = (text, digest) else { return Err(format!("{at} is missing")) };
    let changed = || format!("{HISTORY}: {at} was changed: it is not written as a hub writes it");
    let line = Line::read(&text).ok_or_else(changed)?;
    check_place(&line, day, number)?;
    let leaf = line.leaf(&text).ok_or_else(changed)?;
    if HEXLOWER.encode(&leaf) != digest {
        return Err(format!("{HISTORY}: {at} was changed: it does not have its digest in {DIGESTS}"));
    }
    Ok((leaf, matches!(line, Line::Withheld(_))))
}

/// The days are in order, each once, and within the window.
fn check_order(part: &HistoryPart) -> Result<(), String> {
    let mut before = None;
    for DayPart { day, .. } in &part.days {
        let is_day = read_day(day).is_some() && (&part.from..=&part.to).contains(&day);
        if !is_day || before.is_some_and(|before| before >= day) {
            return Err(format!(
                "{MANIFEST}: expected days from {} to {} in order, each once, and not {day}",
                part.from, part.to
            ));
        }
        before = Some(day);
    }
    Ok(())
}

/// The number of records and the root with which the audit trail has closed each day; the first ones, where a day was opened again.
fn closings(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let file = File::open(folder.join(ROWS)).map_err(|error| format!("{ROWS}: {error}"))?;
    let (mut reader, mut number, mut closings) = (BufReader::new(file), 0, BTreeMap::new());
    loop {
        number += 1;
        let Some(line) = read_line(&mut reader, ROWS, number)? else { return Ok(closings) };
        let row = serde_json::from_str::<AuditRow>(&line).ok().filter(|row| row.action == LEDGER_CLOSED);
        if let Some((day, content)) = row.as_ref().and_then(|row| row.subject.split_once(' ')) {
            closings.entry(day.to_owned()).or_insert_with(|| content.to_owned());
        }
    }
}

/// The signed head of a day.
fn opened(folder: &Path, day: &DayPart, with: &With<'_>) -> Result<Head, String> {
    let name = day.head();
    let wrong = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let envelope = Envelope::read(&small(&folder.join(&name))?).map_err(|error| wrong(&error))?;
    let head = Head::open(&envelope, with.keys).map_err(|error| wrong(&error))?;
    let log = day_log(&with.head.log, &day.day);
    if head.log != log {
        return Err(wrong(&format_args!("it is the head of {}, and not of {log}", head.log)));
    }
    let end_ms = read_day(&day.day).map_or(u64::MAX, |day| (day + 1).saturating_mul(DAY_MS));
    // The exporter asks for the head of the trail first; two hubs may differ by minutes.
    if head.signed_ms.saturating_add(SKEW_MS) < end_ms.min(with.head.signed_ms) {
        let at = [head.signed_ms, with.head.signed_ms].map(rfc3339);
        return Err(wrong(&format_args!(
            "it was signed at {}, before the end of its day, and the audit trail at {}: later records may be missing",
            at[0], at[1]
        )));
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
