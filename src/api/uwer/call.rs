//! Calls about jobs that the ingress makes itself, by the way of any client's call.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};

use crate::base::RegionId;
use crate::net::IncomingBody;
use crate::ojs::ErrorDocument;
use crate::ojs::header::{MEDIA_TYPE, REQUEST_ID, TENANT, TENANT_ID};
use crate::proxy::{Exchange, Proxy};

/// Beside the arguments of a job, for its other members in an answer. Units: bytes.
const MEMBERS_BYTES_MAX: usize = 256 * 1024;
/// Headers of the sender that its job's calls have, too.
const HEADERS: [http::HeaderName; 3] = [TENANT, TENANT_ID, AUTHORIZATION];

/// The answer to a call: that of a region, or a refusal of the proxy.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) status: StatusCode,
    /// The region that answered; none for a refusal.
    pub(super) region: Option<RegionId>,
    pub(super) body: Bytes,
    pub(super) retry_after: Option<HeaderValue>,
    /// Whether the job may or may not be stored.
    pub(super) is_unknown: bool,
}

/// The headers of a sender's request that go on.
pub(super) fn further(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in HEADERS {
        headers.get_all(&name).iter().for_each(|value| {
            kept.append(name.clone(), value.clone());
        });
    }
    kept
}

/// Enqueues a job.
pub(super) async fn enqueue(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, job: String) -> Called {
    call(proxy, exchange, headers, (Method::POST, crate::ojs::JOBS_PATH.to_owned()), Bytes::from(job)).await
}

/// Looks a job up in all regions.
pub(super) async fn look_up(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, id: &str) -> Called {
    let path = format!("{}/{}", crate::ojs::JOBS_PATH, crate::ojs::path_segment(id));
    call(proxy, exchange, headers, (Method::GET, path), Bytes::new()).await
}

/// Makes a call, as the connection of the sender would have brought it.
async fn call(
    proxy: &Proxy,
    exchange: &Exchange,
    headers: &HeaderMap,
    (method, path): (Method, String),
    body: Bytes,
) -> Called {
    let mut request = Request::new(IncomingBody::Whole(body));
    *request.method_mut() = method;
    let Ok(uri) = path.parse() else { return Called::refused(&ErrorDocument::not_found(&path)) };
    *request.uri_mut() = uri;
    request.headers_mut().clone_from(headers);
    request.headers_mut().insert(REQUEST_ID, exchange.request_id().clone());
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    let mut inner = exchange.within(proxy, &request);
    let answered = match proxy.admit(&mut inner, &request) {
        Ok(()) => match proxy.dispatch(&mut inner, Box::new(request)) {
            Ok(answering) => answering.await,
            Err(document) => Err(document),
        },
        Err(document) => Err(document),
    };
    let is_unknown = matches!(&answered, Err(document) if document.is_outcome_unknown());
    let response = answered.unwrap_or_else(|document| inner.refuse(proxy, &document));
    let (status, region) = (response.status(), inner.region.clone());
    let (parts, body) = inner.finish(proxy, response).into_parts();
    let bytes_max = proxy.shared.config.limits.body_bytes.saturating_add(MEMBERS_BYTES_MAX);
    let retry_after = parts.headers.get(RETRY_AFTER).cloned();
    match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Called { status, region, body: body.to_bytes(), retry_after, is_unknown },
        // The head of a region's answer is its word; the rest was lost.
        Err(_) => Called { status, region, body: Bytes::new(), retry_after, is_unknown },
    }
}

impl Called {
    /// A call without the time for its answer.
    pub(super) const fn late() -> Self {
        let status = StatusCode::GATEWAY_TIMEOUT;
        Self { status, region: None, body: Bytes::new(), retry_after: None, is_unknown: false }
    }

    fn refused(document: &ErrorDocument) -> Self {
        let body = Bytes::from(document.to_json(""));
        Self { status: document.status, region: None, body, retry_after: None, is_unknown: false }
    }
}
