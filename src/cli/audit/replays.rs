//! The manifests of replays in a bundle: a line for each job of the replays that have ended on its days.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

use data_encoding::HEXLOWER;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::derived::each_row;
use super::files::{HistoryPart, REPLAYS, read_line};
use crate::cli::arguments::HubArgs;
use crate::cli::order::{To, order};
use crate::cli::query::list;
use crate::evidence::{Hash, Tree, leaf_hash};
use crate::hub::NotedManifest;
use crate::ojs::path_segment;

/// The word of a replay that the record of the hub does not have any more: it keeps the last thousand.
const DROPPED: &str = "dropped";

/// A line that stays at the hub; one without a leaf stands for a whole replay.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Withheld {
    replay_id: String,
    /// The hash of the line as a leaf, in hex.
    leaf: String,
    /// Why.
    withheld: String,
}

/// The replays whose end is a row of these days, in order, each once.
fn noted(folder: &Path, part: &HistoryPart) -> Result<Vec<NotedManifest>, String> {
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    each_row(folder, part, &mut |row, _| {
        let noted = NotedManifest::read(&row.subject).filter(|_| row.action.ends_with("replay_ended"));
        // A hub that was killed behind the row writes it again.
        all.extend(noted.filter(|it| known.insert((it.replay_id.clone(), it.root.clone()))));
        Ok(())
    })?;
    Ok(all)
}

/// How much of the replays a bundle has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// The replays whose lines are there.
    pub(super) whole: u64,
    /// Those that the hub had dropped.
    dropped: u64,
    /// The lines that are withheld.
    withheld: u64,
}

impl Counts {
    /// The end of a sentence; empty without replays.
    pub(super) fn shown(&self) -> String {
        let Self { whole, dropped, withheld } = self;
        match whole + dropped {
            0 => String::new(),
            _ => format!("; {whole} replays with {withheld} lines withheld, {dropped} dropped"),
        }
    }
}

/// The number of replays that have ended on these days, by the audit trail.
pub(super) fn count(folder: &Path, part: &HistoryPart) -> Result<usize, String> {
    noted(folder, part).map(|all| all.len())
}

/// Writes the manifests. Returns how many there are, without those that the hub has dropped; `None` where the hub has failed, and the reason is printed.
///
/// Errors: the disk's; or the hub has other lines than those that the audit trail names.
pub(super) fn export(folder: &Path, part: &HistoryPart, hub: &HubArgs) -> Result<Option<u64>, String> {
    let cannot = |error: std::io::Error| format!("{REPLAYS}: {error}");
    let mut file = BufWriter::new(File::create_new(folder.join(REPLAYS)).map_err(cannot)?);
    let (replays, mut count) = (noted(folder, part)?, 0);
    let tenant = part.tenant.as_ref().map(|it| format!("&tenant={}", path_segment(it))).unwrap_or_default();
    'replays: for it in &replays {
        let (mut tree, mut next) = (Tree::new(), Some("0".to_owned()));
        while let Some(cursor) = next.take() {
            let (id, root) = (path_segment(&it.replay_id), path_segment(&it.root));
            let path = format!("/api/replays/{id}/manifest?root={root}&cursor={cursor}{tenant}");
            let Some(page) = order(To::Hub(hub), Method::GET, &path, |it| it["lines"].is_array()) else {
                return Ok(None);
            };
            if page[DROPPED] == true && tree.size() > 0 {
                return Err(format!("{}: the hub has dropped this replay meanwhile: export again", it.replay_id));
            }
            if page[DROPPED] == true {
                writeln!(file, "{}", dropped(&it.replay_id)?).map_err(cannot)?;
                continue 'replays;
            }
            let lines = list(&page["lines"]);
            if tree.size() + lines.len() as u64 > it.jobs || lines.is_empty() && it.jobs > 0 {
                let id = &it.replay_id;
                return Err(format!("{id}: the hub sends other lines than the {} that the audit trail names", it.jobs));
            }
            for line in lines {
                let (line, leaf) = exported(&it.replay_id, line)?;
                writeln!(file, "{line}").map_err(cannot)?;
                tree.push(leaf);
            }
            next = page["next_cursor"].as_str().map(str::to_owned);
        }
        is_noted(it, &tree).map_err(|error| format!("{error}: compare with an earlier bundle"))?;
        count += 1;
    }
    file.into_inner().map_err(|error| error.into_error()).and_then(|file| file.sync_all()).map_err(cannot)?;
    Ok(Some(count))
}

