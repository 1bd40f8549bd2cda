//! Taking an id in a region by a tombstone, so that a write which comes late is refused: for regions that refuse, or return, an id that
//! they have.
//!
//! A tombstone holds nothing of the job but its id. It is due in a hundred years in a queue of its own, and cancelled at once, so that no
//! worker is ever handed it.

use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::Instant;

use super::fresh::ask_fresh;
use crate::base::text::rfc3339;
use crate::ojs::answer::is_error_document;
use crate::ojs::header::{MEDIA_TYPE, OJS_VERSION, VERSION};
use crate::ojs::{progress, tombstone};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::attempt::Call,
    state::{IDENTIFYING, Proxy},
};

/// A tombstone is due so long from now. Units: milliseconds.
const DUE_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1_000;
const JOBS: &str = "/ojs/v1/jobs";

/// The result of a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// It has the id.
    Taken,
    /// Another job has it.
    Met,
    /// The answer is lost, or says nothing.
    Silent,
}

/// When a tombstone is due that is made now.
pub(crate) fn fence_due(now_ms: u64) -> String {
    rfc3339(now_ms.saturating_add(DUE_MS))
}

/// Takes an id in a region by a tombstone. `caller`: the headers of the job's caller, where they are at hand.
pub(crate) async fn fence(
    proxy: &Proxy,
    index: RegionIndex,
    id: &str,
    caller: &HeaderMap,
    deadline: Instant,
) -> Fenced {
    let due = fence_due(proxy.shared.registry.clock().unix_ms());
    let mut headers = own_headers(caller);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    let body = smallvec::smallvec![tombstone(id, &due).into()];
    let call = Call::asking(Method::POST, PathAndQuery::from_static(JOBS), headers, body, deadline);
    let Some(answer) = ask_fresh(proxy, index, call).await else { return Fenced::Silent };
    let shown = progress(&answer.body).filter(|it| it.id.eq_ignore_ascii_case(id));
    match (answer.status, shown) {
        (status, Some(shown)) if status.is_success() => {
            if shown.is_fence {
                proxy.shared.metrics.fences.inc();
                Fenced::Taken
            } else {
                Fenced::Met
            }
        }
        (StatusCode::CONFLICT, _) if is_error_document(&answer.body) => Fenced::Met,
        _ => Fenced::Silent,
    }
}

fn own_headers(caller: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(5);
    for name in &IDENTIFYING {
        for value in caller.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers.insert(OJS_VERSION, HeaderValue::from_static(VERSION));
    headers
}
