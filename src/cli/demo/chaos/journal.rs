//! What the journal says, and the ways in which the plan destroys it.
//!
//! Before a journal is destroyed, its rows are read from a copy, so that what was journalled is judged all the same.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::judge::Row;
use super::ledger::{Mark, call_of, id_of};
use super::sidecar::Start;
use crate::base::{Clock, Draw, RegionId};
use crate::cli::demo::stage::IDS;
use crate::config;
use crate::journal::{Journal, Unknown};
use crate::telemetry::Metrics;

/// More rows than a run has unknown outcomes.
pub(super) const ROWS_MAX: usize = 1_000_000;

/// A restart, and what is done to the journal while no process has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breakage {
    /// Nothing.
    None,
    /// The last bytes of the write-ahead log are missing.
    TornTail,
    /// Not a page fits on its disk.
    FullDisk,
    /// Nobody may write into its folder.
    ReadOnly,
    /// Its file is full of something else.
    Corrupt,
}

impl Breakage {
    /// Every way to destroy it.
    pub(super) const ALL: [Self; 4] = [Self::TornTail, Self::FullDisk, Self::ReadOnly, Self::Corrupt];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "kill -9",
            Self::TornTail => "kill -9, the journal's tail torn off",
            Self::FullDisk => "kill -9, then a full disk",
            Self::ReadOnly => "kill -9, then a folder that cannot be written",
            Self::Corrupt => "kill -9, the journal's file overwritten",
        }
    }

    /// Whether the next process journals in memory only.
    pub(super) const fn is_in_memory(self) -> bool {
        matches!(self, Self::FullDisk | Self::ReadOnly)
    }

    /// Whether the next process finds less than what was written.
    pub(super) const fn forgets(self) -> bool {
        !matches!(self, Self::None)
    }

    /// What the next process must log.
    pub(super) const fn words(self) -> &'static str {
        match self {
            // SQLite leaves a torn tail out by itself: what is there is whole.
            Self::None | Self::TornTail => "the journal is in its file",
            Self::FullDisk | Self::ReadOnly => "the journal's file cannot be used; routing goes on",
            Self::Corrupt => "was moved aside",
        }
    }

    /// Does it, and says how the next process is to be started.
    ///
    /// Errors: the file system's.
    pub(super) fn inflict(self, journal: &Path, start: &Start, draw: &mut Draw) -> std::io::Result<Start> {
        let mut start = start.clone();
        match self {
            Self::None => {}
            Self::TornTail => {
                let log = beside(journal, "-wal");
                let length = fs::metadata(&log).map_or(0, |it| it.len());
                if length > 0 {
                    let torn = 1 + draw.below(length.min(6_000));
                    fs::OpenOptions::new().write(true).open(&log)?.set_len(length - torn)?;
                }
            }
            Self::FullDisk => {
                let disk = beside(journal, "-full");
                fs::create_dir_all(&disk)?;
                (start.under, start.journal) = (full_disk(&disk), Some(disk.join("journal")));
            }
            // Nobody can make a file there, not even who may do everything.
            Self::ReadOnly => start.journal = Some(PathBuf::from("/proc/ojs-sidecar-journal")),
            Self::Corrupt => {
                for ending in ["", "-wal"] {
                    fs::File::create(beside(journal, ending))?.write_all(&[b'#'; 8192])?;
                }
            }
        }
        Ok(start)
    }
}

/// A command line whose process finds a disk of a few pages at a path: a file system of its own where the system lets us make one,
/// else a limit on the length of files.
fn full_disk(disk: &Path) -> Vec<String> {
    let mount = format!("mount -t tmpfs -o size=16k none '{}'", disk.display());
    let try_it = std::process::Command::new("unshare").args(["-Urm", "sh", "-c", &mount]).output();
    let own_mount = format!("{mount} && exec \"$0\" \"$@\"");
    let line: [&str; 5] = match try_it.is_ok_and(|it| it.status.success()) {
        true => ["unshare", "-Urm", "sh", "-c", &own_mount],
        false => ["env", "--", "sh", "-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""],
    };
    line.map(str::to_owned).to_vec()
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The rows of every journal that there was, by the first job of their call.
#[derive(Debug, Default)]
pub(super) struct Rows {
    by_number: HashMap<(u64, String), (u32, Unknown)>,
    /// How often a journal was read.
    reads: u32,
}

impl Rows {
    /// Reads the journal that no process has now.
    ///
    /// Errors: the file system's.
    pub(super) fn read(&mut self, journal: &Path) -> std::io::Result<()> {
        let copy = beside(journal, "-copy");
        for ending in ["", "-wal"] {
            let (from, to) = (beside(journal, ending), beside(&copy, ending));
            // Left over from the last time, it would belong to another file.
            if to.exists() {
                fs::remove_file(&to)?;
            }
            if from.exists() {
                fs::copy(from, to)?;
            }
        }
        let config = config::Journal { path: Some(copy), rows_max: ROWS_MAX };
        let regions: Vec<RegionId> = IDS.iter().filter_map(|id| RegionId::parse(id).ok()).collect();
        let store = Journal::open(&config, Clock::system(), Metrics::new(&regions, &["enqueue"]));
        self.reads += 1;
        let reads = self.reads;
        let rows = store.unknowns(ROWS_MAX, |_| true).into_iter();
        self.by_number.extend(rows.map(|it| ((it.number, it.request_id.clone()), (reads, it))));
        Ok(())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// All of them, by the first job of their call.
    pub(super) fn by_call(&self) -> HashMap<Mark, Vec<Row>> {
        let mut rows: HashMap<Mark, Vec<Row>> = HashMap::new();
        for (read, it) in self.by_number.values() {
            let Some((first, send)) = call_of(&it.request_id) else { continue };
            let place = |id: &RegionId| super::place_of(id.as_str());
            rows.entry(first).or_default().push(Row {
                job: it.job_id.as_deref().and_then(id_of),
                region: place(&it.region),
                send,
                at_ms: it.at_ms,
                state: it.state,
                elsewhere: it.elsewhere.as_ref().and_then(|at| Some((place(&at.region), id_of(&at.job_id)?))),
                cancelled_in: it.cancelled_in().map(place),
                resolved_ms: it.resolved_ms,
                kept: *read == self.reads,
            });
        }
        rows
    }
}
