//! The effect of each operation on the store, and its answer: jobs here, the others in files of their own.

mod admin;
mod agent;
mod batch;
mod bulk;
mod cron;
mod dead_letter;
mod definition;
mod limit;
mod list;
mod observe;
mod parts;
mod queue;
mod schema;
mod stats;
mod system;
mod tenant;
mod upkeep;
mod worker;
mod workflow;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};

use super::act::Act;
use super::answer::{Body, Object, document};
use super::caller::tenant;
use super::context::Context;
use super::dialect::Dialect;
use super::job::Job;
use super::members::{Invalid, Members};
use super::problem::Problem;
use super::query::parameter;
use super::routes::Route;
use super::store::Store;
use super::tenant::tenant_of;

use parts::{check_paused, job_answer, submitted};
pub(super) use system::health;

/// Serves an operation with its body read.
///
/// Errors: [`Problem`], before anything was changed.
pub(super) fn serve(context: &Context, route: Route, head: &Parts, body: &Bytes) -> Result<Response<Body>, Problem> {
    if head.method == Method::POST || head.method == Method::PUT || head.method == Method::PATCH {
        check_media_type(head)?;
    }
    let in_spec = context.reading.dialect == Dialect::Spec;
    match (head.method.as_str(), route) {
        ("POST", Route::Jobs) => enqueue(context, head, body),
        ("GET", Route::Jobs) if in_spec => list::jobs(context, head, None),
        ("PATCH", Route::Job(id)) if in_spec => upkeep::set_priority(context, &id, body),
        (_, Route::Admin(route)) => admin::serve(context, route, head, body),
        (_, Route::Upkeep(route)) => upkeep::serve(context, route, head, body),
        ("POST", Route::Batch) => batch::enqueue_batch(context, head, body),
        ("POST", Route::Bulk) => batch::enqueue_bulk(context, head, body),
        ("POST", Route::Results) => results(context, body),
        ("GET", Route::Job(id)) => {
            let mut store = context.store.lock();
            check_tenant(&mut store, head, &id)?;
            store.job(&id).map(|job| job_answer(StatusCode::OK, job)).ok_or(Problem::NoSuchJob(id))
        }
        ("DELETE", Route::Job(id)) => {
            let mut store = context.store.lock();
            check_tenant(&mut store, head, &id)?;
            let job = store.cancel(&id).map_err(|refused| Problem::of_job(&id, refused))?;
            Ok(job_answer(StatusCode::OK, job))
        }
        ("POST", Route::Activate(id)) => {
            let mut store = context.store.lock();
            let job = store.activate(&id).map_err(|refused| Problem::of_job(&id, refused))?;
            Ok(job_answer(StatusCode::OK, job))
        }
        ("GET", Route::JobResult(id)) => result(context, head, id),
        ("POST", Route::Fetch) => worker::fetch(context, head, body),
        ("POST", Route::Ack) => worker::ack(context, None, body),
        ("POST", Route::Nack) => worker::nack(context, None, body),
        ("POST", Route::Heartbeat) => worker::heartbeat(context, body),
        ("GET", Route::DeadLetters) => list::dead(context, head),
        ("DELETE", Route::DeadLetters) if in_spec => bulk::dead(context, Act::Delete, body),
        ("GET", Route::DeadLetter(id)) if in_spec => dead_letter::get(context, id),
        ("DELETE", Route::DeadLetter(id)) => dead_letter::delete(context, id),
        ("POST", Route::DeadLetterRetry(id)) => dead_letter::retry(context, id, body),
        ("GET", Route::Queues) => list::queues(context, head),
        ("POST", Route::Queues) if in_spec => upkeep::create_queue(context, body),
        ("GET", Route::QueueStats(name)) => Ok(queue::stats(context, &name)),
        ("POST", Route::QueuePause(name, paused)) => Ok(queue::pause(context, &name, paused)),
        ("GET", Route::AdminStats) => Ok(stats::admin_stats(context)),
        ("GET", Route::Events) => system::events(context, head),
        ("GET", Route::Health) => Ok(document(StatusCode::OK, health(context, "ok"))),
        ("GET", Route::Ready) => Ok(observe::ready()),
        ("GET", Route::Metrics) => Ok(observe::metrics(context)),
        ("POST", Route::Agent(id, act)) => agent::serve(context, &id, act, body),
        ("GET", Route::Manifest) => Ok(system::manifest(context)),
        (method, route @ (Route::Crons | Route::Cron(_) | Route::CronPause(..) | Route::CronTrigger(_))) => {
            cron::serve(context, method, route, head, body)
        }
        (method, route @ (Route::Workflows | Route::Workflow(_) | Route::WorkflowCancel(_))) => {
            workflow::serve(context, method, route, head, body)
        }
        _ => Err(Problem::Method),
    }
}

