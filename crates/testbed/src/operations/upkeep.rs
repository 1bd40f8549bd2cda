//! Upkeep of single jobs and queues: progress, checkpoints, priority, purging, configuration.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::dead_letter::number_of_dead;
use super::queue::{counts_members, status_of};
use super::{bulk, definition, limit, list, worker};
use crate::act::Act;
use crate::answer::{Body, Object, document, quoted};
use crate::bounds::Bound;
use crate::context::Context;
use crate::dialect::Dialect;
use crate::filter::Filter;
use crate::members::{Invalid, Members, Raw};
use crate::notes::Progress;
use crate::problem::Problem;
use crate::routes::UpkeepRoute as Route;
use crate::state::JobState;
use crate::store::Store;

type Answer = Result<Response<Body>, Problem>;

/// Serves an operation of upkeep.
///
/// Errors: [`Problem`], before anything was changed.
pub(super) fn serve(context: &Context, route: Route, head: &Parts, body: &Bytes) -> Answer {
    let in_spec = context.reading.dialect == Dialect::Spec;
    match (head.method.as_str(), route) {
        ("POST", Route::Bulk(act)) => bulk::jobs(context, act, body),
        ("POST", Route::JobAck(id)) => worker::ack(context, Some(id), body),
        ("POST", Route::JobNack(id)) => worker::nack(context, Some(id), body),
        ("GET", Route::JobProgress(id)) => {
            let mut store = context.store.lock();
            let job = store.job(&id).ok_or(Problem::NoSuchJob(id))?;
            Ok(document(StatusCode::OK, job.notes.progress_document(&job.id, job.state)))
        }
        ("PUT", Route::JobProgress(id)) => progress(context, id, &Members::parse(body)?),
        ("GET", Route::WorkerHealth(id)) => {
            let (state, worker) = list::worker(context, &id)?;
            let answer = Object::new().text("status", "healthy").text("state", state).raw("worker", &worker);
            Ok(document(StatusCode::OK, answer.finish()))
        }
        ("POST", Route::WorkerBeat) => worker::beat(context, body),
        ("GET", Route::RateLimits) => limit::list(context, head),
        (_, Route::RateLimit(key)) => limit::one(context, head, key, body),
        ("POST", Route::WorkerProgress) => {
            let members = Members::parse(body)?;
            progress(context, worker::job_id(&members)?, &members)
        }
        ("GET", Route::JobCheckpoint(id)) => checkpoint(context, id),
        ("POST", Route::JobCheckpoint(id)) => save_checkpoint(context, id, body),
        ("PUT", Route::JobCheckpoint(id)) if in_spec => save_checkpoint(context, id, body),
        ("DELETE", Route::JobCheckpoint(id)) => {
            if !context.store.lock().drop_checkpoint(&id) {
                return Err(Problem::NoSuch("checkpoint", id));
            }
            Ok(document(StatusCode::OK, Object::new().flag("deleted", true).text("job_id", &id).finish()))
        }
        ("GET", Route::JobHistory(id)) => list::job_history(context, head, &id),
        ("GET", Route::DeadLetterStats) => Ok(number_of_dead(context)),
        ("POST", Route::DeadLettersRetry) => bulk::dead(context, Act::Retry, body),
        ("GET", Route::Queue(name)) => queue(context, &name),
        ("DELETE", Route::Queue(name)) => delete_queue(context, &name, body),
        ("POST", Route::QueuePurge(name)) => purge(context, &name, body, false),
        ("PUT" | "GET", Route::QueueConfig(name)) => queue_config(context, head, &name, body),
        ("GET", Route::QueueJobs(name)) => list::jobs(context, head, Some(name)),
        ("GET", Route::History) => list::history(context, head),
        (_, definition) => definition::serve(context, definition, head, body),
    }
}

/// `PATCH jobs/{id}`: of a job that waits.
pub(super) fn set_priority(context: &Context, id: &str, body: &Bytes) -> Answer {
    let rule = "is a number from -100 to 100";
    let priority: Option<i64> = Members::parse(body)?.read("priority", rule)?;
    let priority = priority.filter(|priority| (-100..=100).contains(priority));
    let priority = priority.ok_or(Invalid::Member("priority", rule))?;
    let mut store = context.store.lock();
    let (previous, job) = store.set_priority(id, priority).map_err(|refused| Problem::of_job(id, refused))?;
    let answer = Object::new()
        .text("id", id)
        .number("priority", priority)
        .number("previous_priority", previous)
        .raw("job", &job.document());
    Ok(document(StatusCode::OK, answer.finish()))
}

/// The documents give a share of 1, and clients a percentage.
fn progress(context: &Context, id: String, members: &Members) -> Answer {
    let of_one: Option<f64> = members.read("progress", "is a number from 0 to 1")?;
    let of_hundred: Option<f64> = members.read("percentage", "is a number from 0 to 100")?;
    // By the documents a value beyond either end counts as the end.
    let share = of_one.or(of_hundred.map(|percentage| percentage / 100.0)).map(|share| share.clamp(0.0, 1.0));
    let progress = Progress {
        share: share.and_then(|share| serde_json::value::to_raw_value(&share).ok()),
        message: members.raw("message").map(ToOwned::to_owned),
        data: members.raw("data").map(ToOwned::to_owned),
        at_ms: context.clock.unix_ms(),
    };
    let mut store = context.store.lock();
    if let Some(state) = members.raw("checkpoint") {
        // As with progress: of a job that is not active any more it has only been overtaken.
        let _ = store.note_checkpoint(&id, state.to_owned());
    }
    let job = store.note_progress(&id, progress).ok_or(Problem::NoSuchJob(id))?;
    Ok(document(StatusCode::OK, job.notes.progress_document(&job.id, job.state)))
}

