//! The administration over HTTP. It shows jobs bare, where the other operations wrap them.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::dead_letter::number_of_dead;
use super::{bulk, list, schema, stats, tenant, upkeep};
use crate::act::Act;
use crate::answer::{Body, Object, document, full};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::job::Job;
use crate::members::{Invalid, Members};
use crate::problem::Problem;
use crate::routes::AdminRoute as Route;
use crate::store::Directive;
use crate::text::rfc3339;

type Answer = Result<Response<Body>, Problem>;

fn bare(job: &Job) -> Response<Body> {
    document(StatusCode::OK, job.document())
}

/// Serves an operation of the administration.
///
/// Errors: [`Problem`], before anything was changed.
pub(super) fn serve(context: &Context, route: Route, head: &Parts, body: &Bytes) -> Answer {
    let in_spec = context.reading.dialect == Dialect::Spec;
    match (head.method.as_str(), route) {
        ("GET", Route::StatsHistory) => stats::history(context, head),
        ("GET", Route::Tenants) => tenant::list(context, head),
        ("GET", Route::TenantStats(id)) => Ok(tenant::stats(context, &id)),
        ("GET", Route::Schemas(kind, all)) => schema::of_type(context, kind, all),
        (_, Route::Schema(kind, version)) => schema::one(context, head, (kind, version), body),
        ("GET", Route::Jobs) => list::admin_jobs(context, head),
        ("GET", Route::Job(id)) => context.store.lock().job(&id).map(bare).ok_or(Problem::NoSuchJob(id)),
        ("POST", Route::JobRetry(id)) => {
            context.store.lock().retry(&id).map(bare).map_err(|refused| Problem::of_job(&id, refused))
        }
        ("POST", Route::JobCancel(id)) => {
            context.store.lock().cancel(&id).map(bare).map_err(|refused| Problem::of_job(&id, refused))
        }
        ("POST", Route::Bulk(act)) if in_spec => bulk::jobs(context, act, body),
        ("POST", Route::Bulk(_)) => bulk::retry_all_dead(context, body, true),
        ("GET", Route::Queues) => list::admin_queues(context, head),
        ("GET", Route::Queue(name)) => queue(context, &name),
        ("POST", Route::QueuePause(name, paused)) => Ok(pause(context, &name, paused)),
        ("PUT" | "GET", Route::QueueConfig(name)) => upkeep::queue_config(context, head, &name, body),
        ("GET", Route::QueueJobs(name)) => list::jobs(context, head, Some(name)),
        ("DELETE", Route::QueueJobs(name)) => upkeep::purge(context, &name, body, true),
        ("GET", Route::Workers) => list::admin_workers(context, head),
        ("GET", Route::Worker(id)) => Ok(document(StatusCode::OK, list::worker(context, &id)?.1)),
        ("DELETE", Route::Worker(id)) => {
            let taken = context.store.lock().kept().workers.take(&id);
            taken.map(|_| no_content()).ok_or(Problem::NoSuch("worker", id))
        }
        (_, Route::Maintenance) => maintenance(context, head, body),
        ("POST", Route::WorkerQuiet(id)) => {
            context.store.lock().direct(&id, Directive::Quiet);
            let answer = Object::new().text("worker_id", &id).text("state", Directive::Quiet.as_str());
            Ok(document(StatusCode::OK, answer.finish()))
        }
        ("GET", Route::DeadLetters) => list::admin_dead(context, head),
        ("DELETE", Route::DeadLetters) if in_spec => bulk::purge_dead(context, body),
        ("GET", Route::DeadLetterStats) => Ok(number_of_dead(context)),
        ("POST", Route::DeadLettersRetry) if in_spec => bulk::dead(context, Act::Retry, body),
        ("POST", Route::DeadLettersRetry) => bulk::retry_all_dead(context, body, false),
        ("GET", Route::DeadLetter(id)) if in_spec => {
            context.store.lock().dead_letter(&id).map(bare).ok_or(Problem::NoSuchDeadLetter(id))
        }
        ("DELETE", Route::DeadLetter(id)) => {
            let deleted = context.store.lock().delete_dead_letter(&id);
            deleted.map(|()| no_content()).map_err(|_| Problem::NoSuchDeadLetter(id))
        }
        ("POST", Route::DeadLetterRetry(id)) => {
            let mut store = context.store.lock();
            store.retry_dead_letter(&id).map(bare).map_err(|_| Problem::NoSuchDeadLetter(id))
        }
        _ => Err(Problem::Method),
    }
}

fn no_content() -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// `GET` and `PUT system/maintenance`: kept as it came, and without effect.
fn maintenance(context: &Context, head: &Parts, body: &Bytes) -> Answer {
    let mut store = context.store.lock();
    if matches!(head.method.as_str(), "PUT" | "POST") {
        let members = Members::parse(body)?;
        let rule = "is true or false";
        members.read::<bool>("enabled", rule)?.ok_or(Invalid::Member("enabled", rule))?;
        store.kept().maintenance = serde_json::from_slice(body).ok();
    } else if head.method != http::Method::GET {
        return Err(Problem::Method);
    }
    let word = store.kept().maintenance.as_ref().map(|word| word.get().to_owned());
    Ok(document(StatusCode::OK, word.unwrap_or_else(|| r#"{"enabled":false}"#.to_owned())))
}

/// Servers in Go know every queue by any name.
fn queue(context: &Context, name: &str) -> Answer {
    let dialect = context.reading.dialect;
    let mut store = context.store.lock();
    if dialect == Dialect::Spec && !store.has_queue(name) {
        return Err(Problem::NoSuch("queue", name.to_owned()));
    }
    let queue = list::admin_queue(&store.queue(name), dialect);
    let config = store.kept().configs.get(name).map(|config| config.get().to_owned());
    Ok(document(StatusCode::OK, queue.maybe_raw("configuration", config.as_deref()).finish()))
}

fn pause(context: &Context, name: &str, paused: bool) -> Response<Body> {
    context.store.lock().pause(name, paused);
    let object = Object::new().text("name", name).flag("paused", paused);
    let at = rfc3339(context.clock.unix_ms());
    let is_spec = context.reading.dialect == Dialect::Spec;
    let object = if is_spec { object.text(if paused { "paused_at" } else { "resumed_at" }, &at) } else { object };
    document(StatusCode::OK, object.finish())
}
