//! When to look: something moved in a watched folder, a SIGHUP came, or it is time again.
//!
//! Folders are watched, not files: editors and Kubernetes replace a file by renaming another one, or its folder, over
//! it. Every look compares contents, so that the kind of a change does not matter. Only writes into other files are
//! ignored: a journal or a log may lie beside the configuration, and is written all the time.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::base::Clock;

/// Files that change together are written one after the other: looked at when this much time has passed in silence.
const SETTLE: Duration = Duration::from_millis(200);
/// Folders that never settle are looked at nevertheless after so many times that.
const SETTLE_TURNS_MAX: usize = 10;
/// Where watching fails, as on some network file systems and for `subPath` mounts, this is how long a change waits.
const SLOW_POLL: Duration = Duration::from_secs(60);

/// Names of files, whichever folder they are in.
type Names = BTreeSet<OsString>;

pub(in crate::app) struct Watch {
    clock: Clock,
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    /// The names of the files and of their link targets; `None` where any file may matter.
    names: Arc<Mutex<Option<Names>>>,
    changes: mpsc::Receiver<()>,
    hangup: Option<Signal>,
}

impl Watch {
    pub(in crate::app) fn new(clock: Clock) -> Self {
        // One waiting change says as much as many.
        let (tell, changes) = mpsc::channel(1);
        let names = Arc::new(Mutex::new(None::<Names>));
        let ours = Arc::clone(&names);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error may hide a change.
            if event.is_ok_and(|event| !matters(&event, ours.lock().as_ref())) {
                return;
            }
            // A full channel says already that something changed.
            let _ = tell.try_send(());
        });
        if let Err(error) = &watcher {
            tracing::warn!(target: "ojs_federation", %error, "files cannot be watched; they are looked at every minute");
        }
        let hangup = signal(SignalKind::hangup()).ok();
        Self { clock, watcher: watcher.ok(), folders: BTreeSet::new(), names, changes, hangup }
    }

    /// Resolves when the files may have changed. Where a configuration was refused (`in_force` is false), a file that
    /// only the refused one names may mend it, so that every write counts.
    pub(in crate::app) async fn wait(&mut self, files: &[PathBuf], in_force: bool) {
        if self.watch(files, in_force) {
            return;
        }
        tokio::select! {
            Some(()) = self.changes.recv() => self.settle().await,
            () = hung_up(&mut self.hangup) => {}
            () = self.clock.sleep(SLOW_POLL) => {}
        }
    }

    /// Waits until a run of changes is over: the last one counts. A SIGHUP ends it.
    async fn settle(&mut self) {
        let Self { changes, hangup, .. } = self;
        let pause = async || {
            tokio::select! {
                () = tokio::time::sleep(SETTLE) => true,
                () = hung_up(hangup) => false,
            }
        };
        settled(changes, pause).await;
    }

    /// Watches the folders of these files; returns whether a change of other files mattered until now, so that one of these may have
    /// been missed.
    fn watch(&mut self, files: &[PathBuf], in_force: bool) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let names = in_force.then(|| files.iter().flat_map(|file| names_of(file)).collect());
        let before = std::mem::replace(&mut *self.names.lock(), names.clone());
        let folders: BTreeSet<PathBuf> = files.iter().filter_map(|file| folder_of(file)).collect();
        for folder in folders.difference(&self.folders) {
            // A folder that cannot be watched is still looked at by the slow poll.
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                tracing::debug!(target: "ojs_federation", %error, "a folder cannot be watched");
            }
        }
        for folder in self.folders.difference(&folders) {
            // A removed folder needs no unwatching.
            let _ = watcher.unwatch(folder);
        }
        self.folders = folders;
        before != names
    }
}

/// Waits for a pause without a change, for so many pauses at most; one that says no is the last.
async fn settled(changes: &mut mpsc::Receiver<()>, mut pause: impl AsyncFnMut() -> bool) {
    for _ in 0..SETTLE_TURNS_MAX {
        if !pause().await || changes.try_recv().is_err() {
            return;
        }
    }
}

/// Whether a file of these names, or any file where there are none, may have changed by this.
fn matters(event: &Event, names: Option<&Names>) -> bool {
    match event.kind {
        // Our own reading of the files must not be taken for a change of them.
        EventKind::Access(AccessKind::Open(_) | AccessKind::Read | AccessKind::Close(AccessMode::Read)) => false,
        EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) | EventKind::Access(_) => {
            // A change without a file name may be one of ours.
            let is_ours = |path: &PathBuf| path.file_name().zip(names).is_none_or(|(name, names)| names.contains(name));
            event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(is_ours)
        }
        // A moved file may replace ours, or the target of a link of ours.
        _ => true,
    }
}

