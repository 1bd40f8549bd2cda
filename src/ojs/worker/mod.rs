//! What workers say and hear, read in place: FETCH, acknowledgements and heartbeats, in every dialect that is spoken.
//!
//! A call of a worker can concern several regions. Its body is cut to what one of them is to hear, and their answers are put
//! together, by splicing: what a client or a region wrote stays byte for byte.
//!
//! Spec: ojs-protocol 2.2 to 2.4, 5.4, 11 row 3; ojs-clients 4.

mod beat;
mod beaten;
mod claimed;
mod claims;
mod edit;
mod members;
#[cfg(test)]
mod testing;

pub use beat::Beat;
pub use beaten::{Beaten, Directive};
pub use claimed::{Claimed, ClaimedJob};
pub use claims::Claims;

use std::borrow::Cow;

use super::answer::DEPTH_MAX;
use super::fault::Fault;
use members::Members;

/// The id of the job that an acknowledgement is about. An empty id or one that is no text is none; the region judges that.
///
/// Errors: a [`Fault`] when the body is not JSON, or when two servers could read two ids in it.
pub fn settled_job(body: &[u8], depth_max: usize) -> Result<Option<Cow<'_, str>>, Fault> {
    Ok(Members::read(body, depth_max, ["job_id"])?.text(0).filter(|id| !id.is_empty()))
}

/// The answer to the acknowledgement of a job that a lookup shows as completed, bare or under `job`; `None` for any other.
///
/// Spec: ojs-protocol 2.3; the id under both names that servers give it, and nothing of what the job contains.
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
            assert_eq!(settled_job(body.as_bytes(), 64).ok(), Some(expected.map(Cow::from)), "{body}");
        }
        for body in [r#"{"job_id":"a","Job_ID":"b"}"#, r#"{"JOB_ID":"a"}"#, r#"{"job_id":"a","job_id":"a"}"#, "", "[]"]
        {
            assert!(settled_job(body.as_bytes(), 64).is_err(), "{body}");
        }
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
