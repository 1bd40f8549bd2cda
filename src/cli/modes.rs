//! Other users that may read or write the files that hold secrets.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::config::RegionConfig;

/// Others may read or write it.
const OTHERS: u32 = 0o006;
/// The group may write it; that it may read is how pods get secrets.
const GROUP_WRITES: u32 = 0o020;

/// A sentence for each file with a secret of this region that others may read, or write.
pub(super) fn warnings(region: &RegionConfig) -> Vec<String> {
    let files = [("tls.key", region.tls.key.as_deref()), ("bearer_token_file", region.bearer_token_file.as_deref())];
    files.into_iter().filter_map(|(key, path)| warning(key, path?)).collect()
}

/// A sentence where others may read, or write, the key of the outage spool.
pub(super) fn spool_warning(key_file: Option<&Path>) -> Option<String> {
    warning("spool.key_file", key_file?)
}

fn warning(key: &str, path: &Path) -> Option<String> {
    // A missing file is reported elsewhere.
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & (OTHERS | GROUP_WRITES) != 0)
        .then(|| format!("{key}: others may read or change the file (mode {mode:04o}); make it 0640 or 0600"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_others_may_read_or_change_is_reported() {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("key.pem");
        std::fs::write(&path, "x").unwrap();
        for (mode, told) in
            [(0o600, false), (0o400, false), (0o640, false), (0o644, true), (0o660, true), (0o666, true)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(warning("tls.key", &path).is_some(), told, "{mode:o}");
        }
        assert_eq!(warning("tls.key", &files.path().join("none")), None);
    }
}
