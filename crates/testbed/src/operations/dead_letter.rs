//! Dead letters over HTTP.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Response, StatusCode};

use super::parts::job_answer;
use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::filter::Filter;
use crate::job::Job;
use crate::members::Members;
use crate::problem::Problem;
use crate::text::rfc3339;

/// How many there are, of which queues and with which errors. Servers in Go only count them.
pub(super) fn number_of_dead(context: &Context) -> Response<Body> {
    let mut store = context.store.lock();
    let list = store.select_dead(&Filter::default());
    let object = Object::new().number("total", list.len());
    if context.reading.dialect.in_go() {
        return document(StatusCode::OK, object.finish());
    }
    let (mut queues, mut errors) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    for (_, job) in &list {
        *queues.entry(job.envelope.queue.clone()).or_default() += 1;
        *errors.entry(job.error_type().unwrap_or_else(|| "unknown".to_owned())).or_default() += 1;
    }
    let counted = |counts: BTreeMap<String, u64>| {
        counts.iter().fold(Object::new(), |object, (name, count)| object.number(name, count)).finish()
    };
    let at = |entry: Option<&(String, &Job)>| entry.and_then(|(_, job)| job.died_ms()).map(rfc3339);
    let object = object
        .raw("by_queue", &counted(queues))
        .raw("by_error_type", &counted(errors))
        .maybe_text("oldest_at", at(list.first()).as_deref())
        .maybe_text("newest_at", at(list.last()).as_deref());
    document(StatusCode::OK, object.finish())
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
