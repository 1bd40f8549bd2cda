//! One event of a job, as a step of its life. Two forms are read: `job.state_changed`, which servers stream, and the events of ojs-events, bare
//! or as documents. Spec: ojs-realtime §4, ojs-events §3; ojs-protocol 2.11.

use std::borrow::Cow;

use crate::ojs::copy::is_of_fence;
use crate::ojs::member::{as_text, members_of};

/// A step of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStep {
    /// It was stored, in this state.
    Stored(&'static str),
    /// A worker has got it.
    Started,
    /// Its worker keeps it.
    Kept,
    /// The worker has failed; the state behind it, where the event says so.
    Failed(Option<&'static str>),
    /// The worker has completed it.
    Completed,
    /// It was cancelled.
    Cancelled,
}

/// An event about one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepEvent<'b> {
    /// The job.
    pub job_id: Cow<'b, str>,
    /// Its queue, where the event says so.
    pub queue: Option<Cow<'b, str>>,
    /// The step.
    pub step: JobStep,
    /// When it was taken, in RFC 3339, where the event says so.
    pub at: Option<Cow<'b, str>>,
}

/// The meaning of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadStep<'b> {
    /// A step of a job.
    Step(StepEvent<'b>),
    /// The server says that it has left out events.
    Missed,
    /// Nothing about the life of a job: progress, queues, a job that is available again.
    Other,
    /// It is no JSON object, or is about a job and does not name it.
    Odd,
}

const NAMES: [&str; 11] =
    ["event", "job_id", "queue", "from", "to", "timestamp", "specversion", "subject", "time", "type", "data"];

/// Reads an event by its name in the stream and its data.
#[must_use]
pub fn read_step<'b>(name: &'b str, data: &'b [u8]) -> ReadStep<'b> {
    let members = members_of(data, NAMES);
    let [own_name, job_id, queue, from, to, timestamp, version, subject, time, kind, _] =
        members.map(|value| value.and_then(as_text));
    let [.., inner] = members;
    if !data.trim_ascii_start().starts_with(b"{") || serde_json::from_slice::<serde::de::IgnoredAny>(data).is_err() {
        return ReadStep::Odd;
    }
    if is_of_fence(data) {
        return ReadStep::Other;
    }
    // In the document of an event `type` is its name, and the members of the job are within `data`.
    let (kind, job_id, queue, at) = match inner.filter(|_| version.is_some()) {
        Some(inner) => {
            let [inner_id, queue] = members_of(inner, ["job_id", "queue"]);
            (kind, inner_id.and_then(as_text).or(subject), queue.and_then(as_text), time)
        }
        None => (own_name, job_id, queue, timestamp),
    };
    let kind = kind.unwrap_or(Cow::Borrowed(name));
    let step = match step(&kind, from.as_deref(), to.as_deref()) {
        Named::Step(step) => step,
        Named::Missed => return ReadStep::Missed,
        Named::Other => return ReadStep::Other,
    };
    match job_id.filter(|id| !id.is_empty()) {
        Some(job_id) => ReadStep::Step(StepEvent { job_id, queue, step, at }),
        None => ReadStep::Odd,
    }
}

enum Named {
    Step(JobStep),
    Missed,
    Other,
}

/// The step that an event of this name is about. `from`, `to`: the states before and after it.
fn step(name: &str, from: Option<&str>, to: Option<&str>) -> Named {
    let step = match name {
        "job.state_changed" => return changed(from.unwrap_or_default(), to.unwrap_or_default()),
        "job.enqueued" => JobStep::Stored("available"),
        "job.scheduled" => JobStep::Stored("scheduled"),
        "job.started" => JobStep::Started,
        "job.heartbeat" => JobStep::Kept,
        "job.failed" => JobStep::Failed(None),
        "job.retrying" => JobStep::Failed(Some("retryable")),
        "job.discarded" => JobStep::Failed(Some("discarded")),
        "job.completed" => JobStep::Completed,
        "job.cancelled" => JobStep::Cancelled,
        "system.events_dropped" | "system.gap" => return Named::Missed,
        _ => return Named::Other,
    };
    Named::Step(step)
}