/// The name of a file, and the name of its target where it is a link.
fn names_of(file: &Path) -> impl Iterator<Item = OsString> + use<> {
    let target = std::fs::canonicalize(file).ok();
    let names = [Some(file), target.as_deref()].map(|path| path?.file_name().map(OsString::from));
    names.into_iter().flatten()
}

fn folder_of(file: &Path) -> Option<PathBuf> {
    let folder = file.parent()?;
    Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
}

async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        Some(hangup) => drop(hangup.recv().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::sync::mpsc;

    use super::*;

    /// Does something in a folder that holds `config.yaml`, a link `link.yaml` to `target.yaml`, and `journal`; says whether any of
    /// what the system tells of it matters.
    fn matters_when(work: impl FnOnce(&Path)) -> bool {
        matters_to(true, work)
    }

    fn matters_to(in_force: bool, work: impl FnOnce(&Path)) -> bool {
        const LAST: &str = "last";
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["config.yaml", "target.yaml", "journal"] {
            fs::write(path(name), "before").unwrap();
        }
        std::os::unix::fs::symlink("target.yaml", path("link.yaml")).unwrap();
        let names: Names = ["config.yaml", "link.yaml"].iter().flat_map(|name| names_of(&path(name))).collect();
        let names = in_force.then_some(names);
        let (tell, told) = mpsc::channel();
        let mut watcher = notify::recommended_watcher(move |event| tell.send(event).unwrap_or_default()).unwrap();
        watcher.watch(folder.path(), RecursiveMode::NonRecursive).unwrap();
        work(folder.path());
        fs::write(path(LAST), "").unwrap();
        // They come in the order in which they happened.
        let events = told.iter().map(Result::unwrap);
        let mut before = events.take_while(|event: &Event| !event.paths.iter().any(|path| path.ends_with(LAST)));
        before.any(|event| matters(&event, names.as_ref()))
    }

    fn append(file: &Path) {
        fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b" and after").unwrap();
    }

    #[test]
    fn whatever_may_change_our_files_is_looked_at() {
        assert!(matters_when(|folder| append(&folder.join("config.yaml"))));
        assert!(matters_when(|folder| append(&folder.join("target.yaml"))), "our file is a link to it");
        assert!(matters_when(|folder| fs::rename(folder.join("journal"), folder.join("config.yaml")).unwrap()));
        assert!(matters_when(|folder| fs::rename(folder.join("journal"), folder.join("target.yaml")).unwrap()));
        assert!(matters_when(|folder| fs::remove_file(folder.join("config.yaml")).unwrap()));
        assert!(matters_when(|folder| fs::create_dir(folder.join("..data_tmp")).unwrap()), "as Kubernetes does");
        assert!(
            matters_to(false, |folder| append(&folder.join("journal"))),
            "it may be a refused configuration's file"
        );
    }

    #[test]
    fn what_is_written_into_a_neighbours_file_or_read_is_not() {
        assert!(!matters_when(|folder| append(&folder.join("journal"))));
        assert!(!matters_when(|folder| drop(fs::read(folder.join("config.yaml")).unwrap())));
    }

    #[tokio::test]
    async fn files_that_matter_from_now_on_are_looked_at_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let mut watch = Watch::new(Clock::system());
        let mut changed = |files: &[PathBuf], in_force| watch.watch(files, in_force);
        assert!(changed(std::slice::from_ref(&first), true), "what happened before was not seen");
        assert!(!changed(std::slice::from_ref(&first), true));
        assert!(changed(&[first.clone(), second], true));
        assert!(changed(std::slice::from_ref(&first), false));
        assert!(!changed(std::slice::from_ref(&first), false));
    }

    #[tokio::test]
    async fn a_run_of_changes_is_over_after_a_pause_without_one_and_at_the_latest_after_ten() {
        for (busy, hung_up_in, expected) in [(0, 99, 1), (3, 99, 4), (usize::MAX, 99, 10), (usize::MAX, 2, 2)] {
            let (tell, mut changes) = tokio::sync::mpsc::channel(1);
            let mut pauses = 0;
            let pause = async || {
                pauses += 1;
                if pauses <= busy {
                    tell.try_send(()).unwrap();
                }
                pauses < hung_up_in
            };
            settled(&mut changes, pause).await;
            assert_eq!(pauses, expected);
        }
    }
}
