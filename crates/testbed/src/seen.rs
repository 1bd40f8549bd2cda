//! A request's view of the jobs: those that its replica has, and those of its caller.

use http::Method;
use http::request::Parts;

use super::caller::Caller;
use super::context::Context;
use super::view::View;

/// Whether an existing job is hidden from this request. A job without an owner is visible to all.
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
