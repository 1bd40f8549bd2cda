//! Restarts, and the ways in which the plan destroys a journal.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ojs_handles::Draw;

use super::sidecar::Start;

/// A restart, and the change to the journal while no process has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breakage {
    /// Nothing.
    None,
    /// The last bytes of the write-ahead log are missing.
    TornTail,
    /// Not a page fits on its disk.
    FullDisk,
    /// Its folder is not writable.
    ReadOnly,
    /// Its file is full of something else.
    Corrupt,
    /// Its disk has become full: its content can be read.
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
    /// Other things that happen to a process.
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

    /// Whether the next process finds less than was written.
    pub(super) const fn forgets(self) -> bool {
        matches!(self, Self::TornTail | Self::FullDisk | Self::ReadOnly | Self::Corrupt)
    }

    /// Whether the process goes on.
    pub(super) const fn goes_on(self) -> bool {
        matches!(self, Self::Reloaded | Self::Rotated)
    }

    /// The words that the next process must log.
    pub(super) const fn words(self) -> &'static str {
        match self {
            // SQLite leaves a torn tail out by itself: the rest is whole.
            Self::None | Self::TornTail | Self::Terminated | Self::FewDescriptors => "the journal is in its file",
            Self::FullDisk | Self::ReadOnly => "the journal's file cannot be used; routing goes on",
            Self::Corrupt => "was moved aside",
            // Whether or not it can read the content, it logs that it cannot write.
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
            // No user can make a file there, not even root.
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

/// No file gets longer than a few pages, and a write beyond fails instead of killing the process.
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

/// A command line whose process finds a disk of a few pages at a path: a file system of its own where the kernel
/// permits one, else a limit on the length of files.
fn full_disk(disk: &Path) -> Vec<String> {
    let mount = format!("mount -t tmpfs -o size=16k none '{}'", disk.display());
    own_mount(&mount).unwrap_or_else(|| under_shell(LITTLE_FILES))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
