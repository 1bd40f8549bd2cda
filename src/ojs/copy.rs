//! How far a job has come, as a region's answer shows it.

use super::answer::{as_number, as_text, members_of};

/// What an answer shows of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Its id.
    pub id: String,
    /// Its state's name on the wire.
    pub state: String,
    /// How often a worker has had it.
    pub attempt: u64,
}

/// Reads the job in an answer: `job`, or a bare one. None where the answer shows no job.
///
/// Spec: ojs-protocol 2.1; a server that leaves `attempt` out has not counted one.
#[must_use]
pub fn progress(body: &[u8]) -> Option<Progress> {
    let [job, mut id, mut state, mut attempt] = members_of(body, ["job", "id", "state", "attempt"]);
    if let Some(job) = job {
        [id, state, attempt] = members_of(job, ["id", "state", "attempt"]);
    }
    Some(Progress {
        id: id.and_then(as_text)?.into_owned(),
        state: state.and_then(as_text)?.into_owned(),
        attempt: attempt.and_then(as_number).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jobs_progress_is_read_in_both_dialects() {
        let read = |body: &str| progress(body.as_bytes()).map(|it| (it.id, it.state, it.attempt));
        let expected = |state: &str, attempt| Some(("a".to_owned(), state.to_owned(), attempt));
        assert_eq!(read(r#"{"job":{"id":"a","state":"active","attempt":2}}"#), expected("active", 2));
        assert_eq!(read(r#"{"id":"a","state":"available"}"#), expected("available", 0));
        for body in ["{}", r#"{"job":{"id":"a"}}"#, r#"{"error":{"code":"x"}}"#, "<html>"] {
            assert_eq!(read(body), None, "{body}");
        }
    }
}
