//! Calls of workers and their answers, read in place: FETCH, acknowledgements and heartbeats, in every dialect.
//!
//! A call of a worker can concern several regions. Its body is cut to the part of each region, and their answers are
//! merged, by splicing: the bytes of a client or a region stay as they were.
//!
//! Spec: ojs-protocol 2.2 to 2.4, 5.4, 11 row 3; ojs-clients 4.

mod cuts;
mod edit;
mod fetch_reply;
mod fetch_request;
mod heartbeat_reply;
mod heartbeat_request;
mod leased;
mod members;
mod own_pool;
mod own_turns;
#[cfg(test)]
mod testing;

pub use fetch_reply::{ClaimedJob, FetchReply};
pub use fetch_request::FetchRequest;
pub use heartbeat_reply::{Directive, HeartbeatReply};
pub use heartbeat_request::HeartbeatRequest;
pub use leased::Leased;
pub use own_pool::OwnPool;
pub use own_turns::OwnTurns;

use std::borrow::Cow;

use super::fault::Fault;
use super::member::DEPTH_MAX;
use members::Members;

/// The members of an acknowledgement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled<'b> {
    /// The job. An empty id or one that is no text is none; the region judges that.
    pub job_id: Option<Cow<'b, str>>,
    /// The worker; most SDKs do not say.
    pub worker_id: Option<Cow<'b, str>>,
}

impl<'b> Settled<'b> {
    /// Reads the body of an acknowledgement.
    ///
    /// Errors: a [`Fault`] when the body is not JSON, or when two servers could read two jobs or two workers in it.
    pub fn read(body: &'b [u8], depth_max: usize) -> Result<Self, Fault> {
        let members = Members::read(body, depth_max, ["job_id", "worker_id"])?;
        let named = |place| members.text(place).filter(|id| !id.is_empty());
        Ok(Self { job_id: named(0), worker_id: named(1) })
    }
}

/// The answer to the acknowledgement of a job that a lookup shows as completed, bare or under `job`; `None` for any other.
///
/// Spec: ojs-protocol 2.3; the id under both names that servers give it, and nothing of the job's content.
#[must_use]
pub fn completed(body: &[u8], id: &str) -> Option<Vec<u8>> {
    let members = Members::read(body, DEPTH_MAX, ["job"]).ok()?;
    let job = members.raw(0).map_or(body, str::as_bytes);
    let job = Members::read(job, DEPTH_MAX, ["state", "completed_at"]).ok()?;
    (job.text(0)? == "completed").then_some(())?;
    let mut answer = serde_json::json!({ "acknowledged": true, "job_id": id, "id": id, "state": "completed" });
    if let Some(at) = job.text(1) {
        answer["completed_at"] = at.into();
    }
    Some(answer.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_names_one_job_or_is_refused() {
        for (body, expected) in [
            (r#"{"job_id":"a","result":{"job_id":"b"}}"#, Some("a")),
            (r#"{"job_id":"\u0061"}"#, Some("a")),
            (r#"{"id":"a"}"#, None),
            (r#"{"job_id":""}"#, None),
            (r#"{"job_id":7}"#, None),
            ("{}", None),
        ] {
            let job_id = Settled::read(body.as_bytes(), 64).map(|settled| settled.job_id);
            assert_eq!(job_id.ok(), Some(expected.map(Cow::from)), "{body}");
        }
        for body in [r#"{"job_id":"a","Job_ID":"b"}"#, r#"{"JOB_ID":"a"}"#, r#"{"job_id":"a","job_id":"a"}"#, "", "[]"]
        {
            assert!(Settled::read(body.as_bytes(), 64).is_err(), "{body}");
        }
        let settled = Settled::read(br#"{"job_id":"a","worker_id":"w"}"#, 64).unwrap();
        assert_eq!(settled.worker_id.as_deref(), Some("w"));
        assert!(Settled::read(br#"{"job_id":"a","worker_id":"w","Worker_Id":"v"}"#, 64).is_err());
    }

    #[test]
    fn only_a_completed_job_confirms_an_acknowledgement() {
        let done = completed(br#"{"job":{"id":"a","args":["secret"],"state":"completed","completed_at":"T"}}"#, "a");
        let done = String::from_utf8(done.unwrap_or_default()).unwrap_or_default();
        assert_eq!(
            testing::value(&done),
            serde_json::json!({
                "acknowledged": true, "job_id": "a", "id": "a", "state": "completed", "completed_at": "T"
            })
        );
        assert!(completed(br#"{"id":"a","state":"completed"}"#, "a").is_some());
        for body in [r#"{"job":{"state":"active"}}"#, r#"{"state":"retryable"}"#, r#"{"job":7}"#, "{}", ""] {
            assert_eq!(completed(body.as_bytes(), "a"), None, "{body}");
        }
    }
}
