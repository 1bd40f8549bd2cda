//! Calls of workers.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use crate::answer::{Body, Object, document, quoted};
use crate::caller::tenant;
use crate::context::Context;
use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::job::Job;
use crate::members::{Invalid, Members};
use crate::problem::Problem;
use crate::state::JobState;
use crate::store::{Claim, Directive};
use crate::text::rfc3339;

/// The most jobs that one FETCH hands out.
const FETCH_MAX: usize = 1_000;

pub(super) fn fetch(context: &Context, head: &Parts, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = Members::parse(body)?;
    let rule = "is an array of one or more names";
    let queues: Vec<String> = members.read("queues", rule)?.unwrap_or_default();
    if queues.is_empty() {
        return Err(Invalid::Member("queues", rule).into());
    }
    let number = "is a whole number";
    let count: Option<usize> = match members.read("count", number)? {
        Some(count) => Some(count),
        None => members.read("batch_size", number)?,
    };
    let claim = Claim {
        queues,
        count: count.unwrap_or(1).clamp(1, FETCH_MAX),
        worker_id: members.read("worker_id", "is a string")?,
        visibility_ms: members.read("visibility_timeout_ms", number)?,
        tenant: tenant(head),
    };
    let mut store = context.store.lock();
    let documents: Vec<_> = store.fetch(&claim).into_iter().map(Job::document).collect();
    let first = documents.first().cloned();
    Ok(document(StatusCode::OK, Object::new().array("jobs", documents).maybe_raw("job", first.as_deref()).finish()))
}

pub(super) fn job_id(members: &Members) -> Result<String, Problem> {
    let rule = "is the id of a job";
    Ok(members.read("job_id", rule)?.ok_or(Invalid::Member("job_id", rule))?)
}

/// The members of the job that the answer to an acknowledgement repeats. The documents call its id otherwise than servers do.
fn about(context: &Context, object: Object, job: &Job) -> Object {
    let named = if context.reading.dialect == Dialect::Spec { object.text("job_id", &job.id) } else { object };
    let state = job.state.as_str();
    let ended = job.times.ended.filter(|_| job.state.is_terminal()).map(rfc3339);
    named.text("id", &job.id).text("state", state).maybe_text("completed_at", ended.as_deref())
}

/// The id stands in the path, where some clients write it, or in the body.
pub(super) fn ack(context: &Context, id: Option<String>, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = if id.is_some() && body.is_empty() { Members::default() } else { Members::parse(body)? };
    let id = id.map_or_else(|| job_id(&members), Ok)?;
    let result = members.raw("result").map(ToOwned::to_owned);
    let mut store = context.store.lock();
    let job = store.ack(&id, result).map_err(|refused| Problem::of_job(&id, refused))?;
    let answer = about(context, Object::new().flag("acknowledged", true), job).raw("job", &job.document());
    Ok(document(StatusCode::OK, answer.finish()))
}

/// The id stands in the path, where some clients write it, or in the body.
pub(super) fn nack(context: &Context, id: Option<String>, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = if id.is_some() && body.is_empty() { Members::default() } else { Members::parse(body)? };
    let id = id.map_or_else(|| job_id(&members), Ok)?;
    let error: Members = members.read("error", "is an object")?.unwrap_or_default();
    let failure = Failure {
        retryable: error.read("retryable", "is true or false")?.unwrap_or(true),
        requeue: members.read("requeue", "is true or false")?.unwrap_or(false),
        error,
    };
    let mut store = context.store.lock();
    let job = store.nack(&id, &failure).map_err(|refused| Problem::of_job(&id, refused))?;
    let next = job.due_ms.filter(|_| job.state == JobState::Retryable);
    let discarded = job.times.ended.filter(|_| job.state == JobState::Discarded);
    let answer = about(context, Object::new(), job)
        .number("attempt", job.attempt)
        .number("max_attempts", job.envelope.retry.attempts_max)
        .maybe_text("next_attempt_at", next.map(rfc3339).as_deref())
        .maybe_number("retry_delay_ms", job.retry_delay_ms.filter(|_| next.is_some()))
        .maybe_text("discarded_at", discarded.map(rfc3339).as_deref())
        .raw("job", &job.document());
    Ok(document(StatusCode::OK, answer.finish()))
}

/// The ids that a heartbeat speaks for. Clients write them in three ways; servers in Go know the first one only.
fn spoken_for(members: &Members, dialect: Dialect) -> Result<Vec<String>, Problem> {
    let rule = "is an array of job ids";
    let active: Result<Option<Vec<String>>, Invalid> = members.read("active_jobs", rule);
    let is_count = || members.read::<u64>("active_jobs", rule).is_ok();
    let mut ids = match active {
        Err(_) if dialect == Dialect::Spec && is_count() => Vec::new(),
        active => active?.unwrap_or_default(),
    };
    if dialect == Dialect::Spec {
        ids.extend(members.read::<Vec<String>>("active_job_ids", rule)?.unwrap_or_default());
        ids.extend(members.read::<String>("job_id", "is the id of a job")?);
    }
    Ok(ids)
}

pub(super) fn heartbeat(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = Members::parse(body)?;
    let dialect = context.reading.dialect;
    let ids = spoken_for(&members, dialect)?;
    let worker_id: Option<String> = members.read("worker_id", "is a string")?;
    let visibility_ms = members.read("visibility_timeout_ms", "is a whole number")?;
    // Only the worker's own statement: a server that does not know the member ignores it.
    let queues: Vec<String> = members.read("queues", "is an array of names").ok().flatten().unwrap_or_default();
    let (directive, extended) = {
        let mut store = context.store.lock();
        worker_id.iter().for_each(|worker_id| store.saw(worker_id, &queues));
        let directive = store.directive(worker_id.as_deref().unwrap_or_default(), &ids);
        (directive, store.heartbeat(ids, visibility_ms))
    };
    let answer = match (dialect, directive) {
        (Dialect::Reference | Dialect::Redis, _) => {
            Object::new().text("state", "active").text("directive", directive.as_str())
        }
        (Dialect::Spec, Directive::Continue) => Object::new().text("state", "running"),
        (Dialect::Spec, _) => Object::new().text("state", directive.as_str()),
    };
    let answer = answer
        .array("jobs_extended", extended.iter().map(|id| quoted(id)))
        .text("server_time", &rfc3339(context.clock.unix_ms()));
    Ok(document(StatusCode::OK, answer.finish()))
}

/// `workers/beat`, as the public cases of an orderly end have it: a worker in state `drain` is given no more jobs.
pub(super) fn beat(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = Members::parse(body)?;
    let rule = "is a string";
    let worker_id: String = members.read("worker_id", rule)?.ok_or(Invalid::Member("worker_id", rule))?;
    let state: Option<String> = members.read("state", rule)?;
    let is_draining = matches!(state.as_deref(), Some("drain" | "draining" | "shutting_down"));
    context.store.lock().drains(&worker_id, is_draining);
    let answer = Object::new().flag("acknowledged", true).text("worker_id", &worker_id);
    Ok(document(StatusCode::OK, answer.text("server_time", &rfc3339(context.clock.unix_ms())).finish()))
}
