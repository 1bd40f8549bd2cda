//! The content of a record at the start of its hub, and its errors.

use std::time::Duration;

use super::super::audit::Head;
use crate::switch::Switches;

/// How long a reader waits for the disk, and after which a hub whose disk does not answer is not ready.
pub(in crate::hub) const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Why the record cannot be used, or a change was not kept.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be used, by SQLite's word.
    #[error("record.path: the file cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file belongs to something else.
    #[error("record.path: the file is not the record of a hub")]
    Foreign,
    /// A later version of the program has written the file.
    #[error(
        "record.path: a later version of this program has written the file; run that version, or name another file"
    )]
    Later,
    /// The thread of the record did not start.
    #[error("the thread of the record did not start: {0}")]
    Thread(std::io::Error),
    /// The disk does not keep up.
    #[error("too many changes wait for the disk; send the request again later")]
    Busy,
    /// The disk does not answer.
    #[error("the disk of the record did not answer within {} s", ANSWER_WAIT.as_secs())]
    Slow,
    /// The thread of the record has ended, which is a defect.
    #[error("the thread of the record has ended; restart the hub")]
    Ended,
}

/// The content of a record at the start of its hub.
#[derive(Debug, Default)]
pub(in crate::hub) struct Loaded {
    /// The number of the last change.
    pub(in crate::hub) change: u64,
    pub(in crate::hub) switches: Switches,
    pub(in crate::hub) head: Head,
    pub(in crate::hub) sidecars: Vec<SavedSidecar>,
}

/// A sidecar as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedSidecar {
    pub(in crate::hub) name: String,
    /// The name in its certificate.
    pub(in crate::hub) caller: String,
    /// Its last status, as JSON.
    pub(in crate::hub) status: String,
    /// When that came. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) seen_unix_ms: u64,
}
