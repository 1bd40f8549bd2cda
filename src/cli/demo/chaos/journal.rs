//! What the journal says, and the ways in which the plan destroys it.
//!
//! Before a journal is destroyed, its rows are read from a copy, so that what was journalled is judged all the same.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::Method;
use smallvec::SmallVec;

use super::case::Row;
use super::rows;
use super::sidecar::Start;
use crate::api::outcome_row;
use crate::base::{Clock, Draw, RegionId};
use crate::cli::client::ask;
use crate::cli::demo::stage::IDS;
use crate::config;
use crate::journal::Journal;
use crate::outcome::Placement;
use crate::telemetry::Metrics;

/// More rows than a run has unknown outcomes.
pub(super) const ROWS_MAX: usize = 1_000_000;

/// Rows of one answer.
const PAGE: usize = 1_000;

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
    /// Its disk has become full: what is on it can be read.
    FilledDisk,
    /// SIGTERM instead of a kill.
    Terminated,
    /// The next process has hardly more descriptors than clients.
    FewDescriptors,
    /// The process goes on, with a changed configuration.
    Reloaded,
    /// The process goes on, with other certificates on both sides.
    Rotated,
}

impl Breakage {
    /// Every way to destroy it.
    pub(super) const ALL: [Self; 4] = [Self::TornTail, Self::FullDisk, Self::ReadOnly, Self::Corrupt];
    /// What else can be done to a process.
    pub(super) const HOSTILE: [Self; 5] =
        [Self::FilledDisk, Self::Terminated, Self::FewDescriptors, Self::Reloaded, Self::Rotated];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "kill -9",
            Self::TornTail => "kill -9, the journal's tail torn off",
            Self::FullDisk => "kill -9, then a full disk",
            Self::ReadOnly => "kill -9, then a folder that cannot be written",
            Self::Corrupt => "kill -9, the journal's file overwritten",
            Self::FilledDisk => "kill -9, the journal's own disk full",
            Self::Terminated => "SIGTERM",
            Self::FewDescriptors => "kill -9, then few descriptors",
            Self::Reloaded => "another configuration",
            Self::Rotated => "other certificates",
        }
    }

    /// Whether the next process journals in memory only.
    pub(super) const fn is_in_memory(self) -> bool {
        matches!(self, Self::FullDisk | Self::ReadOnly | Self::FilledDisk)
    }

    /// Whether the next process finds less than what was written.
    pub(super) const fn forgets(self) -> bool {
        matches!(self, Self::TornTail | Self::FullDisk | Self::ReadOnly | Self::Corrupt)
    }

    /// Whether the process goes on.
    pub(super) const fn goes_on(self) -> bool {
        matches!(self, Self::Reloaded | Self::Rotated)
    }

    /// What the next process must log.
    pub(super) const fn words(self) -> &'static str {
        match self {
            // SQLite leaves a torn tail out by itself: what is there is whole.
            Self::None | Self::TornTail | Self::Terminated | Self::FewDescriptors => "the journal is in its file",
            Self::FullDisk | Self::ReadOnly => "the journal's file cannot be used; routing goes on",
            Self::Corrupt => "was moved aside",
            // Whether it reads what is there or not, it says that it cannot write.
            Self::FilledDisk => "ojs.federation.journal",
            Self::Reloaded => "ojs.federation.configuration_reloaded",
            Self::Rotated => "ojs.federation.identity_reloaded",
        }
    }

    /// Does it, and says how the next process is to be started.
    ///
    /// Errors: the file system's.
    pub(super) fn inflict(self, journal: &Path, start: &Start, draw: &mut Draw) -> std::io::Result<Start> {
        let mut start = start.clone();
        match self {
            Self::None | Self::Terminated | Self::Reloaded | Self::Rotated => {}
            Self::FewDescriptors => start.under = under_shell("ulimit -n 160; exec \"$0\" \"$@\""),
            Self::FilledDisk => {
                let disk = beside(journal, "-filled");
                fs::create_dir_all(&disk)?;
                let moved = filled_disk(journal, &disk);
                start.journal = moved.is_some().then(|| disk.join("journal"));
                start.under = moved.unwrap_or_else(|| under_shell(LITTLE_FILES));
            }
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

/// No file gets longer than a few pages, and whoever tries is told so and not killed.
const LITTLE_FILES: &str = "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"";

fn under_shell(script: &str) -> Vec<String> {
    ["env", "--", "sh", "-c", script].map(str::to_owned).to_vec()
}

/// A command line that runs the rest of it in a file system of its own, which `script` makes; none where the system does not let us.
fn own_mount(script: &str) -> Option<Vec<String>> {
    let try_it = std::process::Command::new("unshare").args(["-Urm", "sh", "-c", script]).output();
    let line = format!("{script} && exec \"$0\" \"$@\"");
    try_it
        .is_ok_and(|it| it.status.success())
        .then(|| ["unshare", "-Urm", "sh", "-c", &line].map(str::to_owned).to_vec())
}

/// A disk with the journal on it, and no room for anything more.
fn filled_disk(journal: &Path, disk: &Path) -> Option<Vec<String>> {
    let files: Vec<PathBuf> =
        ["", "-wal"].map(|ending| beside(journal, ending)).into_iter().filter(|it| it.exists()).collect();
    let length = |file: &PathBuf| fs::metadata(file).map_or(0, |it| it.len().next_multiple_of(4_096));
    // Not a page more: with one, the journal is opened and written to for a while. No size at all would be no bound.
    let size = files.iter().map(length).sum::<u64>().max(4_096);
    let named: Vec<String> = files.iter().map(|file| format!("'{}'", file.display())).collect();
    let (at, named) = (disk.display(), named.join(" "));
    own_mount(&format!("mount -t tmpfs -o size={size} none '{at}' && cp {named} '{at}'"))
}

/// A command line whose process finds a disk of a few pages at a path: a file system of its own where the system lets us make one,
/// else a limit on the length of files.
fn full_disk(disk: &Path) -> Vec<String> {
    let mount = format!("mount -t tmpfs -o size=16k none '{}'", disk.display());
    own_mount(&mount).unwrap_or_else(|| under_shell(LITTLE_FILES))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The rows of every journal that there was.
#[derive(Debug, Default)]
pub(super) struct Rows {
    by_name: HashMap<String, (u32, SmallVec<[Row; 1]>)>,
    /// How often they were read.
    reads: u32,
    /// Whether the sidecar shows all of them itself, with their copies: then nobody looks into its file.
    pub(super) are_shown: bool,
}

impl Rows {
    /// Reads the journal that no process has now, unless its process has shown it.
    ///
    /// Errors: the file system's.
    pub(super) fn read(&mut self, journal: &Path) -> std::io::Result<()> {
        if self.are_shown {
            return Ok(());
        }
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
        self.reads += 1;
        let read = self.reads;
        self.by_name.extend(of_file(copy).map(|(name, rows)| (name, (read, rows))));
        Ok(())
    }

    /// Asks a process for all that it shows.
    pub(super) async fn ask(&mut self, sidecar: SocketAddr) {
        let mut cursor = String::new();
        let read = self.reads + 1;
        // A bound, should a cursor lead round in a circle.
        for _ in 0..=ROWS_MAX / PAGE {
            let path = format!("/v1/federation/outcomes?limit={PAGE}{cursor}");
            let Ok((_, body)) = ask(&sidecar.to_string(), Method::GET, &path, Bytes::new()).await else { return };
            let Some(page) = rows::Page::of(&body) else { return };
            if !page.has_copies {
                return;
            }
            (self.are_shown, self.reads) = (true, read);
            self.by_name.extend(page.rows.into_iter().map(|(name, rows)| (name, (read, rows))));
            let Some(next) = page.next else { return };
            cursor = format!("&cursor={next}");
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = Row> {
        let kept = |(read, rows): &(u32, SmallVec<[Row; 1]>)| {
            let kept = *read == self.reads;
            rows.clone().into_iter().map(move |row| Row { kept, ..row })
        };
        self.by_name.values().flat_map(kept)
    }
}

/// The rows in a journal's file, as the API shows them: the only look into it.
fn of_file(journal: PathBuf) -> impl Iterator<Item = (String, SmallVec<[Row; 1]>)> {
    let config = config::Journal { path: Some(journal), required: false, rows_max: ROWS_MAX };
    let regions: Vec<RegionId> = IDS.iter().filter_map(|id| RegionId::parse(id).ok()).collect();
    let store = Journal::open(&config, Clock::system(), Metrics::new(&regions, &["enqueue"]));
    let placements = store.placements(ROWS_MAX, Placement::has_traces);
    placements.into_iter().map(move |it| rows::of(&outcome_row(&store, &it)))
}
