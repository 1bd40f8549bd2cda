//! The input of the judgement, and its possible results.

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

/// The sidecar's report about a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It may be there or not.
    Unknown,
    /// It was absent, and is looked for in case that it still comes.
    Watched,
    /// It is there, or was and is cancelled.
    Stored,
    /// It is not there, and does not come any more.
    Absent,
    /// It is there, and so is another one of the same job.
    Doubled,
    /// It stayed unknown for so long that no region is asked any more.
    Expired,
}

/// The sidecar's report about one copy of one job, as `rows` reads it.
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
    /// Whether the journal still has it at the end; else the plan destroyed that journal, and this is its last report.
    pub(super) kept: bool,
}

/// One life of the sidecar's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Epoch {
    /// Why it was started.
    pub(super) why: &'static str,
    /// Whether its records were on disk before the answers.
    pub(super) durable: bool,
    /// Grows when the journal that it found lacked earlier records.
    pub(super) generation: u32,
    /// Whether it had the descriptors to serve all calls.
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

/// The sidecar's configuration, and the regions' behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// The configured longest delay of a late write.
    pub(super) grace_ms: u64,
    /// The regions' behaviour for a taken id.
    pub(super) duplicate_ids: [DuplicateIds; IDS.len()],
}

/// A broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wrong {
    /// Answered 2xx, and no region has it.
    Lost,
    /// Stored in a region that it may not be in.
    Astray,
    /// Its bytes came to the socket of a region that it may not be in.
    Leaked,
    /// Stored more than once, without a report.
    Doubled,
    /// Answered as not stored, and stored.
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
    /// Stored again under its own id after a worker had it, without a report.
    RanTwice,
    /// Repeated with its key after every region was well again, and still unknown.
    StillUnknown,
}

/// A permitted event, which is counted.
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
    /// A region stored it later after the end of its call than the configured delay.
    LateWrite,
}

/// The result of the judgement.
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
