//! Lists of jobs, dead letters, queues, workers and events, part by part.
//!
//! Orders, which are stable: jobs newest first by the time they were created and then by id; dead letters by the time they died and
//! then by id; queues by name, workers and subscriptions by id, schemas by URI; history oldest first for one job and newest first
//! for all.

use http::request::Parts;
use http::{Response, StatusCode};

use super::queue::{counts_members, status_of};
use crate::answer::{Body, Object, document, quoted};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::events::Event;
use crate::filter::Filter;
use crate::job::Job;
use crate::page::{Bounds, LISTS, Numbered, Page, Part, dead_letters};
use crate::problem::Problem;
use crate::query::parameter;
use crate::queue::QueueView;
use crate::store::WorkerView;
use crate::text::rfc3339;

/// The most entries of a history that one answer holds.
const HISTORY: Bounds = Bounds { usual: 50, max: 1_000 };

type Answer = Result<Response<Body>, Problem>;

fn answered(member: &str, documents: impl IntoIterator<Item = String>, pagination: &str) -> Response<Body> {
    document(StatusCode::OK, Object::new().array(member, documents).raw("pagination", pagination).finish())
}

fn jobs_answered(member: &str, part: Part<&Job>) -> Response<Body> {
    answered(member, part.items.into_iter().map(Job::document), &part.pagination)
}

/// `GET /jobs`, and the same of one queue.
pub(super) fn jobs(context: &Context, head: &Parts, queue: Option<String>) -> Answer {
    let mut filter = Filter::asked(head)?;
    filter.queue = queue.or(filter.queue);
    let page = Page::read(context, head, LISTS)?;
    Ok(jobs_answered("jobs", page.part(context.store.lock().select(&filter))))
}

/// `GET /dead-letter`.
pub(super) fn dead(context: &Context, head: &Parts) -> Answer {
    let filter = Filter { states: Vec::new(), ..Filter::asked(head)? };
    let page = Page::read(context, head, dead_letters(context.reading.dialect))?;
    Ok(jobs_answered("jobs", page.part(context.store.lock().select_dead(&filter))))
}

/// `GET /queues`. Servers in Go return all of them, for any parameter.
pub(super) fn queues(context: &Context, head: &Parts) -> Answer {
    let entry = |queue: QueueView| {
        let object = Object::new().text("name", &queue.name).text("status", status_of(&queue));
        counts_members(object, &queue.counts).finish()
    };
    let page = Page::read(context, head, LISTS)?;
    let list = context.store.lock().select_queues();
    if context.reading.dialect.in_go() {
        let pagination = Object::new().number("total", list.len()).number("limit", LISTS.usual).number("offset", 0);
        let entries = list.into_iter().map(|(_, queue)| entry(queue));
        return Ok(answered("queues", entries, &pagination.flag("has_more", false).finish()));
    }
    let part = page.part(list);
    Ok(answered("queues", part.items.into_iter().map(entry), &part.pagination))
}

/// `GET /admin/jobs`.
pub(super) fn admin_jobs(context: &Context, head: &Parts) -> Answer {
    let (filter, page) = (Filter::asked(head)?, Numbered::read(context, head, 25)?);
    Ok(jobs_answered("items", page.part(context.store.lock().select(&filter))))
}

/// `GET /admin/dead-letter`.
pub(super) fn admin_dead(context: &Context, head: &Parts) -> Answer {
    let (asked, page) = (Filter::asked(head)?, Numbered::read(context, head, 25)?);
    // Servers in Go do not filter here.
    let filter = if context.reading.dialect == Dialect::Spec { asked } else { Filter::default() };
    Ok(jobs_answered("items", page.part(context.store.lock().select_dead(&filter))))
}

/// `GET /admin/queues`. Servers in Go hand out all of them as one page.
pub(super) fn admin_queues(context: &Context, head: &Parts) -> Answer {
    let dialect = context.reading.dialect;
    let page = Numbered::read(context, head, 25)?;
    let list = context.store.lock().select_queues();
    if dialect.in_go() {
        let pagination = Object::new().number("total", list.len()).number("page", 1).number("per_page", list.len());
        let entries = list.iter().map(|(_, queue)| admin_queue(queue, dialect).finish());
        return Ok(answered("items", entries, &pagination.finish()));
    }
    let part = page.part(list);
    Ok(answered("items", part.items.iter().map(|queue| admin_queue(queue, dialect).finish()), &part.pagination))
}

