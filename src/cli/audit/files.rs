//! The files of a bundle, and the manifest that lists them.

use std::fs::{self, File};
use std::io::{BufRead, Read as _};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

pub(super) const ROWS: &str = "audit.jsonl";
pub(super) const HEAD: &str = "signatures/audit-head.dsse.json";
pub(super) const HISTORY: &str = "history.jsonl";
pub(super) const DIGESTS: &str = "history.sha256";
pub(super) const JOBS: &str = "jobs.jsonl";
pub(super) const THROTTLES: &str = "throttles.jsonl";
pub(super) const REPLAYS: &str = "replays.jsonl";
pub(super) const SIGNATURES: &str = "signatures";
pub(super) const MANIFEST: &str = "manifest.json";
/// The longest line: some ten texts, each of at most a few hundred bytes, of which each letter may be written as six. Units: bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// A longer head or key is none. Units: bytes.
const SMALL_BYTES_MAX: u64 = 64 * 1024;
/// A longer manifest is none: it has two lines for each day of ten years. Units: bytes.
const MANIFEST_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The list of files, and the part of the ledger that they have.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// The version of the shape of bundles: 1 without a history, 2 with one, 3 with replays, too.
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<HistoryPart>,
    files: Vec<Listed>,
}

/// The days of the ledger in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryPart {
    /// The first day, as `2026-03-15`.
    pub(super) from: String,
    /// The last day.
    pub(super) to: String,
    /// The tenant whose records are in full; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
    /// The days with records, in order.
    pub(super) days: Vec<DayPart>,
    /// The jobs of the records that are in full.
    pub(super) jobs: u64,
    /// The replays that have ended on these days; none in bundles of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replays: Option<u64>,
}

/// One day of the ledger in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DayPart {
    pub(super) day: String,
    pub(super) records: u64,
    /// Those of which the bundle has the digest only.
    pub(super) withheld: u64,
}

impl DayPart {
    /// The file of the signed head.
    pub(super) fn head(&self) -> String {
        format!("{SIGNATURES}/ledger-{}.dsse.json", self.day)
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    name: String,
    bytes: u64,
    sha256: String,
}

impl Manifest {
    /// The manifest of the files that are there.
    pub(super) fn of(folder: &Path, history: Option<HistoryPart>) -> Result<Self, String> {
        let mut names = vec![ROWS.to_owned(), HEAD.to_owned()];
        if let Some(part) = &history {
            names.extend([HISTORY, DIGESTS, JOBS, THROTTLES].map(str::to_owned));
            names.extend(part.replays.map(|_| REPLAYS.to_owned()));
            names.extend(part.days.iter().map(DayPart::head));
        }
        let files = names.into_iter().map(|name| listed(folder, name)).collect::<Result<_, _>>()?;
        Ok(Self { version: version_of(history.as_ref()), history, files })
    }

    /// Reads the manifest of a bundle.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let content = at_most(&folder.join(MANIFEST), MANIFEST_BYTES_MAX)?;
        let manifest: Self = serde_json::from_slice(&content)
            .map_err(|error| format!("{MANIFEST}: expected the list of files of a bundle: {error}"))?;
        let expected = version_of(manifest.history.as_ref());
        if manifest.version != expected {
            return Err(format!(
                "{MANIFEST}: expected version {expected}; a later version of the program wrote this bundle"
            ));
        }
        Ok(manifest)
    }

    /// Checks that the files are those of the manifest, and no others.
    pub(super) fn check(&self, folder: &Path) -> Result<(), String> {
        let found = Self::of(folder, self.history.clone())?;
        if let Some(file) = found.files.iter().find(|it| !self.files.contains(it)) {
            return Err(format!("{}: its bytes are not those of the manifest", file.name));
        }
        if *self != found {
            return Err(format!("{MANIFEST}: it lists further files, or some twice"));
        }
        let is_own =
            |name: &str| [MANIFEST, SIGNATURES].contains(&name) || found.files.iter().any(|it| it.name == name);
        for inside in ["", SIGNATURES] {
            let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
            for entry in fs::read_dir(folder.join(inside)).map_err(cannot)? {
                let name = entry.map_err(cannot)?.file_name().to_string_lossy().into_owned();
                let name = if inside.is_empty() { name } else { format!("{inside}/{name}") };
                if !is_own(&name) {
                    return Err(format!("{name}: the bundle was made without this file"));
                }
            }
        }
        Ok(())
    }
}

fn version_of(history: Option<&HistoryPart>) -> u32 {
    match history {
        None => 1,
        Some(part) if part.replays.is_none() => 2,
        Some(_) => 3,
    }
}

/// Writes a file of one line.
pub(super) fn write(path: &Path, content: &str) -> Result<(), String> {
    fs::write(path, format!("{content}\n")).map_err(|error| format!("{}: {error}", path.display()))
}

/// A file of a bundle, as a manifest lists it.
fn listed(folder: &Path, name: String) -> Result<Listed, String> {
    let cannot = |error: std::io::Error| format!("{name}: {error}");
    let mut file = File::open(folder.join(&name)).map_err(cannot)?;
    let (mut context, mut part, mut bytes) = (Context::new(&SHA256), vec![0; 64 * 1024], 0);
    loop {
        let length = file.read(&mut part).map_err(cannot)?;
        if length == 0 {
            break;
        }
        context.update(&part[..length]);
        bytes += length as u64;
    }
    Ok(Listed { bytes, sha256: HEXLOWER.encode(context.finish().as_ref()), name })
}

/// Line `number` of a file, counted from 1, without its end; `None` behind the last one.
pub(super) fn read_line(reader: &mut impl BufRead, file: &str, number: u64) -> Result<Option<String>, String> {
    let wrong = |cause: &str| format!("{file}: line {number} {cause}");
    let mut line = Vec::new();
    reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(|error| wrong(&error.to_string()))?;
    match line.pop() {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(wrong(&format!("has no end, or is longer than {LINE_BYTES_MAX} bytes"))),
    }
    let line = String::from_utf8(line).map_err(|_| wrong("is not UTF-8"))?;
    if line.trim().is_empty() {
        return Err(wrong("is empty"));
    }
    Ok(Some(line))
}

/// The content of a head or a key.
pub(super) fn small(path: &Path) -> Result<Vec<u8>, String> {
    at_most(path, SMALL_BYTES_MAX)
}

fn at_most(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut content = Vec::new();
    let length = File::open(path).map_err(cannot)?.take(bytes_max + 1).read_to_end(&mut content);
    if length.map_err(cannot)? as u64 > bytes_max {
        return Err(format!("{}: expected at most {bytes_max} bytes", path.display()));
    }
    Ok(content)
}
