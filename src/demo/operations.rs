//! What each operation does to the store, and its answer.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};

use super::answer::{Body, Object, Problem, document, quoted};
use super::envelope::{Envelope, Invalid, Members, Raw};
use super::job::{Job, JobState};
use super::queue::{Counts, QueueView};
use super::routes::Route;
use super::service::Context;
use super::store::{Claim, Failure};
use crate::base::text::rfc3339;

/// The most jobs that one FETCH hands out.
const FETCH_MAX: usize = 1_000;

/// Serves an operation whose body has been read.
///
/// Errors: [`Problem`], before anything was changed.
pub(super) fn serve(context: &Context, route: Route, head: &Parts, body: &Bytes) -> Result<Response<Body>, Problem> {
    if head.method == Method::POST || head.method == Method::PUT || head.method == Method::PATCH {
        check_media_type(head)?;
    }
    match (head.method.as_str(), route) {
        ("POST", Route::Jobs) => enqueue(context, body),
        ("POST", Route::Batch) => enqueue_batch(context, body),
        ("GET", Route::Job(id)) => {
            let mut store = context.store.lock();
            store.job(&id).map(|job| job_answer(StatusCode::OK, job)).ok_or(Problem::NoSuchJob(id))
        }
        ("DELETE", Route::Job(id)) => {
            let mut store = context.store.lock();
            let job = store.cancel(&id).map_err(|refused| Problem::of_job(&id, refused))?;
            Ok(job_answer(StatusCode::OK, job))
        }
        ("POST", Route::Fetch) => fetch(context, body),
        ("POST", Route::Ack) => ack(context, body),
        ("POST", Route::Nack) => nack(context, body),
        ("POST", Route::Heartbeat) => heartbeat(context, body),
        ("GET", Route::Queues) => Ok(queues(context)),
        ("GET", Route::QueueStats(name)) => Ok(queue_stats(context, &name)),
        ("POST", Route::QueuePause(name, paused)) => Ok(pause(context, &name, paused)),
        ("GET", Route::AdminStats) => Ok(admin_stats(context)),
        ("GET", Route::Health) => Ok(document(StatusCode::OK, health(context, "ok"))),
        ("GET", Route::Manifest) => Ok(manifest(context)),
        ("POST", Route::Define(kind)) => define(context, kind, body),
        _ => Err(Problem::Method),
    }
}

fn check_media_type(head: &Parts) -> Result<(), Problem> {
    let Some(value) = head.headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let known = ["application/openjobspec+json", "application/json"];
    if known.iter().any(|known| essence.eq_ignore_ascii_case(known)) { Ok(()) } else { Err(Problem::MediaType) }
}

fn job_answer(status: StatusCode, job: &Job) -> Response<Body> {
    document(status, Object::new().raw("job", &job.document()).finish())
}

