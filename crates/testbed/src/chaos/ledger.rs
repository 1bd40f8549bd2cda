//! The calls and their answers: one small entry for every job that any client ever issued.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

/// A job's number, which it carries in its arguments. Every job of a run has its own.
pub(super) type Mark = u32;
/// A job's id. Every id here is a UUID, the clients' and the minted ones.
pub(super) type JobId = u128;

/// How one call ended for one of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// 2xx: it is stored.
    Stored(JobId),
    /// An error that says that nothing of it is stored.
    Refused(u16),
    /// 2xx, and the answer shows another job.
    Shown(Mark),
    /// 409: its region says that it has the job already.
    Conflict,
    /// 500 `outcome_unknown`, or the report that a job could not be cancelled; with the id, where it was given.
    Unknown(Option<JobId>),
    /// No answer: the connection ended.
    Silent,
}

/// One call for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Send {
    /// The sidecar's process, counted from 0.
    pub(super) epoch: u16,
    /// Units: milliseconds since the Unix epoch.
    pub(super) began_ms: u64,
    /// Units: milliseconds since the Unix epoch.
    pub(super) ended_ms: u64,
    pub(super) end: End,
    /// Whether an error is the sidecar's own word, and not its region's.
    pub(super) ours: bool,
}

/// Clients at once, each with one call under way.
pub(super) const CLIENTS: usize = 96;

/// One job and everything that was done to get it stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    /// The kind of client.
    pub(super) client: &'static str,
    /// The regions it may go to, a bit for each.
    pub(super) permitted: u8,
    /// The id that the client gave it.
    pub(super) own: Option<JobId>,
    /// Whether another job has the same id by its client's doing.
    pub(super) shares_id: bool,
    /// Whether it came with an `Idempotency-Key`.
    pub(super) keyed: bool,
    /// Whether regions show it to its own caller only, so that the sidecar cannot ask for it by itself.
    pub(super) hidden: bool,
    /// The first job of the same call, itself where it came alone.
    pub(super) first: Mark,
    pub(super) sends: SmallVec<[Send; 1]>,
}

/// Everything that the clients know.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) issues: Vec<Issue>,
    /// Calls that were sent, a part of a batch that must be split counted as one.
    pub(super) calls: u64,
    /// Answers by status; 0 for none.
    pub(super) statuses: HashMap<u16, u64>,
    /// Errors by status and reason.
    pub(super) reasons: BTreeMap<(u16, String), u64>,
    /// Answers from records.
    pub(super) replays: u64,
}

impl Ledger {
    /// Enters a new job.
    pub(super) fn issue(&mut self, issue: Issue) {
        self.issues.push(issue);
    }

    /// The mark of the job that is entered next.
    pub(super) fn next(&self) -> Mark {
        Mark::try_from(self.issues.len()).unwrap_or(Mark::MAX)
    }

    /// Enters the result of a call for a job.
    pub(super) fn sent(&mut self, mark: Mark, send: Send) {
        if let Some(issue) = self.issues.get_mut(mark as usize) {
            issue.sends.push(send);
        }
    }
}

/// The id in some text.
pub(super) fn id_of(text: &str) -> Option<JobId> {
    uuid::Uuid::try_parse(text).ok().map(|id| id.as_u128())
}

/// How a job carries its mark.
pub(super) fn text_of(mark: Mark) -> String {
    format!("{PREFIX}{mark}x")
}

/// The request id of a call, by which a journal and a socket identify it.
pub(super) fn request_of(first: Mark, send: usize) -> String {
    format!("chaos-{first}-{send}")
}

/// The first job of a call and the call's number, by its request id.
pub(super) fn call_of(request_id: &str) -> Option<(Mark, u8)> {
    let (first, send) = request_id.strip_prefix("chaos-")?.split_once('-')?;
    Some((first.parse().ok()?, send.parse().ok()?))
}

const PREFIX: &str = "cnry";

/// The marks that occur in some bytes.
pub(super) fn marks_in(bytes: &[u8]) -> impl Iterator<Item = Mark> {
    memchr::memmem::find_iter(bytes, PREFIX).filter_map(move |at| {
        let rest = bytes.get(at + PREFIX.len()..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if rest.get(digits) != Some(&b'x') {
            return None;
        }
        std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_wherever_they_stand_and_only_whole() {
        let bytes = format!("a{}b{}cnry7", text_of(12), text_of(3));
        assert_eq!(marks_in(bytes.as_bytes()).collect::<Vec<_>>(), [12, 3], "one that is torn off is none");
        assert!(marks_in(b"cnryx cnry99999999999x cnr").next().is_none());
    }

    #[test]
    fn a_request_id_tells_its_call_and_a_strange_one_tells_nothing() {
        assert_eq!(call_of(&request_of(70_000, 3)), Some((70_000, 3)));
        for strange in ["", "req_1", "chaos-", "chaos-1", "chaos-x-1", "chaos-1-999"] {
            assert_eq!(call_of(strange), None, "{strange}");
        }
    }
}
