//! What a request sees of the jobs that are there: those that its replica has, and those that are its caller's.

use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, Method, header};

use super::service::Context;
use super::tenant;

/// What the faults leave a request to see.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct View {
    /// How far its replica is behind.
    pub(super) lag: Duration,
    /// Whether other callers' jobs are hidden.
    pub(super) own_only: bool,
}

/// Who calls, by what the call brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Caller {
    authorization: Option<HeaderValue>,
    tenant: Option<String>,
}

impl Caller {
    pub(super) fn of(head: &Parts) -> Self {
        Self { authorization: head.headers.get(header::AUTHORIZATION).cloned(), tenant: tenant::of(head) }
    }
}

/// Whether a job that is there is not there for this request. A job of nobody is everybody's.
pub(super) fn is_hidden(context: &Context, head: &Parts, id: &str) -> bool {
    let Some(view) = head.extensions.get::<View>() else { return false };
    let now_ms = context.clock.unix_ms();
    let lag_ms = u64::try_from(view.lag.as_millis()).unwrap_or(u64::MAX);
    let mut store = context.store.lock();
    let Some(job) = store.job(id) else { return false };
    let has_not_arrived = head.method == Method::GET && now_ms < job.times.first.saturating_add(lag_ms);
    let owner = &job.envelope.caller;
    let is_anothers = *owner != Caller::default() && *owner != Caller::of(head);
    has_not_arrived || view.own_only && is_anothers
}