/// A queue as the administration shows it.
pub(super) fn admin_queue(queue: &QueueView, dialect: Dialect) -> Object {
    let object = Object::new().text("name", &queue.name);
    let object = if dialect == Dialect::Spec { object.text("state", status_of(queue)) } else { object };
    let counts = counts_members(Object::new(), &queue.counts).finish();
    object.raw("counts", &counts).flag("paused", queue.paused)
}

/// `GET /admin/workers`.
pub(super) fn admin_workers(context: &Context, head: &Parts) -> Answer {
    let page = Numbered::read(context, head, 50)?;
    let list = context.store.lock().select_workers();
    let count = |state: &str| list.iter().filter(|(_, worker)| worker.state == state).count();
    let summary = Object::new()
        .number("total", list.len())
        .number("running", count("running"))
        .number("quiet", count("quiet"))
        .number("stale", count("stale"))
        .finish();
    let named = list.into_iter().map(|(id, worker)| (id.clone(), (id, worker))).collect();
    let part = page.part(named);
    let items = part.items.into_iter().map(|(id, worker)| admin_worker(&id, &worker));
    let answer = Object::new().array("items", items).raw("summary", &summary).raw("pagination", &part.pagination);
    Ok(document(StatusCode::OK, answer.finish()))
}

fn admin_worker(id: &str, worker: &WorkerView) -> String {
    Object::new()
        .text("id", id)
        .text("state", worker.state)
        .array("queues", worker.queues.iter().map(|name| quoted(name)))
        .number("active_jobs", worker.active)
        .text("started_at", &rfc3339(worker.first_ms))
        .text("last_heartbeat_at", &rfc3339(worker.last_ms))
        .finish()
}

/// One worker: its state, and its entry in the list.
///
/// Errors: [`Problem::NoSuch`] for one that never showed itself.
pub(super) fn worker(context: &Context, id: &str) -> Result<(&'static str, String), Problem> {
    let found = context.store.lock().select_workers().into_iter().find(|(name, _)| name == id);
    let shown = found.map(|(_, worker)| (worker.state, admin_worker(id, &worker)));
    shown.ok_or_else(|| Problem::NoSuch("worker", id.to_owned()))
}

fn history_entry(event: &Event) -> String {
    Object::new()
        .text("id", &event.id)
        .text("job_id", &event.subject)
        .text("event_type", event.kind)
        .text("timestamp", &rfc3339(event.at_ms))
        .raw("actor", r#"{"type":"system"}"#)
        .raw("data", event.data())
        .finish()
}

/// `GET /jobs/{id}/history`: its remaining events, oldest first.
pub(super) fn job_history(context: &Context, head: &Parts, id: &str) -> Answer {
    let page = Page::read(context, head, HISTORY)?;
    let mut store = context.store.lock();
    if store.job(id).is_none() {
        return Err(Problem::NoSuchJob(id.to_owned()));
    }
    let events = store.events().all().filter(|(_, event)| !event.job_type.is_empty() && event.subject == id);
    let part = page.part(events.map(|(place, event)| (format!("{place:020}"), event)).collect());
    Ok(history_answer(&part, "total"))
}

/// `GET /history`: of all jobs, newest first.
pub(super) fn history(context: &Context, head: &Parts) -> Answer {
    let page = Page::read(context, head, HISTORY)?;
    let list = |name| parameter(&head.uri, name).filter(|text| !text.is_empty());
    let (kinds, queues, job_types) = (list("event_types"), list("queues"), list("job_types"));
    let among =
        |list: &Option<String>, text: &str| list.as_ref().is_none_or(|list| list.split(',').any(|entry| entry == text));
    let wants = |event: &Event| {
        let is_of_job = !event.job_type.is_empty();
        is_of_job && among(&kinds, event.kind) && among(&queues, &event.queue) && among(&job_types, &event.job_type)
    };
    let mut store = context.store.lock();
    let events = store.events().all().filter(|(_, event)| wants(event));
    let part = page.part(events.map(|(place, event)| (format!("{:020}", u64::MAX - place), event)).collect());
    Ok(history_answer(&part, "total_estimate"))
}

fn history_answer(part: &Part<&Event>, total: &str) -> Response<Body> {
    let answer = Object::new()
        .array("events", part.items.iter().map(|event| history_entry(event)))
        .maybe_text("next_cursor", part.next_cursor.as_deref())
        .number(total, part.total);
    document(StatusCode::OK, answer.finish())
}