/// The step between two states. Servers say no state before that of a job which was stored or cancelled; where an enqueue has found a job,
/// they say its state in the same way, which is no step.
fn changed(from: &str, to: &str) -> Named {
    let step = match (from, to) {
        ("", "available") => JobStep::Stored("available"),
        ("", "scheduled") => JobStep::Stored("scheduled"),
        ("", "pending") => JobStep::Stored("pending"),
        (_, "cancelled") => JobStep::Cancelled,
        ("" | "active", "active") | ("", _) => return Named::Other,
        (_, "active") => JobStep::Started,
        ("active", "retryable") => JobStep::Failed(Some("retryable")),
        ("active", "discarded") => JobStep::Failed(Some("discarded")),
        ("active", "completed") => JobStep::Completed,
        _ => return Named::Other,
    };
    Named::Step(step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changed(from: &str, to: &str) -> String {
        let from = if from.is_empty() { String::new() } else { format!(r#""from":"{from}","#) };
        format!(
            r#"{{"event":"job.state_changed","job_id":"j","queue":"q","type":"a.b",{from}"to":"{to}","timestamp":"2026-01-01T00:00:00.000Z"}}"#
        )
    }

    fn step_of(name: &str, data: &str) -> Option<JobStep> {
        match read_step(name, data.as_bytes()) {
            ReadStep::Step(it) => Some(it.step),
            _ => None,
        }
    }

    #[test]
    fn a_change_of_state_is_a_step_with_its_job_queue_and_time() {
        let data = changed("active", "completed");
        let ReadStep::Step(event) = read_step("job.state_changed", data.as_bytes()) else { panic!("{data}") };
        assert_eq!((&*event.job_id, event.queue.as_deref(), event.step), ("j", Some("q"), JobStep::Completed));
        assert_eq!(event.at.as_deref(), Some("2026-01-01T00:00:00.000Z"));
        for (from, to, step) in [
            ("", "available", Some(JobStep::Stored("available"))),
            ("", "scheduled", Some(JobStep::Stored("scheduled"))),
            ("", "pending", Some(JobStep::Stored("pending"))),
            ("available", "active", Some(JobStep::Started)),
            ("active", "retryable", Some(JobStep::Failed(Some("retryable")))),
            ("active", "discarded", Some(JobStep::Failed(Some("discarded")))),
            ("", "cancelled", Some(JobStep::Cancelled)),
            ("scheduled", "cancelled", Some(JobStep::Cancelled)),
            // An enqueue has found a job that a worker has, or that has ended.
            ("", "active", None),
            ("", "completed", None),
            ("", "discarded", None),
            // A job is available again, or its stream repeats its state.
            ("scheduled", "available", None),
            ("active", "available", None),
            ("completed", "completed", None),
            ("active", "active", None),
            ("active", "lost", None),
        ] {
            assert_eq!(step_of("job.state_changed", &changed(from, to)), step, "{from} {to}");
        }
    }

    #[test]
    fn the_events_of_the_documents_are_read_bare_and_wrapped() {
        for (name, step) in [
            ("job.enqueued", JobStep::Stored("available")),
            ("job.started", JobStep::Started),
            ("job.heartbeat", JobStep::Kept),
            ("job.failed", JobStep::Failed(None)),
            ("job.retrying", JobStep::Failed(Some("retryable"))),
            ("job.discarded", JobStep::Failed(Some("discarded"))),
            ("job.completed", JobStep::Completed),
            ("job.cancelled", JobStep::Cancelled),
        ] {
            assert_eq!(step_of(name, r#"{"job_id":"j","queue":"q"}"#), Some(step));
            let document = format!(
                r#"{{"specversion":"1.0","id":"e","type":"{name}","subject":"j","time":"t","data":{{"queue":"q"}}}}"#
            );
            let ReadStep::Step(event) = read_step("", document.as_bytes()) else { panic!("{document}") };
            assert_eq!((event.step, &*event.job_id, event.queue.as_deref()), (step, "j", Some("q")));
            assert_eq!(event.at.as_deref(), Some("t"));
        }
    }

    #[test]
    fn an_event_that_is_no_step_is_not_one_that_cannot_be_read() {
        for data in ["", "[]", "{", "{]", "\"a\"", r#"{"job_id":7}"#, r#"{"job_id":""}"#, "{}", "{\"a\":\u{0}}"] {
            assert_eq!(read_step("job.completed", data.as_bytes()), ReadStep::Odd, "{data}");
        }
        assert_eq!(read_step("job.completed", b"{\"job_id\":\"\xff\"}"), ReadStep::Odd);
        for name in ["job.progress", "queue.paused", "server.shutdown", "", "job.expired"] {
            assert_eq!(read_step(name, br#"{"job_id":"j"}"#), ReadStep::Other, "{name}");
        }
        for name in ["system.events_dropped", "system.gap"] {
            assert_eq!(read_step(name, br#"{"dropped_count":4}"#), ReadStep::Missed);
        }
        let fence = changed("", "scheduled").replace("a.b", "ojs.federation.fence");
        assert_eq!(read_step("job.state_changed", fence.as_bytes()), ReadStep::Other);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(name in ".{0,20}", data in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_step(&name, &data);
        }
    }
}
