//! Queues: their jobs and their state.

use http::{Response, StatusCode};

use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::queue::{Counts, QueueView};
use crate::state::JobState;
use crate::text::rfc3339;

pub(super) const fn status_of(queue: &QueueView) -> &'static str {
    if queue.paused { "paused" } else { "active" }
}

pub(super) fn counts_members(object: Object, counts: &Counts) -> Object {
    JobState::ALL.into_iter().fold(object, |object, state| object.number(state.as_str(), counts.of(state)))
}

pub(super) fn stats(context: &Context, name: &str) -> Response<Body> {
    let queue = context.store.lock().queue(name);
    let answer = match context.reading.dialect {
        Dialect::Spec => Object::new()
            .text("queue", name)
            .text("status", status_of(&queue))
            .raw("stats", &counts_members(Object::new(), &queue.counts).finish())
            .text("computed_at", &rfc3339(context.clock.unix_ms())),
        Dialect::Reference | Dialect::Redis => {
            let counted = [JobState::Available, JobState::Active, JobState::Completed];
            let object = Object::new().text("name", name);
            let object =
                counted.into_iter().fold(object, |object, state| object.number(state.as_str(), queue.counts.of(state)));
            Object::new().raw("queue", &object.flag("paused", queue.paused).finish())
        }
    };
    document(StatusCode::OK, answer.finish())
}

pub(super) fn pause(context: &Context, name: &str, paused: bool) -> Response<Body> {
    let mut store = context.store.lock();
    store.pause(name, paused);
    let answer = match context.reading.dialect {
        Dialect::Spec => Object::new()
            .text("queue", name)
            .text("status", status_of(&store.queue(name)))
            .text(if paused { "paused_at" } else { "resumed_at" }, &rfc3339(context.clock.unix_ms())),
        Dialect::Reference | Dialect::Redis => {
            Object::new().raw("queue", &Object::new().text("name", name).flag("paused", paused).finish())
        }
    };
    document(StatusCode::OK, answer.finish())
}
