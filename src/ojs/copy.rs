//! How far a job has come, and which job it is, as a region's answer shows it.

use super::attributes::Name;
use super::member::{as_number, as_text, member, members_of, text};

/// The job type of a tombstone, and its queue: a job of ours that takes an id, and that no worker is ever handed.
const FENCE_TYPE: &str = "ojs.federation.fence";

/// The state of one job as an answer shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Its id.
    pub id: String,
    /// Its state's name on the wire.
    pub state: String,
    /// How often a worker has had it.
    pub attempt: u64,
    /// Whether a worker has had it, by that count or by its `started_at`.
    pub started: bool,
    /// Its tracking id.
    pub federation_id: Option<String>,
    /// Whether it is a tombstone.
    pub is_fence: bool,
}

/// Reads the job in an answer: `job`, or a bare one. None where the answer shows no job.
///
/// Spec: ojs-protocol 2.1; a server that leaves `attempt` out has not counted one.
#[must_use]
pub fn progress(body: &[u8]) -> Option<Progress> {
    const NAMES: [&str; 8] = ["job", "id", "state", "attempt", "started_at", "type", "meta", "options"];
    let mut members = members_of(body, NAMES);
    if let [Some(job), ..] = members {
        members = members_of(job, NAMES);
    }
    let [_, id, state, attempt, started_at, kind, meta, options] = members;
    let attempt = attempt.and_then(as_number).unwrap_or(0);
    let metadata = options.and_then(|options| member(options, "metadata"));
    let tracking = |keys: &[u8]| text(keys, Name::FederationId.as_str()).map(std::borrow::Cow::into_owned);
    Some(Progress {
        id: id.and_then(as_text)?.into_owned(),
        state: state.and_then(as_text)?.into_owned(),
        attempt,
        started: attempt > 0 || started_at.and_then(as_text).is_some_and(|at| !at.is_empty()),
        federation_id: meta.and_then(tracking).or_else(|| metadata.and_then(tracking)),
        is_fence: kind.and_then(as_text).is_some_and(|kind| kind == FENCE_TYPE),
    })
}

/// The moments in the life of a job that an answer can show, in their order.
pub const MOMENTS: [&str; 6] =
    ["created_at", "enqueued_at", "started_at", "completed_at", "cancelled_at", "discarded_at"];

/// The [`MOMENTS`] of the job in an answer, as the answer has them: of `job`, or of a bare one.
#[must_use]
pub fn moments(body: &[u8]) -> [Option<String>; MOMENTS.len()] {
    let [job] = members_of(body, ["job"]);
    members_of(job.unwrap_or(body), MOMENTS).map(|it| it.and_then(as_text).map(std::borrow::Cow::into_owned))
}

/// A job's work in a form that does not depend on its spelling: its type, its queue and its arguments. `None` for a
/// body that is no job.
///
/// By it a job is recognised that carries no tracking id. A queue that is left out is `default`. Spec: ojs-protocol 3.1.
#[must_use]
pub fn content(body: &[u8]) -> Option<Vec<u8>> {
    let [job] = members_of(body, ["job"]);
    let [kind, queue, args, options] = members_of(job.unwrap_or(body), ["type", "queue", "args", "options"]);
    let within = options.and_then(|options| member(options, "queue"));
    let queue = queue.or(within).and_then(as_text).unwrap_or("default".into());
    let args: serde_json::Value = serde_json::from_slice(args?).ok()?;
    Some(serde_json::json!([kind.and_then(as_text)?, queue, args]).to_string().into_bytes())
}

/// Whether an answer shows a tombstone in the place of a job.
#[must_use]
pub fn shows_fence(body: &[u8]) -> bool {
    mentions_fence(body) && progress(body).is_some_and(|it| it.is_fence)
}

/// Whether an item of a list is a tombstone, an event of one, or the queue of tombstones.
///
/// A job that only mentions the name, in its arguments or its meta, is none.
#[must_use]
pub fn is_of_fence(item: &[u8]) -> bool {
    const NAMES: [&str; 4] = ["type", "job_type", "queue", "name"];
    let is_named =
        |object: &[u8]| members_of(object, NAMES).into_iter().flatten().filter_map(as_text).any(|it| it == FENCE_TYPE);
    if !mentions_fence(item) {
        return false;
    }
    let [job, data] = members_of(item, ["job", "data"]);
    is_named(item) || [job, data].into_iter().flatten().any(is_named)
}

