//! Shared parts of operations: reading jobs from requests and showing them in answers.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use crate::answer::{Body, Object, document};
use crate::caller::{Caller, tenant};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::envelope::Envelope;
use crate::job::Job;
use crate::members::Invalid;
use crate::problem::Problem;
use crate::query::parameter;
use crate::store::Store;
use crate::tenant::stamp;

/// The answer that shows a job.
pub(super) fn job_answer(status: StatusCode, job: &Job) -> Response<Body> {
    document(status, Object::new().raw("job", &job.document()).finish())
}

/// By the documents a paused queue takes no jobs; servers in Go only hand none out.
pub(super) fn check_paused(context: &Context, store: &Store, envelope: &Envelope) -> Result<(), Problem> {
    let refuses = context.reading.dialect == Dialect::Spec && store.is_paused(&envelope.queue);
    if refuses { Err(Problem::Paused(envelope.queue.clone())) } else { Ok(()) }
}

/// Reads a job that a client submits, and writes the tenant of the request into it.
pub(super) fn submitted(context: &Context, head: &Parts, source: Bytes) -> Result<Envelope, Problem> {
    let mut envelope = Envelope::submitted(source, &context.reading)?;
    envelope.caller = Caller::of(head);
    if let Some(tenant) = tenant(head) {
        stamp(&mut envelope, &tenant)?;
    }
    Ok(envelope)
}

/// A query parameter that is a number.
pub(super) fn number(head: &Parts, name: &'static str, otherwise: usize) -> Result<usize, Problem> {
    let Some(text) = parameter(&head.uri, name) else { return Ok(otherwise) };
    text.parse().map_err(|_| Invalid::Member(name, "is a whole number from 0").into())
}