fn dropped(replay_id: &str) -> Result<String, String> {
    let line = Withheld { replay_id: replay_id.to_owned(), leaf: String::new(), withheld: DROPPED.to_owned() };
    serde_json::to_string(&line).map_err(|error| error.to_string())
}

/// A line as the hub has sent it, and its leaf.
fn exported(replay_id: &str, sent: &Value) -> Result<(String, Hash), String> {
    let text = |member: &str| sent[member].as_str().map(str::to_owned);
    let wrong = || format!("{replay_id}: a line of its manifest is not sent as this version of the program reads it");
    let line = match (text("line"), text("withheld"), text("leaf")) {
        (Some(line), None, _) => line,
        (None, Some(withheld), Some(leaf)) => {
            let withheld = Withheld { replay_id: replay_id.to_owned(), leaf, withheld };
            serde_json::to_string(&withheld).map_err(|_| wrong())?
        }
        _ => return Err(wrong()),
    };
    let leaf = read_leaf(replay_id, &line).ok_or_else(wrong)?;
    Ok((line, leaf))
}

/// The leaf of a line of a replay; none for a line that is not of it, or is not written as a hub or a bundle writes it.
fn read_leaf(replay_id: &str, line: &str) -> Option<Hash> {
    let value: Value = serde_json::from_str(line).ok()?;
    if value["replay_id"] != replay_id {
        return None;
    }
    if value["leaf"].is_null() {
        let written = value.to_string();
        return (written == line).then(|| leaf_hash(line.as_bytes()));
    }
    let withheld: Withheld = serde_json::from_value(value).ok()?;
    let is_own = serde_json::to_string(&withheld).is_ok_and(|own| own == line);
    HEXLOWER.decode(withheld.leaf.as_bytes()).ok().filter(|_| is_own)?.try_into().ok()
}

fn is_noted(it: &NotedManifest, tree: &Tree) -> Result<(), String> {
    if it.jobs == tree.size() && it.root == HEXLOWER.encode(&tree.root()) {
        return Ok(());
    }
    Err(format!("the {} jobs of the replay {} are not those that the audit trail names", tree.size(), it.replay_id))
}

/// Checks the manifests by the rows of the audit trail.
///
/// Errors: the first mistake, with its line.
pub(super) fn check(folder: &Path, part: &HistoryPart) -> Result<Counts, String> {
    let file = File::open(folder.join(REPLAYS)).map_err(|error| format!("{REPLAYS}: {error}"))?;
    let (mut reader, mut number) = (BufReader::new(file), 0);
    let (replays, mut counts) = (noted(folder, part)?, Counts::default());
    'replays: for it in &replays {
        let (mut tree, first) = (Tree::new(), number + 1);
        while tree.size() < it.jobs {
            number += 1;
            let line = read_line(&mut reader, REPLAYS, number)?;
            let line = line.ok_or_else(|| format!("{REPLAYS}: jobs of the replay {} are missing", it.replay_id))?;
            if number == first && line == dropped(&it.replay_id)? {
                counts.dropped += 1;
                continue 'replays;
            }
            counts.withheld += u64::from(serde_json::from_str::<Withheld>(&line).is_ok());
            let leaf = read_leaf(&it.replay_id, &line);
            let id = &it.replay_id;
            tree.push(
                leaf.ok_or_else(|| format!("{REPLAYS}: line {number} is no job of the replay {id}, or was changed"))?,
            );
        }
        is_noted(it, &tree).map_err(|error| format!("{REPLAYS}: lines {first} to {number}: {error}"))?;
        counts.whole += 1;
    }
    if read_line(&mut reader, REPLAYS, number + 1)?.is_some() {
        return Err(format!("{REPLAYS}: line {} and those behind it were added", number + 1));
    }
    Ok(counts)
}
