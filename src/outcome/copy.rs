//! One presence of a job in a region.

use serde::{Deserialize, Serialize};

use super::word::Progress;
use crate::base::Moment;
use crate::base::RegionId;

/// Where a job is, and under which id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The region.
    pub region: RegionId,
    /// The job's id there; empty for a call that creates several jobs, and where no id is known: such a copy cannot be
    /// looked up.
    pub job_id: String,
}

/// How an attempt was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// The connection that carried the job has ended by the region's word, or with this process.
    Ended,
    /// Time ran out, here or at a balancer: the region may still be at it.
    TimedOut,
}

/// Why a region is held not to have a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by", content = "at")]
pub enum Absence {
    /// It has said so twice, after the time that a late write takes; until this moment a write that comes later is looked for.
    Watched(Moment),
    /// Its id is taken by a tombstone that is not cancelled yet: a late write is refused.
    Fenced,
    /// The tombstone is cancelled: no worker can ever be handed it.
    Buried,
    /// It said so after the watch, it refused the job itself, or an operator has decided so.
    Final,
}

/// The fate of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Fate {
    /// It is being sent.
    Sent,
    /// It was sent, and its fate is unknown.
    Unknown {
        /// How it was lost.
        lost: Lost,
        /// When.
        since: Moment,
    },
    /// It is not there.
    Absent {
        /// By which proof.
        by: Absence,
    },
    /// It is there.
    Stored {
        /// How far it has come.
        progress: Progress,
    },
    /// A cancellation was sent to its region, and may succeed at any time.
    Cancelling {
        /// When the last cancellation was sent.
        since: Moment,
        /// How far it had come when it was last seen.
        progress: Progress,
    },
    /// It is cancelled, and no worker has had it.
    Cancelled {
        /// Cancelled by us; else by another caller.
        by_us: bool,
    },
    /// It was stored, and is not any more although a worker may have had it: a write that came late has put an earlier copy in its place,
    /// or it was cancelled after it had started.
    Overwritten,
}

/// The questions of this process about a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Asked {
    /// Questions.
    pub times: u32,
    /// Answers "no such job" that count.
    pub noes: u32,
    /// When the region first said "no such job" after the copy was lost.
    pub first_no: Option<Moment>,
    /// When its region last said something about it.
    pub heard: Option<Moment>,
    /// Not to be asked before.
    pub due: Moment,
}

/// One presence of a job, or a possible one, in a region.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Copy {
    /// Where.
    pub place: Place,
    /// The tracking id that it carries, which distinguishes it from other jobs under the same id; `None` where none was
    /// stamped.
    pub stamp: Option<String>,
    /// When it was sent.
    pub sent: Moment,
    /// Its fate.
    pub fate: Fate,
    /// An operator's ruling; boxed, because hardly any copy has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruling: Option<Box<Ruling>>,
    /// The questions about it.
    #[serde(skip)]
    pub asked: Asked,
}

impl Copy {
    /// A copy that is about to be sent.
    #[must_use]
    pub fn sending(place: Place, stamp: Option<String>, now: Moment) -> Self {
        Self { place, stamp, sent: now, fate: Fate::Sent, ruling: None, asked: Asked::default() }
    }

    /// Whether the copy may or may not be there.
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        matches!(self.fate, Fate::Sent | Fate::Unknown { .. })
    }

    /// How far it has come, where it is there and may be handed to a worker or was.
    #[must_use]
    pub const fn live(&self) -> Option<Progress> {
        match self.fate {
            Fate::Stored { progress } | Fate::Cancelling { progress, .. } => Some(progress),
            _ => None,
        }
    }

    /// Whether nothing more can become known of it that matters by itself.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(
            self.fate,
            Fate::Stored { .. }
                | Fate::Cancelled { .. }
                | Fate::Overwritten
                | Fate::Absent { by: Absence::Final | Absence::Buried }
        )
    }
}

/// An operator's ruling about a copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ruling {
    /// That it is stored; else that it is absent.
    pub stored: bool,
    /// Why, in the operator's words.
    pub reason: String,
    /// When.
    pub at: Moment,
}
