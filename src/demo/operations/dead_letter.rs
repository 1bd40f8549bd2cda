//! Dead letters over HTTP.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::{job_answer, number};
use crate::demo::answer::{Body, Object, document};
use crate::demo::envelope::Members;
use crate::demo::job::Job;
use crate::demo::problem::Problem;
use crate::demo::routes::parameter;
use crate::demo::service::Context;

/// How many dead letters one answer holds: unless asked otherwise, and at most.
const LIMIT_USUAL: usize = 50;
const LIMIT_MAX: usize = 100;

pub(super) fn list(context: &Context, head: &Parts) -> Result<Response<Body>, Problem> {
    let queue = parameter(&head.uri, "queue");
    let limit = number(head, "limit", LIMIT_USUAL)?.min(LIMIT_MAX);
    let offset = number(head, "offset", 0)?;
    let mut store = context.store.lock();
    let (jobs, total) = store.dead_letters(queue.as_deref(), offset, limit);
    let pagination = Object::new()
        .number("total", total)
        .number("limit", limit)
        .number("offset", offset)
        .flag("has_more", offset.saturating_add(jobs.len()) < total);
    let documents = jobs.into_iter().map(Job::document);
    let answer = Object::new().array("jobs", documents).raw("pagination", &pagination.finish());
    Ok(document(StatusCode::OK, answer.finish()))
}

pub(super) fn get(context: &Context, id: String) -> Result<Response<Body>, Problem> {
    let mut store = context.store.lock();
    store.dead_letter(&id).map(|job| job_answer(StatusCode::OK, job)).ok_or(Problem::NoSuchDeadLetter(id))
}

pub(super) fn retry(context: &Context, id: String, body: &Bytes) -> Result<Response<Body>, Problem> {
    // The body is optional, and only one member of it means anything.
    if !body.is_empty() && Members::parse(body)?.raw("override").is_some() {
        return Err(Problem::Override);
    }
    let mut store = context.store.lock();
    let retried = store.retry_dead_letter(&id).map(|job| job_answer(StatusCode::OK, job));
    retried.map_err(|_| Problem::NoSuchDeadLetter(id))
}

pub(super) fn delete(context: &Context, id: String) -> Result<Response<Body>, Problem> {
    if context.store.lock().delete_dead_letter(&id).is_err() {
        return Err(Problem::NoSuchDeadLetter(id));
    }
    Ok(document(StatusCode::OK, Object::new().flag("deleted", true).text("job_id", &id).finish()))
}
