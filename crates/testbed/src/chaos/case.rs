//! What is judged, and what a judgement can come to.

use super::ids::IDS;
use super::ledger::{Issue, JobId, Mark};
use crate::DuplicateIds;

/// A copy of a job in a region's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) region: u8,
    pub(super) id: JobId,
    /// Cancelled: it will not run.
    pub(super) cancelled: bool,
    /// How often the region was sent this id.
    pub(super) stored: u32,
    /// How many of the jobs that had this id there a worker was handed.
    pub(super) runs: u32,
    /// How many acknowledgements took effect on them.
    pub(super) acknowledged: u32,
    /// Units: milliseconds since the Unix epoch.
    pub(super) created_ms: u64,
}

/// What the sidecar says of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody knows whether it is there.
    Unknown,
    /// It was absent, and is looked for in case that it still comes.
    Watched,
    /// It is there, or was and is cancelled.
    Stored,
    /// It is not there, and does not come any more.
    Absent,
    /// It is there, and so is another one of the same job.
    Doubled,
    /// Nobody could tell for so long that it is not asked about any more.
    Expired,
}

/// What the sidecar says of one copy of one job, as `rows` reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) job: Option<JobId>,
    pub(super) region: u8,
    /// The call that it is about: the first job of it, and its number among the calls for that. None where the row does not say.
    pub(super) call: Option<(Mark, u8)>,
    pub(super) at_ms: u64,
    pub(super) state: Fate,
    pub(super) elsewhere: Option<(u8, JobId)>,
    pub(super) cancelled_in: Option<u8>,
    /// Whether the journal still has it at the end; else the plan destroyed that journal, and this is what it said last.
    pub(super) kept: bool,
}

/// One life of the sidecar's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Epoch {
    /// Why it was started.
    pub(super) why: &'static str,
    /// Whether what it journalled was on disk before it was answered.
    pub(super) durable: bool,
    /// Grows when the journal that it found lacked what was written before.
    pub(super) generation: u32,
    /// Whether it had what it needs to serve everybody.
    pub(super) able: bool,
    /// When it could be called, and until when. Units: milliseconds since the Unix epoch.
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
}

/// Everything that is known of one job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'c> {
    pub(super) issue: &'c Issue,
    pub(super) copies: &'c [Copy],
    pub(super) rows: &'c [Row],
    /// The calls that came to regions: number of the call, region.
    pub(super) arrivals: &'c [(u8, u8)],
    /// The regions at whose sockets its arguments were seen, a bit for each.
    pub(super) seen: u8,
    pub(super) epochs: &'c [Epoch],
    /// Copies of other jobs under the id that this one shares with them.
    pub(super) rivals: &'c [Copy],
    pub(super) rules: &'c Rules,
}

/// What the sidecar was configured with, and what the regions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// What the sidecar was told a late write takes at most.
    pub(super) grace_ms: u64,
    /// What the regions do with an id that is taken.
    pub(super) duplicate_ids: [DuplicateIds; IDS.len()],
}

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wrong {
    /// Answered 2xx, and no region has it.
    Lost,
    /// Stored in a region that it may not be in.
    Astray,
    /// Its bytes came to the socket of a region that it may not be in.
    Leaked,
    /// Stored more than once, and nobody says so.
    Doubled,
    /// The client was told that it is not stored, and it is.
    RefusedAndStored,
    /// Answered as unknown, and the journal has nothing about it.
    Unreported,
    /// The journal says that it landed, and the region does not have it.
    FalselyLanded,
    /// The journal says that it never came to be stored, and it was there already.
    FalselyAbsent,
    /// The same minted id was sent to a region twice.
    Resent,
    /// Answered with another job, where no region answers so.
    OtherJob,
    /// Stored again under its own id after a worker had it, and nobody says so.
    RanTwice,
    /// Repeated with its key after every region was well again, and still unknown.
    StillUnknown,
}

/// What may be, and is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Note {
    /// 2xx, and one region has it.
    StoredOnce,
    /// Refused for good, and no region has it.
    RefusedOnly,
    /// 2xx for a copy that was cancelled because another one had started.
    OtherCopyKept,
    /// Unknown, and by the journal stored.
    UnknownLanded,
    /// Unknown, and by the journal not stored.
    UnknownAbsent,
    /// Unknown, and listed as such.
    UnknownPending,
    /// Unknown, and in a journal that the plan destroyed before it was known.
    UnknownForgotten,
    /// No answer, and stored.
    SilentStored,
    /// No answer, and not stored.
    SilentAbsent,
    /// Twice, and the journal says so or watches it.
    DoubleReported,
    /// Twice: the client lost an answer and sent again a job without id and key.
    DoubleByReplay,
    /// Twice: the client's own id was in a journal that the plan destroyed, and the repetition went to another region.
    DoubleByOwnId,
    /// Twice: the key was in a journal that the plan destroyed.
    DoubleByLostKey,
    /// Another job of the same client took its id and its place, in a region that overwrites.
    OverwrittenByClient,
    /// Its id was another job's already, which its region returned.
    IdTaken,
    /// A region stored it later after the end of its call than the sidecar was told to expect.
    LateWrite,
}

/// What the judgement came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) wrongs: Vec<Wrong>,
    pub(super) notes: Vec<Note>,
}

impl Row {
    /// Whether the copy with this id was cancelled in favour of another one.
    pub(super) fn gave_up(&self, id: JobId) -> bool {
        self.cancelled_in.is_some() && (self.job == Some(id) || self.elsewhere.is_some_and(|(_, other)| other == id))
    }
}
