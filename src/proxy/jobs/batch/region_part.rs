//! The jobs of a batch that go to one region together.

use bytes::Bytes;

use crate::ojs::batch::answer;
use crate::policy::{Decision, RegionIndex};
use crate::proxy::{routing::quota::may_be_stored, state::Ran};
use crate::region::{Queue, TakenToken};
use crate::replica::Outline;

/// Jobs that go to one region together.
#[derive(Debug)]
pub(super) struct RegionPart {
    pub(super) decision: Decision,
    pub(super) body: Bytes,
    /// Their places in the request.
    pub(super) members: Vec<usize>,
    pub(super) jobs: Vec<Sent>,
    /// The type of its first job, as the possible cause of a 500.
    pub(super) source: u64,
    /// The place of its note.
    pub(super) part: usize,
    /// The tokens of its jobs in quotas, each with the job's place in the part.
    pub(super) tokens: Vec<(usize, TakenToken)>,
}

impl RegionPart {
    /// The region that a part of a split call goes to.
    pub(super) fn region(&self) -> Option<RegionIndex> {
        self.decision.target()
    }

    /// Its jobs are on their way to a region.
    pub(super) fn sent(&self) {
        self.tokens.iter().for_each(|(_, token)| token.sent());
    }

    /// Gives the tokens back of the jobs that are stored nowhere.
    pub(super) fn ended(&self, ran: &Ran) {
        if self.tokens.is_empty() {
            return;
        }
        let may_be = may_be_stored(ran);
        let answer = ran.result.as_ref().ok();
        let items = answer.and_then(|answer| answer::items(&answer.body, self.jobs.len()));
        let is_stored = |place: usize| match &items {
            Some(items) => items.iter().any(|item| item.index == place && item.stored),
            None => may_be,
        };
        self.tokens.iter().filter(|(place, _)| !is_stored(*place)).for_each(|(_, token)| token.give_back());
    }

    /// Whether an answer shows one of the jobs. A web page, or an answer to another call, shows none. Without ids, or
    /// where a region may answer with other jobs, the answer counts as showing one.
    pub(super) fn is_shown(&self, body: &[u8]) -> bool {
        let is_one = |job: &Sent| {
            let Some(id) = job.id.as_deref().filter(|_| !job.unique) else { return true };
            memchr::memmem::find(body, id.as_bytes()).is_some()
        };
        !answer::shows_fence(body) && (self.jobs.is_empty() || self.jobs.iter().any(is_one))
    }
}

/// The facts about a job of a batch that its answer is compared with.
#[derive(Debug)]
pub(super) struct Sent {
    /// The id, the client's or the minted one; none where minting is off and the client sent none.
    pub(super) id: Option<String>,
    /// Whether the id was minted, so that no other job can have it.
    pub(super) minted: bool,
    /// Whether the region may answer with another job that was there before.
    pub(super) unique: bool,
    /// The queue, where other regions may be asked about it.
    pub(super) shared_queue: Option<Queue>,
    /// Its part for the hub, where that gets one.
    pub(super) reported: Option<Box<Reported>>,
}

/// The part of a job of a batch that the hub gets.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) outline: Outline,
    /// Its tracking id, where it has one.
    pub(super) federation_id: Option<String>,
    /// The job, before its stamp; none where its outline does not read it.
    pub(super) sent: Option<Bytes>,
}
