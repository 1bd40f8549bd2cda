//! A bundle: the whole audit trail with a signed head over it, in a folder, which can be checked without the hub.
//!
//! | file | content |
//! |---|---|
//! | `audit.jsonl` | one row a line |
//! | `signatures/audit-head.dsse.json` | the head over the rows, signed by the hub |
//! | `manifest.json` | length and SHA-256 of each file |
//!
//! With some days of the ledger there are the files of [`history`], too.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use http::Method;

use super::files::{HEAD, HistoryPart, MANIFEST, Manifest, ROWS, SIGNATURES, read_line, small, write};
use super::history::{self, Window, With, day_log};
use super::rows::read_rows;
use crate::base::text::rfc3339;
use crate::cli::arguments::HubArgs;
use crate::cli::exit::{DONE, FAILED};
use crate::cli::order::{To, order};
use crate::cli::out::{complain, say};
use crate::evidence::{Envelope, Head, Tree, Verifier, leaf_hash};
use crate::hub::{AuditRow, ChainError, verify};

/// Writes a bundle into a folder that is not there yet; exit code 1 where the hub does not answer or signs nothing, or the disk fails: the folder is
/// not there then.
pub(super) fn export(folder: &Path, window: Option<&Window>, hub: &HubArgs) -> u8 {
    let Some(document) = order(To::Hub(hub), Method::GET, "/v1/hub/audit/head", |it| it["payload"].is_string()) else {
        return FAILED;
    };
    let mut part = folder.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    match whole(folder, &part, &document.to_string(), window, hub) {
        Ok(Some((rows, None))) => {
            say(format_args!("{}: {rows} rows, and the signed head over them", folder.display()));
            DONE
        }
        Ok(Some((rows, Some(part)))) => {
            let (records, days): (u64, usize) = (part.days.iter().map(|day| day.records).sum(), part.days.len());
            let path = folder.display();
            say(format_args!(
                "{path}: {rows} rows, {records} records of {days} days, {} jobs, and the signed heads",
                part.jobs
            ));
            DONE
        }
        Ok(None) => FAILED,
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}

/// As [`written`], into `part`, which becomes `folder`.
fn whole(
    folder: &Path,
    part: &Path,
    head: &str,
    window: Option<&Window>,
    hub: &HubArgs,
) -> Result<Option<Written>, String> {
    let cannot = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if folder.exists() {
        return Err(format!("{}: expected a new folder, and there is one", folder.display()));
    }
    fs::create_dir(part).map_err(|error| cannot(part, error))?;
    let rows = written(part, head, window, hub);
    if let Ok(Some(_)) = rows {
        fs::rename(part, folder).map_err(|error| cannot(folder, error))?;
    } else {
        fs::remove_dir_all(part).map_err(|error| cannot(part, error))?;
    }
    rows
}

/// The number of rows of the audit trail, and the days of the ledger.
type Written = (u64, Option<HistoryPart>);

/// Writes the files. Returns their content; `None` where the hub has failed, and the reason is printed.
fn written(folder: &Path, head: &str, window: Option<&Window>, hub: &HubArgs) -> Result<Option<Written>, String> {
    // Nothing is proven here: the rows must be those that the hub has signed, by whichever key.
    let envelope = Envelope::read(head.as_bytes()).map_err(|error| error.to_string())?;
    let signed = Head::unverified(&envelope).map_err(|error| error.to_string())?;
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir(folder.join(SIGNATURES)).map_err(cannot)?;
    let mut file = BufWriter::new(File::create_new(folder.join(ROWS)).map_err(cannot)?);
    let mut tree = Tree::new();
    if signed.size > 0 {
        let read = read_rows(hub, 0, |row| {
            let line = row.line().map_err(|error| error.to_string())?;
            writeln!(file, "{line}").map_err(cannot)?;
            tree.push(leaf_hash(line.as_bytes()));
            Ok(tree.size() < signed.size)
        });
        if read.is_none() {
            return Ok(None);
        }
    }
    file.into_inner().map_err(|error| error.into_error()).and_then(|file| file.sync_all()).map_err(cannot)?;
    if !signed.is_of(&tree) {
        let rows = tree.size();
        return Err(format!(
            "the hub has sent {rows} rows that are not the {} rows that it signed: compare its trail with an earlier bundle",
            signed.size
        ));
    }
    write(&folder.join(HEAD), head)?;
    let part = match window.map(|window| history::export(folder, window, hub)).transpose()? {
        Some(None) => return Ok(None),
        part => part.flatten(),
    };
    let manifest = Manifest::of(folder, part.clone())?;
    let manifest = serde_json::to_string_pretty(&manifest).map_err(|error| error.to_string())?;
    write(&folder.join(MANIFEST), &manifest)?;
    Ok(Some((tree.size(), part)))
}

/// Checks a bundle with these public keys, and that it goes on from these earlier heads; exit code 1 for the first mistake.
pub(super) fn check(folder: &Path, keys: &[PathBuf], heads: &[PathBuf]) -> u8 {
    match checked(folder, keys, heads) {
        Ok(sentence) => {
            say(sentence);
            DONE
        }
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}

fn checked(folder: &Path, keys: &[PathBuf], heads: &[PathBuf]) -> Result<String, String> {
    if keys.is_empty() {
        return Err("--key: expected the public key of the hub, without which a bundle proves nothing".to_owned());
    }
    let named = |path: &Path, error: &dyn Display| format!("{}: {error}", path.display());
    let read_key = |path: &PathBuf| Verifier::read(&small(path)?).map_err(|error| named(path, &error));
    let keys: Vec<Verifier> = keys.iter().map(read_key).collect::<Result<_, _>>()?;
    let open = |path: &Path| {
        let envelope = Envelope::read(&small(path)?).map_err(|error| named(path, &error))?;
        Head::open(&envelope, &keys).map_err(|error| named(path, &error))
    };
    let head = open(&folder.join(HEAD))?;
    let mut earlier: Vec<(&PathBuf, Head)> =
        heads.iter().map(|path| Ok((path, open(path)?))).collect::<Result<_, String>>()?;
    let manifest = Manifest::read(folder)?;
    let of_days: Vec<_> = earlier.extract_if(.., |(_, it)| it.log.starts_with(&day_log(&head.log, ""))).collect();
    if let Some((path, _)) = of_days.first().filter(|_| manifest.history.is_none()) {
        return Err(named(path, &"it is a head of the ledger, and the bundle has no days of that"));
    }
    if let Some((path, _)) = earlier.iter().find(|(_, it)| it.log != head.log) {
        return Err(named(path, &format_args!("it is a head of another log than {}", head.log)));
    }
    earlier.sort_by_key(|(_, it)| it.size);
    let tree = read_tree(&folder.join(ROWS), &head, &earlier)?;
    if !head.is_of(&tree) {
        return Err(match tree.size() {
            rows if rows == head.size => format!(
                "{ROWS}: each of the {rows} rows follows the one before it, and they are not those that were signed: the trail was written anew"
            ),
            rows if rows < head.size => {
                format!("{ROWS}: it has {rows} rows of {} that were signed: the last ones are missing", head.size)
            }
            rows => format!("{ROWS}: it has {rows} rows and {} were signed: rows were added", head.size),
        });
    }
    let with = With { keys: &keys, head: &head, earlier: &of_days };
    let history = manifest.history.as_ref().map(|part| history::check(folder, part, &with)).transpose()?;
    manifest.check(folder)?;
    let (rows, log, at) = (head.size, &head.log, rfc3339(head.signed_ms));
    let history = history.map(|sentence| format!("\n{sentence}")).unwrap_or_default();
    Ok(format!(
        "{rows} rows of {log} are as they were signed at {at}, and {} earlier heads agree{history}",
        heads.len()
    ))
}

/// The tree over the rows, each of which follows the one before it. Each earlier head is that of the rows up to its size.
fn read_tree(path: &Path, head: &Head, earlier: &[(&PathBuf, Head)]) -> Result<Tree, String> {
    let file = File::open(path).map_err(|error| format!("{ROWS}: {error}"))?;
    let (mut tree, mut fault) = (Tree::new(), None);
    let mut earlier = earlier.iter().peekable();
    let mut reader = BufReader::new(file);
    // A further line is asked for once the one before it was found to follow: a changed row is named before a head that does not fit.
    let mut next = |tree: &mut Tree| {
        judge(&mut earlier, tree)?;
        let line = read_row(&mut reader, tree.size() + 1)?;
        line.iter().for_each(|line| tree.push(leaf_hash(line.as_bytes())));
        Ok::<_, String>(line)
    };
    let lines = std::iter::from_fn(|| next(&mut tree).map_err(|error| fault = Some(error)).ok().flatten());
    let trail = verify(lines, None, None);
    match (trail, fault) {
        (Err(ChainError::Empty), None) if head.size == 0 => {}
        (_, Some(fault)) => return Err(fault),
        (Err(error), None) => return Err(format!("{ROWS}: {error}")),
        (Ok(_), None) => {}
    }
    if let Some((path, it)) = earlier.next() {
        let (size, rows) = (it.size, tree.size());
        return Err(format!(
            "{}: this earlier head has {size} rows, and the bundle has {rows}: the last ones are missing",
            path.display()
        ));
    }
    Ok(tree)
}

/// Checks the heads of as many rows as the tree has.
fn judge<'h>(
    earlier: &mut std::iter::Peekable<impl Iterator<Item = &'h (&'h PathBuf, Head)>>,
    tree: &Tree,
) -> Result<(), String> {
    while let Some((path, it)) = earlier.next_if(|(_, it)| it.size == tree.size()) {
        if !it.is_of(tree) {
            return Err(format!(
                "{}: the first {} rows are not those of this earlier head: they were written anew",
                path.display(),
                it.size
            ));
        }
    }
    Ok(())
}

/// Line `number` without its end; `None` behind the last one. A line that is a row, but not as hubs write it, is a changed one.
fn read_row(reader: &mut impl std::io::BufRead, number: u64) -> Result<Option<String>, String> {
    let Some(line) = read_line(reader, ROWS, number)? else { return Ok(None) };
    let row = serde_json::from_str::<AuditRow>(&line).ok().and_then(|row| row.line().ok());
    if row.is_some_and(|row| row != line) {
        return Err(format!(
            "{ROWS}: line {number} is a row that is not written as a hub writes it: a byte was added, removed or moved"
        ));
    }
    Ok(Some(line))
}
