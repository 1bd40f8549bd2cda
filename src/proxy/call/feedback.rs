//! Feedback of a call to its region's breaker and guards.

use std::hash::BuildHasher as _;
use std::time::Duration;

use foldhash::fast::FixedState;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};

use crate::ojs::header::QUEUE_STATUS;
use crate::ojs::retry_after_seconds;
use crate::policy::{Attempt, GuardClass, RegionIndex, Shown};
use crate::proxy::state::Proxy;
use crate::region::RequestFailure;

/// The same for all threads, which count together.
const SOURCES: FixedState = FixedState::with_seed(0);

/// The possible cause of a 500 as a number: a hash of the job type, or of a path with an id in it.
pub(crate) fn source(of: &str) -> u64 {
    SOURCES.hash_one(of)
}

/// No answer came in time, or no connection.
pub(crate) const TIMEOUT: &str = "timeout";
/// The connection ended before the answer did.
pub(crate) const BROKEN: &str = "connection_broken";

/// Records the reason for which a request got no answer, before the region's breaker counts it.
#[cold]
pub(crate) fn unanswered(proxy: &Proxy, index: RegionIndex, reason: &'static str) {
    proxy.region(index).note_failure(RequestFailure { reason, status: None });
}

/// Records an answer that is a failure, before the region's breaker counts it.
#[cold]
pub(crate) fn failed(proxy: &Proxy, index: RegionIndex, status: u16) {
    proxy.region(index).note_failure(RequestFailure { reason: "http_status", status: Some(status) });
}

/// Reports an answer, or the lack of a whole one, to the region's breaker and guards.
pub(crate) fn report(
    proxy: &Proxy,
    index: RegionIndex,
    class: GuardClass,
    answer: Option<(StatusCode, &HeaderMap)>,
    source: impl FnOnce() -> Option<u64>,
) {
    let (status, headers) = answer.unzip();
    let status = status.map(|status| status.as_u16());
    // Only a server error has a possible cause in the job or path.
    let source = if status.is_some_and(|status| status >= 500) { source() } else { None };
    // It says something of a 503 alone.
    let queue_status = status == Some(503) && headers.is_some_and(|headers| headers.contains_key(QUEUE_STATUS));
    let retry_after = headers.and_then(|headers| asked_for(proxy, headers));
    let attempt = Attempt { class, status, queue_status, retry_after, source };
    if let (Some(status @ 500..), Shown::Failure | Shown::ServerError) = (status, attempt.shown()) {
        failed(proxy, index, status);
    }
    proxy.shared.registry.on_attempt(index, &attempt);
}

/// How long a region asks to be left alone.
fn asked_for(proxy: &Proxy, headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?;
    Some(Duration::from_secs(retry_after_seconds(value.as_bytes(), proxy.shared.registry.clock().unix_ms())))
}
