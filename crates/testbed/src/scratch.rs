//! Folders for throw-away files.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Makes a folder below `folder` that only this user can read; the caller removes it.
///
/// Errors: the file system's.
pub fn scratch_in(folder: &Path) -> std::io::Result<PathBuf> {
    let path = folder.join(format!("ojs-sidecar-demo-{}", uuid::Uuid::now_v7()));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}
