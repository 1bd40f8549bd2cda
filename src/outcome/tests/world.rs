//! What a region does with an id, as far as the machine can tell regions apart.

use super::*;

/// What a region does with an id that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Overwrite,
    Refuse,
}

/// What a region has under an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Entry {
    /// The copy with this stamp.
    Job(u8, Stage),
    /// Whether it is cancelled.
    Tombstone(bool),
}

/// [`Progress`], in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Stage {
    Waiting,
    Started,
    Ended,
    Cancelled,
    Stopped,
}

impl Stage {
    const fn progress(self) -> Progress {
        match self {
            Self::Waiting => Progress::Waiting,
            Self::Started => Progress::Started,
            Self::Ended => Progress::Ended,
            Self::Cancelled => Progress::Cancelled,
            Self::Stopped => Progress::Stopped,
        }
    }
}

/// A write reaches its region: whether that takes it.
pub(super) fn write(kind: Kind, there: Option<Entry>, new: Entry) -> Option<Entry> {
    (there.is_none() || kind == Kind::Overwrite).then_some(new)
}

/// A cancellation reaches its region: what is there then.
pub(super) const fn cancelled(there: Entry) -> Entry {
    match there {
        Entry::Job(stamp, Stage::Waiting) => Entry::Job(stamp, Stage::Cancelled),
        Entry::Job(stamp, Stage::Started) => Entry::Job(stamp, Stage::Stopped),
        Entry::Tombstone(_) => Entry::Tombstone(true),
        Entry::Job(..) => there,
    }
}

/// What is said to who asks for the copy with this stamp.
pub(super) const fn word(there: Option<Entry>, stamp: u8) -> Word {
    match there {
        None => Word::No,
        Some(Entry::Tombstone(cancelled)) => Word::Tombstone(cancelled),
        Some(Entry::Job(its, stage)) if its == stamp => Word::Has(stage.progress()),
        Some(Entry::Job(..)) => Word::Other,
    }
}

/// Whether it is there and a worker had it, has it, or will.
pub(super) const fn counts(there: Entry) -> bool {
    matches!(there, Entry::Job(_, Stage::Waiting | Stage::Started | Stage::Ended))
}
