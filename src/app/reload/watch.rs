//! When to look: something moved in a watched folder, a SIGHUP came, or it is time again.
//!
//! Folders are watched, not files: editors and Kubernetes replace a file by renaming another one, or the folder that it is
//! in, over it. What was moved does not matter, because every look compares contents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::base::Clock;

/// Files that change together are written one after the other: looked at when this much time has passed in silence.
const SETTLE: Duration = Duration::from_millis(200);
/// Folders that never settle are looked at nevertheless after so many further changes.
const SETTLE_CHANGES_MAX: usize = 50;
/// Where watching fails, as on some network file systems and for `subPath` mounts, this is how long a change waits.
const SLOW_POLL: Duration = Duration::from_secs(60);

pub(super) struct Watch {
    clock: Clock,
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    changes: mpsc::Receiver<()>,
    hangup: Option<Signal>,
}

impl Watch {
    pub(super) fn new(clock: Clock) -> Self {
        // One waiting change says as much as many.
        let (tell, changes) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading of the files must not be taken for a change of them. What failed may have been one.
            let is_reading = event.is_ok_and(|event| {
                matches!(
                    event.kind,
                    EventKind::Access(AccessKind::Open(_) | AccessKind::Read | AccessKind::Close(AccessMode::Read))
                )
            });
            if !is_reading {
                // A full channel says already that something changed.
                let _ = tell.try_send(());
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(target: "ojs_federation", %error, "files cannot be watched; they are looked at every minute");
        }
        let hangup = signal(SignalKind::hangup()).ok();
        Self { clock, watcher: watcher.ok(), folders: BTreeSet::new(), changes, hangup }
    }

    /// Resolves when the files may have changed.
    pub(super) async fn wait(&mut self, files: &[PathBuf]) {
        self.watch(files);
        tokio::select! {
            Some(()) = self.changes.recv() => self.settle().await,
            () = hung_up(&mut self.hangup) => {}
            () = self.clock.sleep(SLOW_POLL) => {}
        }
    }

    /// Waits for the end of a run of changes: the last one counts.
    async fn settle(&mut self) {
        for _ in 0..SETTLE_CHANGES_MAX {
            match tokio::time::timeout(SETTLE, self.changes.recv()).await {
                Ok(Some(())) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn watch(&mut self, files: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else { return };
        let folders: BTreeSet<PathBuf> = files.iter().filter_map(|file| folder_of(file)).collect();
        for folder in folders.difference(&self.folders) {
            // A folder that cannot be watched is still looked at by the slow poll.
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                tracing::debug!(target: "ojs_federation", %error, "a folder cannot be watched");
            }
        }
        for folder in self.folders.difference(&folders) {
            // One that is gone needs no unwatching.
            let _ = watcher.unwatch(folder);
        }
        self.folders = folders;
    }
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
