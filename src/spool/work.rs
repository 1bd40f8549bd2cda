//! Work for the thread of the spool, and its answers.

use tokio::sync::oneshot;

use super::row::RowState;
use crate::outcome::Copy;
use crate::replica::Content;
use crate::replica::RowNonce;

/// The end of a change of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is safe.
    Durable,
    /// It never reached the file.
    NotTried,
    /// It may be in the file or not.
    Unknown,
}

/// One piece of work; the changes of one row come in the order in which they were made.
#[derive(Debug)]
pub(super) enum Work {
    Store(u64, Box<(Content, RowNonce)>, oneshot::Sender<Written>),
    Copies(u64, Vec<Copy>, oneshot::Sender<Written>),
    Aside(u64, RowState, String, oneshot::Sender<Written>),
    Retry(u64, oneshot::Sender<Written>),
    Remove(u64, oneshot::Sender<Written>),
    Load(u64, oneshot::Sender<Loaded>),
}

/// The content of a row.
#[derive(Debug)]
pub(super) enum Loaded {
    Content(Content),
    /// It cannot be read, and is set aside.
    Damaged,
    /// There is no such row: a commit of unknown end has removed it.
    Gone,
    /// The file cannot be used now.
    NotNow,
}
