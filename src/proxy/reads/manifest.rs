//! `GET /ojs/manifest`: that of the local region, with the additions of the federation.
//!
//! All regions are asked at once, because a call may go to any of them: clients can rely on the lowest level only. The
//! texts are those of the local region, or of another one while the local one does not answer.

use std::time::{Duration, Instant};

use crate::net::IncomingBody;
use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, ETAG, LAST_MODIFIED};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode};

use super::health::is_usable;
use crate::ojs::{Class, ErrorDocument, conformance_level, federated_manifest, restricted_manifest};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::{
        ask::{Question, ask},
        exchange::Exchange,
        fan_out::read_headers,
    },
    state::{Proxy, RegionAnswer, Reply},
    stream::local::local,
};

/// Clients ask for the manifest first, so that a region which hangs is left out. Unit: a duration.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers for the federation. A client that named a region gets that region's own manifest, without codings that the
/// sidecar does not read.
///
/// Errors: 503 `owner_unavailable` when no region answers.
pub(crate) async fn manifest(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    if exchange.addressed.is_some() && request.method() != Method::GET {
        return local(proxy, exchange, request).await;
    }
    let started = Instant::now();
    let mut answers = answers(proxy, exchange, &request).await;
    exchange.upstream = started.elapsed();
    let levels = answers.iter().filter(|(_, answer)| answer.status == StatusCode::OK);
    let lowest = levels.filter_map(|(_, answer)| conformance_level(&answer.body)).min();
    let named = exchange.addressed;
    let whole = |answer: &RegionAnswer| {
        let is_manifest = answer.status == StatusCode::OK;
        let manifest = || match named {
            Some(_) => restricted_manifest(&answer.body),
            None => federated_manifest(&answer.body, lowest),
        };
        is_manifest.then(manifest).flatten().map(Bytes::from)
    };
    let found = answers.iter().enumerate().find_map(|(place, (_, answer))| Some((place, whole(answer)?)));
    let (place, manifest) = match found {
        Some((place, manifest)) => (place, Some(manifest)),
        // No region has a manifest, and the client can act on the local region's answer, such as a 401.
        None => (0, None),
    };
    if answers.is_empty() {
        let region = named.map(|index| proxy.region(index).id.as_str());
        return Err(ErrorDocument::owner_unavailable(region, 1));
    }
    let (index, answer) = answers.swap_remove(place);
    exchange.region = Some(proxy.region(index).id.clone());
    Ok(response(answer, manifest))
}

/// The manifests of the regions that may be asked, the local one's first.
async fn answers(
    proxy: &Proxy,
    exchange: &Exchange,
    request: &Request<IncomingBody>,
) -> Vec<(RegionIndex, RegionAnswer)> {
    let headers = read_headers(exchange, request.headers());
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/ojs/manifest"));
    let patience = PATIENCE.min(proxy.shared.config.limits.call_timeout);
    let question = Question::get(path, headers, tokio::time::Instant::now() + patience);
    let view = proxy.shared.registry.view();
    let others = view.indexes().filter(|index| *index != view.local && is_usable(view.region(*index)));
    let all = std::iter::once(view.local).chain(others);
    let named = exchange.addressed;
    let asked = named.into_iter().chain(all.filter(|_| named.is_none()));
    let one = |index| {
        let question = question.clone();
        async move { Some((index, ask(proxy, Class::System, index, question).await.ok()?)) }
    };
    join_all(asked.map(one)).await.into_iter().flatten().collect()
}

/// The region's answer, with the manifest of the federation for a body where there is one.
fn response(answer: RegionAnswer, manifest: Option<Bytes>) -> Response<Reply> {
    let mut headers = answer.headers;
    if manifest.is_some() {
        // These headers describe the region's own bytes.
        for name in [CONTENT_LENGTH, ETAG, LAST_MODIFIED, ACCEPT_RANGES] {
            headers.remove(name);
        }
    }
    let mut response = Response::new(Reply::full(manifest.unwrap_or(answer.body)));
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers;
    response
}
