//! Regions by a watched directory with a file each, such as a mounted ConfigMap.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;

use super::{looked::Looked, regular};
use crate::app::reload::watch::Watch;
use crate::base::Clock;
use crate::config::RegionSource;
use crate::region::discovery::{Look, MalformedError, of_file};

/// Files that are read; as many as there may be regions of any kind.
const FILES_MAX: usize = 256;
/// Entries that are looked at: hidden files and others of no interest are a few.
const ENTRIES_MAX: usize = 4 * FILES_MAX;
/// A file is a few lines.
const BYTES_MAX: u64 = 64 * 1024;
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Looks for ever: when something in the directory moves, and every interval.
pub(super) async fn watch(folder: PathBuf, interval: Duration, clock: Clock, tell: mpsc::Sender<Looked>) {
    let mut watch = Watch::new(clock.clone());
    // The folder of the named file is watched, and every file of it.
    let watched = [folder.join("*")];
    loop {
        let ours = folder.clone();
        let looked = tokio::task::spawn_blocking(move || look(&ours)).await;
        let looked = looked.unwrap_or_else(|error| Err(error.to_string()));
        if tell.send((RegionSource::Directory, looked)).await.is_err() {
            return;
        }
        tokio::select! {
            () = watch.wait(&watched, false) => {}
            () = clock.sleep(interval) => {}
        }
    }
}

fn look(folder: &Path) -> Result<Look, String> {
    let unreadable = |error: std::io::Error| format!("the directory cannot be read: {error}");
    let mut files = Vec::new();
    let mut entries = 0;
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        entries += 1;
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_one = path.extension().is_some_and(|ending| ENDINGS.iter().any(|it| ending == *it));
        if is_one && !is_hidden {
            files.push(path);
        }
        if entries > ENTRIES_MAX || files.len() > FILES_MAX {
            return Err("the directory has too many files".to_owned());
        }
    }
    if files.is_empty() {
        return Err("the directory has no file of a region".to_owned());
    }
    files.sort();
    let mut look =
        Look { source: RegionSource::Directory, sightings: Vec::new(), malformed: Vec::new(), is_complete: true };
    for path in files {
        match read(&path).and_then(|text| of_file(&text)) {
            Ok(seen) => look.sightings.push(seen),
            Err(rule) => {
                // It may be one of those in force, half written.
                look.is_complete = false;
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
                look.malformed.push((name.unwrap_or_default(), rule));
            }
        }
    }
    Ok(look)
}

fn read(path: &Path) -> Result<String, MalformedError> {
    let unreadable = |_| MalformedError("the file cannot be read");
    let mut text = String::new();
    let file = regular::open(path).map_err(unreadable)?;
    let bytes = file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if bytes as u64 > BYTES_MAX {
        return Err(MalformedError("the file is longer than 64 KiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_no_file_of_a_region_and_holds_up_none() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("a.yaml");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        std::fs::write(folder.path().join("b.yaml"), "id: b\nurl: https://b.example.com\n").unwrap();
        let look = look(folder.path()).unwrap();
        assert_eq!((look.sightings.len(), look.malformed.len(), look.is_complete), (1, 1, false));
    }
}
