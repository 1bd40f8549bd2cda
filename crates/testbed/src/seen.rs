//! What a request sees of the jobs that are there: those that its replica has, and those that are its caller's.

use http::Method;
use http::request::Parts;

use super::caller::Caller;
use super::context::Context;
use super::view::View;

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
