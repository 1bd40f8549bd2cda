//! `GET /ojs/v1/jobs/{id}`: a job may be in any region, because routing put it there.
//!
//! The local region is asked first, where most jobs are, and then the others in the order of the registry. A 404 is passed on
//! only when every region has said so.

use std::time::Instant;

use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;

use super::exchange::Exchange;
use super::local::{Parts, check_breaker, headers_for, local, record, send};
use super::{Proxy, Reply};
use crate::net::body::{Outgoing, Upload};
use crate::net::pool::RegionBody;
use crate::ojs::ErrorDocument;
use crate::policy::{RegionIndex, RequestOutcome};
use crate::telemetry::AttemptOutcome;

/// What a client is told to wait when nothing better is known.
const RETRY_AFTER_MIN: u64 = 1;

/// Passes on the answer of the first region that has the job. Bounded by the number of regions and by one deadline for all.
///
/// Errors: 503 `owner_unavailable` when no region has it and not all of them could be asked.
pub(super) async fn find(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<Incoming>,
) -> Result<Response<Reply>, ErrorDocument> {
    // A read with a body means something that only its own server knows.
    if !request.body().is_end_stream() {
        return local(proxy, exchange, request).await;
    }
    let local_index = proxy.shared.registry.view().local;
    let regions = in_order(proxy);
    let (head, _) = request.into_parts();
    let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let (started, patience) = (Instant::now(), proxy.shared.config.limits.call_timeout);
    let mut nowhere = None;
    let mut unsure = None;
    for (left, index) in (1..=regions.len()).rev().zip(regions) {
        if let Err(document) = check_breaker(proxy, exchange, index) {
            unsure.get_or_insert((index, document));
            continue;
        }
        let headers = headers_for(proxy, exchange, index, head.headers.clone());
        let (method, outgoing, upload) = (head.method.clone(), Outgoing::Empty, Upload::begin());
        let parts = Parts { method, path: path.clone(), headers, outgoing, upload };
        // Each gets its share of the time that is left, so that one that hangs does not hide the job from the client.
        let share = patience.saturating_sub(started.elapsed()) / u32::try_from(left).unwrap_or(u32::MAX);
        let asked = tokio::time::timeout(share, send(proxy, exchange, index, parts, true)).await;
        exchange.upstream = started.elapsed();
        match asked {
            Ok(Ok(response)) if response.status() == StatusCode::NOT_FOUND => {
                nowhere.get_or_insert((index, response));
            }
            // What the local region says otherwise is its word to the client, as with every other call.
            Ok(Ok(response)) if index == local_index || response.status().is_success() => {
                return Ok(passed_on(proxy, response));
            }
            Ok(Err(document)) if exchange.has_vanished() => return Err(document),
            Ok(_) => {
                unsure.get_or_insert_with(|| (index, silent(proxy, index)));
            }
            Err(_) => {
                record(proxy, exchange, index, AttemptOutcome::Unknown, Some(RequestOutcome::Failure));
                unsure.get_or_insert_with(|| (index, silent(proxy, index)));
            }
        }
    }
    // The region of the answer is the one whose word it is, or whose word is missing.
    let region_of = |index| Some(proxy.region(index).id.clone());
    match (unsure, nowhere) {
        (None, Some((index, response))) => {
            exchange.region = region_of(index);
            Ok(passed_on(proxy, response))
        }
        (Some((index, document)), _) => {
            exchange.region = region_of(index);
            Err(document)
        }
        (None, None) => Err(ErrorDocument::no_healthy_region(RETRY_AFTER_MIN)),
    }
}

/// A region that did not say whether it has the job.
fn silent(proxy: &Proxy, index: RegionIndex) -> ErrorDocument {
    ErrorDocument::owner_unavailable(Some(proxy.region(index).id.as_str()), RETRY_AFTER_MIN)
}

fn in_order(proxy: &Proxy) -> Vec<RegionIndex> {
    let view = proxy.shared.registry.view();
    let others = view.indexes().filter(|index| *index != view.local);
    std::iter::once(view.local).chain(others).collect()
}

fn passed_on(proxy: &Proxy, response: Response<RegionBody>) -> Response<Reply> {
    let idle = proxy.shared.config.limits.stream_idle_timeout;
    response.map(|body| Reply::stream(body, idle))
}
