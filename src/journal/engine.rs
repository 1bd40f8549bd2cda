//! Where rows are kept beside memory: the seam on which every kind of row stands.

use rusqlite::{Connection, ErrorCode};

use super::change::Change;

/// Why rows cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The file exists and is no journal.
    Corrupt,
    /// A version of this program has written it that is too old.
    Older,
    /// Anything else, by a closed word.
    Unusable(&'static str),
}

impl Trouble {
    pub(super) const HELD: Self = Self::Unusable("held_by_another_process");
    pub(super) const FULL: Self = Self::Unusable("disk_full");

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Corrupt => "corrupt",
            Self::Older => "older",
            Self::Unusable(why) => why,
        }
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        let Some(code) = error.sqlite_error_code() else { return Self::Corrupt };
        match code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::HELD,
            ErrorCode::DiskFull => Self::FULL,
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Self::Unusable("read_only"),
            ErrorCode::CannotOpen => Self::Unusable("cannot_open"),
            ErrorCode::SystemIoFailure => Self::Unusable("io_error"),
            ErrorCode::OutOfMemory => Self::Unusable("out_of_memory"),
            _ => Self::Unusable("sqlite_error"),
        }
    }
}

/// The storage of records, owned by one thread. Any error may have left it unusable: the caller then opens another
/// engine.
pub(super) trait Engine: Send {
    /// Everything that is kept.
    fn load(&mut self) -> Result<Vec<Change>, Trouble>;
    /// Whether records will be kept from now on: found out by writing one.
    fn health(&mut self) -> Result<(), Trouble>;
    /// Keeps changes, all or none, and returns when they are safe.
    fn append(&mut self, changes: &[&Change]) -> Result<(), Trouble>;
    /// Puts these rows in the place of all others.
    fn compact(&mut self, all: &[Change]) -> Result<(), Trouble>;
    /// For rows that are never loaded, and have tables of their own; none where there are no tables.
    fn tables(&mut self) -> Option<&mut Connection>;
}

/// Keeps nothing beside memory, for this reason.
#[derive(Debug)]
pub(super) struct Memory(pub(super) Trouble);

impl Engine for Memory {
    fn load(&mut self) -> Result<Vec<Change>, Trouble> {
        Ok(Vec::new())
    }

    fn health(&mut self) -> Result<(), Trouble> {
        Err(self.0)
    }

    fn append(&mut self, _: &[&Change]) -> Result<(), Trouble> {
        Err(self.0)
    }

    fn compact(&mut self, _: &[Change]) -> Result<(), Trouble> {
        Err(self.0)
    }

    fn tables(&mut self) -> Option<&mut Connection> {
        None
    }
}