fn check_media_type(head: &Parts) -> Result<(), Problem> {
    let Some(value) = head.headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let known = ["application/openjobspec+json", "application/json"];
    if known.iter().any(|known| essence.eq_ignore_ascii_case(known)) { Ok(()) } else { Err(Problem::MediaType) }
}

/// A tenant's request sees no job of another one.
fn check_tenant(store: &mut Store, head: &Parts, id: &str) -> Result<(), Problem> {
    let Some(tenant) = tenant(head) else { return Ok(()) };
    let owner = store.job(id).and_then(|job| tenant_of(&job.envelope));
    if owner.is_none_or(|owner| owner == tenant) { Ok(()) } else { Err(Problem::NoSuchJob(id.to_owned())) }
}

fn enqueue(context: &Context, head: &Parts, body: &Bytes) -> Result<Response<Body>, Problem> {
    let envelope = submitted(context, head, body.clone())?;
    let mut store = context.store.lock();
    check_paused(context, &store, &envelope)?;
    store.make_room(&envelope.queue, 1).map_err(|depth| Problem::Full(envelope.queue.clone(), depth))?;
    let submitted = store.submit(envelope).map_err(Problem::Duplicate)?;
    let job = submitted.job;
    if submitted.is_duplicate {
        let object = Object::new().raw("job", &job.document());
        let in_spec = context.reading.dialect == Dialect::Spec;
        let object = if in_spec { object.flag("deduplicated", true) } else { object };
        return Ok(document(StatusCode::OK, object.finish()));
    }
    let mut response = job_answer(StatusCode::CREATED, job);
    // An id that cannot stand in a header has no address either.
    if let Ok(location) = HeaderValue::from_str(&format!("/ojs/v1/jobs/{}", job.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    let id = job.id.clone();
    limit::headers(response.headers_mut(), &mut store, &id);
    Ok(response)
}

fn outcome(object: Object, job: &Job) -> Object {
    let result = job.result.as_deref().map_or("null", serde_json::value::RawValue::get);
    object.text("state", job.state.as_str()).raw("result", result)
}

/// One job's result. A caller that asked to wait has waited before this is called.
fn result(context: &Context, head: &Parts, id: String) -> Result<Response<Body>, Problem> {
    let mut store = context.store.lock();
    let Some(job) = store.job(&id) else { return Err(Problem::NoSuchJob(id)) };
    if !job.state.is_terminal() && parameter(&head.uri, "wait").as_deref() == Some("true") {
        return Err(Problem::NoResultYet);
    }
    Ok(document(StatusCode::OK, outcome(Object::new().text("job_id", &id), job).finish()))
}

/// The results of several jobs; those that are not there are left out.
fn results(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let rule = "is an array of job ids";
    let ids: Vec<String> = Members::parse(body)?.read("ids", rule)?.ok_or(Invalid::Member("ids", rule))?;
    let mut store = context.store.lock();
    let mut found = Object::new();
    for id in &ids {
        if let Some(job) = store.job(id) {
            found = found.raw(id, &outcome(Object::new(), job).finish());
        }
    }
    Ok(document(StatusCode::OK, Object::new().raw("results", &found.finish()).finish()))
}
