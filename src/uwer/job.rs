//! A task as an OJS job, and back.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::flaw::{Field, Flaw, FlawKind};
use super::task::{Priority, Task};

/// The type and queue of a job, by its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobShape<'s> {
    /// The job type.
    pub job_type: &'s str,
    /// The queue.
    pub queue: &'s str,
}

/// A job that is no task of UWER.
pub type Stray = Flaw;

/// The job of a task, as JSON. `id`: its OJS id. Shape: `args` is `[payload]`, base64 as it was sent; the other values are in `options`
/// and in `meta`, as `uwer.*`. `MaxRetries` counts the attempts after the first one, `max_attempts` all.
#[must_use]
pub fn job_of(task: &Task, id: &str, shape: &JobShape<'_>) -> String {
    // No value needs an escape: each has a checked form without `"` and `\`; a type and queue have that of OJS names.
    format!(
        r#"{{"id":"{id}","type":"{}","args":["{}"],"meta":{{"uwer.workflow_id":"{}","uwer.idempotency_key":"{}","uwer.priority":"{}","uwer.origin_service":"{}"}},"options":{{"queue":"{}","priority":{},"timeout_ms":{},"retry":{{"max_attempts":{},"backoff_coefficient":{}}}}}}}"#,
        shape.job_type,
        task.payload(),
        task.workflow_id(),
        task.key(),
        task.priority().as_str(),
        task.origin(),
        shape.queue,
        task.priority().of_job(),
        task.timeout_ms(),
        u32::from(task.max_retries()) + 1,
        task.backoff(),
    )
}

#[derive(Deserialize)]
struct Job<'j> {
    #[serde(borrow)]
    args: [Cow<'j, str>; 1],
    #[serde(borrow)]
    meta: Meta<'j>,
    #[serde(borrow)]
    options: Options<'j>,
}

#[derive(Deserialize)]
struct Meta<'j> {
    #[serde(borrow, rename = "uwer.workflow_id")]
    workflow_id: Cow<'j, str>,
    #[serde(borrow, rename = "uwer.idempotency_key")]
    key: Cow<'j, str>,
    #[serde(borrow, rename = "uwer.priority")]
    priority: Cow<'j, str>,
    #[serde(borrow, rename = "uwer.origin_service")]
    origin: Cow<'j, str>,
}

#[derive(Deserialize)]
struct Options<'j> {
    #[serde(default)]
    priority: Option<i32>,
    #[serde(borrow)]
    timeout_ms: &'j RawValue,
    #[serde(borrow)]
    retry: Retry<'j>,
}

#[derive(Deserialize)]
struct Retry<'j> {
    max_attempts: u16,
    #[serde(borrow)]
    backoff_coefficient: &'j RawValue,
}

/// The task that a job was made of, as [`job_of`] writes it.
///
/// Errors: the field that no task has, or that differs in its two places.
pub fn task_of(job: &[u8]) -> Result<Task, Stray> {
    let stray = |field: &str, expected: &str, place: (usize, usize)| {
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let (line, column) = (number(place.0), number(place.1));
        Flaw { kind: FlawKind::Structure, field: field.to_owned(), line, column, expected: expected.to_owned() }
    };
    let expected =
        "expected a job of UWER: `args` with one text, `meta` with `uwer.*`, `options` with `timeout_ms` and `retry`";
    let job: Job<'_> =
        serde_json::from_slice(job).map_err(|error| stray("job", expected, (error.line(), error.column())))?;
    let [payload] = &job.args;
    let Some(retries) = job.options.retry.max_attempts.checked_sub(1) else {
        return Err(stray("options.retry.max_attempts", "expected 1 to 1000", (0, 0)));
    };
    let task = Task::checked([
        &*job.meta.workflow_id,
        &*job.meta.key,
        &*job.meta.priority,
        &*job.meta.origin,
        &retries.to_string(),
        job.options.retry.backoff_coefficient.get(),
        job.options.timeout_ms.get(),
        &**payload,
    ])
    .map_err(|field| stray(place_in_job(field), field.expected(), (0, 0)))?;
    if job.options.priority.unwrap_or(Priority::Normal.of_job()) != task.priority().of_job() {
        return Err(stray("options.priority", "expected the number of the word in `meta.uwer.priority`", (0, 0)));
    }
    Ok(task)
}

const fn place_in_job(field: Field) -> &'static str {
    match field {
        Field::WorkflowId => "meta.uwer.workflow_id",
        Field::IdempotencyKey => "meta.uwer.idempotency_key",
        Field::Priority => "meta.uwer.priority",
        Field::OriginService => "meta.uwer.origin_service",
        Field::MaxRetries => "options.retry.max_attempts",
        Field::BackoffMultiplier => "options.retry.backoff_coefficient",
        Field::TimeoutMs => "options.timeout_ms",
        Field::Payload => "args[0]",
    }
}