/// Nothing is taken apart that does not hold the name; no server escapes a letter of it.
pub(super) fn mentions_fence(body: &[u8]) -> bool {
    memchr::memmem::find(body, FENCE_TYPE.as_bytes()).is_some()
}

/// A tombstone with this id: due in a hundred years, in a queue of its own, without arguments.
#[must_use]
pub fn tombstone(id: &str, due: &str) -> Vec<u8> {
    let job = serde_json::json!({
        "id": id,
        "type": FENCE_TYPE,
        "queue": FENCE_TYPE,
        "args": [],
        "scheduled_at": due,
        "options": { "queue": FENCE_TYPE, "scheduled_at": due },
        "meta": { FENCE_TYPE: true },
    });
    job.to_string().into_bytes()
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
        let read = |body: &str| progress(body.as_bytes()).map(|it| (it.started, it.federation_id, it.is_fence));
        let stamped = r#"{"id":"a","state":"cancelled","started_at":"2026-01-01T00:00:00Z","meta":{"ojs.federation.federation_id":"f"}}"#;
        assert_eq!(read(stamped), Some((true, Some("f".to_owned()), false)));
        assert_eq!(
            read(
                &String::from_utf8(tombstone("a", "2126-01-01T00:00:00Z"))
                    .unwrap()
                    .replace(r#""id""#, r#""state":"scheduled","id""#)
            ),
            Some((false, None, true))
        );
        for body in ["{}", r#"{"job":{"id":"a"}}"#, r#"{"error":{"code":"x"}}"#, "<html>"] {
            assert_eq!(read(body), None, "{body}");
        }
    }

    #[test]
    fn a_tombstone_is_recognised_in_lists_and_events_and_a_job_that_mentions_it_is_none() {
        for item in [
            r#"{"id":"a","type":"ojs.federation.fence","state":"cancelled"}"#,
            r#"{"id":"a","job":{"id":"a","type":"ojs.federation.fence"}}"#,
            r#"{"type":"job.cancelled","subject":"a","data":{"job_type":"ojs.federation.fence"}}"#,
            r#"{"type":"job.cancelled","data":{"job_id":"a","queue":"ojs.federation.fence"}}"#,
            r#"{"name":"ojs.federation.fence","available":0}"#,
        ] {
            assert!(is_of_fence(item.as_bytes()), "{item}");
        }
        for item in [
            r#"{"id":"a","type":"mail","args":["ojs.federation.fence",{"type":"ojs.federation.fence"}]}"#,
            r#"{"id":"a","type":"mail","meta":{"ojs.federation.fence":true,"queue":"ojs.federation.fence"}}"#,
            r#"{"id":"a","type":"mail","queue":"default"}"#,
            r#""ojs.federation.fence""#,
        ] {
            assert!(!is_of_fence(item.as_bytes()), "{item}");
        }
        let shown = |kind: &str| format!(r#"{{"job":{{"id":"a","state":"cancelled","type":"{kind}"}}}}"#);
        assert!(shows_fence(shown(FENCE_TYPE).as_bytes()));
        assert!(!shows_fence(shown("ojs.federation.fences").as_bytes()));
    }

    #[test]
    fn a_job_is_recognised_by_what_it_is_to_do_however_it_is_written() {
        let same = |a: &str, b: &str| content(a.as_bytes()) == content(b.as_bytes());
        let sent = r#"{"type":"mail", "args":[1, {"a":1}]}"#;
        assert!(same(
            sent,
            r#"{"job":{"id":"x","queue":"default","args":[1,{"a":1}],"type":"mail","state":"available"}}"#
        ));
        assert!(same(sent, r#"{"type":"mail","args":[1,{"a":1}],"options":{"queue":"default"}}"#));
        assert!(!same(sent, r#"{"type":"mail","args":[2,{"a":1}]}"#));
        assert!(!same(sent, r#"{"type":"mail","queue":"bulk","args":[1,{"a":1}]}"#));
    }
}