fn checkpoint(context: &Context, id: String) -> Answer {
    let mut store = context.store.lock();
    let checkpoint = store.job(&id).and_then(|job| job.notes.checkpoint.as_ref());
    let checkpoint = checkpoint.ok_or_else(|| Problem::NoSuch("checkpoint", id.clone()))?;
    Ok(document(StatusCode::OK, checkpoint.document(&id, true)))
}

fn save_checkpoint(context: &Context, id: String, body: &Bytes) -> Answer {
    let members = Members::parse(body)?;
    let state = members.raw("state").ok_or(Invalid::Member("state", "is there"))?.to_owned();
    let mut store = context.store.lock();
    let job = store.note_checkpoint(&id, state).map_err(|refused| Problem::of_job(&id, refused))?;
    let saved = job.notes.checkpoint.as_ref().map(|checkpoint| checkpoint.document(&id, false));
    saved.map(|saved| document(StatusCode::OK, saved)).ok_or(Problem::NoSuch("checkpoint", id))
}

/// `GET queues/{n}`.
fn queue(context: &Context, name: &str) -> Answer {
    let mut store = context.store.lock();
    if !store.has_queue(name) {
        return Err(Problem::NoSuch("queue", name.to_owned()));
    }
    let queue = store.queue(name);
    let open = JobState::ALL.into_iter().filter(|state| !state.is_terminal());
    let depth: u64 = open.map(|state| queue.counts.of(state)).sum();
    let stats = counts_members(Object::new().number("depth", depth), &queue.counts).finish();
    let object = config_members(&mut store, name).raw("stats", &stats);
    Ok(document(StatusCode::OK, object.finish()))
}

fn config_members(store: &mut Store, name: &str) -> Object {
    let state = status_of(&store.queue(name));
    let config = store.kept().configs.get(name).map_or("{}", |config| config.get()).to_owned();
    Object::new().text("name", name).text("state", state).raw("config", &config)
}

/// `GET` and `PUT queues/{n}/config`: kept as it came; only `backpressure` has an effect.
pub(super) fn queue_config(context: &Context, head: &Parts, name: &str, body: &Bytes) -> Answer {
    let mut store = context.store.lock();
    if head.method == http::Method::PUT {
        let bound = Bound::read(&Members::parse(body)?)?;
        let config: Raw = serde_json::from_slice(body).map_err(|_| Invalid::Payload)?;
        store.bound(name, bound);
        store.kept().configs.put(name, config);
    } else if !store.has_queue(name) {
        return Err(Problem::NoSuch("queue", name.to_owned()));
    }
    Ok(document(StatusCode::OK, config_members(&mut store, name).finish()))
}

/// `POST queues`: the name, and beside it the configuration, which is kept as it came; only `backpressure` has an effect.
pub(super) fn create_queue(context: &Context, body: &Bytes) -> Answer {
    let rule = "is the name of a queue";
    let members = Members::parse(body)?;
    let name: String = members.read("name", rule)?.ok_or(Invalid::Member("name", rule))?;
    let bound = Bound::read(&members)?;
    let config: Raw = serde_json::from_slice(body).map_err(|_| Invalid::Payload)?;
    let mut store = context.store.lock();
    store.bound(&name, bound);
    store.kept().configs.put(&name, config);
    Ok(document(StatusCode::CREATED, config_members(&mut store, &name).finish()))
}

/// `DELETE queues/{n}`: only an idle one, unless the jobs in it are to be discarded.
fn delete_queue(context: &Context, name: &str, body: &Bytes) -> Answer {
    let members = if body.is_empty() { Members::default() } else { Members::parse(body)? };
    let strategy: Option<String> = members.read("strategy", "is reject or discard")?;
    let strategy = strategy.as_deref().unwrap_or("reject");
    if !matches!(strategy, "reject" | "discard") {
        return Err(Invalid::Member("strategy", "is reject or discard").into());
    }
    let deleted = context.store.lock().delete_queue(name, strategy == "discard");
    let affected = deleted.map_err(|refused| match Problem::of_job(name, refused) {
        Problem::NoSuchJob(_) => Problem::NoSuch("queue", name.to_owned()),
        other => other,
    })?;
    let answer = Object::new()
        .text("queue", name)
        .text("strategy", strategy)
        .number("jobs_affected", affected)
        .text("state", "deleted");
    Ok(document(StatusCode::ACCEPTED, answer.finish()))
}

/// Takes jobs out of a queue: those in the states that are named, which the administration must name, or all that wait.
pub(super) fn purge(context: &Context, name: &str, body: &Bytes, by_administration: bool) -> Answer {
    let members = if body.is_empty() { Members::default() } else { Members::parse(body)? };
    let rule = "is an array of states";
    let states: Option<Vec<String>> = members.read("states", rule)?;
    if by_administration && members.read("confirm", "is true or false")? != Some(true) {
        return Err(Invalid::Member("confirm", "is true, since purging is for good").into());
    }
    if by_administration && states.is_none() {
        return Err(Invalid::Member("states", rule).into());
    }
    let states = match states {
        Some(names) => Filter::named(&names)?,
        None => vec![JobState::Pending, JobState::Scheduled, JobState::Available, JobState::Retryable],
    };
    let purged = context.store.lock().purge(name, &states);
    let names = states.iter().map(|state| quoted(state.as_str()));
    let answer = Object::new().text("queue", name).number("purged_count", purged).array("states", names);
    Ok(document(StatusCode::OK, answer.finish()))
}