fn enqueue(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let envelope = Envelope::parse(body.clone(), context.retry)?;
    let mut store = context.store.lock();
    let job = store.enqueue(envelope);
    let mut response = job_answer(StatusCode::CREATED, job);
    // An id that cannot stand in a header has no address either.
    if let Ok(location) = HeaderValue::from_str(&format!("/ojs/v1/jobs/{}", job.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn enqueue_batch(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let rule = "is an array of one or more jobs";
    let sources: Vec<Raw> = Members::parse(body)?.read("jobs", rule)?.unwrap_or_default();
    if sources.is_empty() {
        return Err(Invalid::Member("jobs", rule).into());
    }
    let parse = |source: Raw| Envelope::parse(Bytes::from(source.get().to_owned()), context.retry);
    // All are validated before the first is stored.
    let envelopes: Vec<Envelope> = sources.into_iter().map(parse).collect::<Result<_, _>>()?;
    let mut store = context.store.lock();
    let count = envelopes.len();
    let documents: Vec<_> = envelopes.into_iter().map(|envelope| store.enqueue(envelope).document()).collect();
    Ok(document(StatusCode::CREATED, Object::new().array("jobs", documents).number("count", count).finish()))
}

fn fetch(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
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
    };
    let mut store = context.store.lock();
    let documents: Vec<_> = store.fetch(&claim).into_iter().map(Job::document).collect();
    let first = documents.first().cloned();
    Ok(document(StatusCode::OK, Object::new().array("jobs", documents).maybe_raw("job", first.as_deref()).finish()))
}

fn job_id(members: &Members) -> Result<String, Problem> {
    let rule = "is the id of a job";
    Ok(members.read("job_id", rule)?.ok_or(Invalid::Member("job_id", rule))?)
}

fn ack(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = Members::parse(body)?;
    let id = job_id(&members)?;
    let result = members.raw("result").map(ToOwned::to_owned);
    let mut store = context.store.lock();
    let job = store.ack(&id, result).map_err(|refused| Problem::of_job(&id, refused))?;
    let answer = Object::new()
        .flag("acknowledged", true)
        .text("job_id", &id)
        .text("state", job.state.as_str())
        .maybe_text("completed_at", job.times.ended.map(rfc3339).as_deref())
        .raw("job", &job.document());
    Ok(document(StatusCode::OK, answer.finish()))
}

fn nack(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = Members::parse(body)?;
    let id = job_id(&members)?;
    let error: Members = members.read("error", "is an object")?.unwrap_or_default();
    let failure = Failure {
        error: members.raw("error").map(ToOwned::to_owned),
        retryable: error.read("retryable", "is true or false")?.unwrap_or(true),
        requeue: members.read("requeue", "is true or false")?.unwrap_or(false),
    };
    let mut store = context.store.lock();
    let job = store.nack(&id, failure).map_err(|refused| Problem::of_job(&id, refused))?;
    let next = job.due_ms.filter(|_| job.state == JobState::Retryable);
    let answer = Object::new()
        .text("job_id", &id)
        .text("state", job.state.as_str())
        .number("attempt", job.attempt)
        .number("max_attempts", job.envelope.retry.attempts_max)
        .maybe_text("next_attempt_at", next.map(rfc3339).as_deref())
        .maybe_text("discarded_at", job.times.ended.map(rfc3339).as_deref())
        .raw("job", &job.document());
    Ok(document(StatusCode::OK, answer.finish()))
}

fn heartbeat(context: &Context, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = Members::parse(body)?;
    // A number here is the dialect of other clients, which servers in the field refuse too.
    let ids: Vec<String> = members.read("active_jobs", "is an array of job ids")?.unwrap_or_default();
    let visibility_ms = members.read("visibility_timeout_ms", "is a whole number")?;
    let extended = context.store.lock().heartbeat(ids, visibility_ms);
    let answer = Object::new()
        .text("state", "running")
        .text("directive", "continue")
        .array("jobs_extended", extended.iter().map(|id| quoted(id)))
        .text("server_time", &rfc3339(context.clock.unix_ms()));
    Ok(document(StatusCode::OK, answer.finish()))
}

const fn status_of(queue: &QueueView) -> &'static str {
    if queue.paused { "paused" } else { "active" }
}

fn counts_members(object: Object, counts: &Counts) -> Object {
    JobState::ALL.into_iter().fold(object, |object, state| object.number(state.as_str(), counts.of(state)))
}

fn queues(context: &Context) -> Response<Body> {
    let queues = context.store.lock().queues();
    let total = queues.len();
    let documents = queues.iter().map(|queue| {
        let object = Object::new().text("name", &queue.name).text("status", status_of(queue));
        counts_members(object, &queue.counts).finish()
    });
    let pagination = Object::new().number("total", total).flag("has_more", false).finish();
    document(StatusCode::OK, Object::new().array("queues", documents).raw("pagination", &pagination).finish())
}

fn queue_stats(context: &Context, name: &str) -> Response<Body> {
    let queue = context.store.lock().queue(name);
    let answer = Object::new()
        .text("queue", name)
        .text("status", status_of(&queue))
        .raw("stats", &counts_members(Object::new(), &queue.counts).finish())
        .text("computed_at", &rfc3339(context.clock.unix_ms()));
    document(StatusCode::OK, answer.finish())
}

fn pause(context: &Context, name: &str, paused: bool) -> Response<Body> {
    let mut store = context.store.lock();
    store.pause(name, paused);
    let when = if paused { "paused_at" } else { "resumed_at" };
    let answer = Object::new()
        .text("queue", name)
        .text("status", status_of(&store.queue(name)))
        .text(when, &rfc3339(context.clock.unix_ms()));
    document(StatusCode::OK, answer.finish())
}

fn admin_stats(context: &Context) -> Response<Body> {
    let queues = context.store.lock().queues();
    let sum = |state: JobState| queues.iter().map(|queue| queue.counts.of(state)).sum::<u64>();
    let depth = sum(JobState::Available) + sum(JobState::Active);
    let object = Object::new().number("queues", queues.len()).number("depth", depth);
    let object = JobState::ALL.into_iter().fold(object, |object, state| object.number(state.as_str(), sum(state)));
    document(StatusCode::OK, object.finish())
}

/// The health document, with any status that it is to claim.
pub(super) fn health(context: &Context, status: &str) -> String {
    let uptime = context.clock.now().saturating_duration_since(context.started).as_secs();
    let backend = Object::new().text("type", "memory").text("status", "connected").finish();
    Object::new()
        .text("status", status)
        .text("version", "1.0")
        .number("uptime_seconds", uptime)
        .raw("backend", &backend)
        .finish()
}

fn manifest(context: &Context) -> Response<Body> {
    let name = format!("ojs-sidecar demo region {}", context.id);
    let implementation = Object::new().text("name", &name).text("version", env!("CARGO_PKG_VERSION"));
    let answer = Object::new()
        .text("ojs_version", "1.0")
        .text("specversion", "1.0")
        .raw("implementation", &implementation.text("language", "rust").finish())
        .number("conformance_level", 0)
        .raw("protocols", r#"["http"]"#)
        .text("backend", "memory")
        .raw("extensions", "[]");
    document(StatusCode::OK, answer.finish())
}

fn define(context: &Context, kind: &'static str, body: &Bytes) -> Result<Response<Body>, Problem> {
    let members = Members::parse(body)?;
    context.store.lock().define(kind, body.clone());
    let id = format!("wf_{}", uuid::Uuid::now_v7());
    let (member, object) = match kind {
        "cron" => ("cron_job", Object::new()),
        _ => ("workflow", Object::new().text("id", &id).text("state", "running")),
    };
    let submitted = members.0.iter().filter(|(key, _)| key != "id" && key != "state");
    let definition = submitted.fold(object, |object, (key, value)| object.raw(key, value.get()));
    Ok(document(StatusCode::CREATED, Object::new().raw(member, &definition.finish()).finish()))
}
