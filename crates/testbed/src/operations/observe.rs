//! Endpoints outside the API: readiness and figures for monitoring.

use std::fmt::Write as _;

use http::{Response, StatusCode};

use crate::answer::{Body, Object, document, full, typed};
use crate::context::Context;
use crate::state::JobState;

/// `GET /ready` and `/readyz`. A region in memory is ready as soon as it answers.
pub(super) fn ready() -> Response<Body> {
    document(StatusCode::OK, Object::new().text("status", "ready").finish())
}

/// `GET /metrics`: jobs by state.
pub(super) fn metrics(context: &Context) -> Response<Body> {
    let queues = context.store.lock().queues();
    let mut text = "# HELP ojs_jobs Jobs by state.\n# TYPE ojs_jobs gauge\n".to_owned();
    for state in JobState::ALL {
        let count: u64 = queues.iter().map(|queue| queue.counts.of(state)).sum();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "ojs_jobs{{state=\"{}\"}} {count}", state.as_str());
    }
    typed(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", full(text))
}
