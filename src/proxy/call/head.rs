//! The part of a call that goes on to a region, and the reading of its body.

use std::time::Duration;

use crate::net::IncomingBody;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::uri::PathAndQuery;
use http::{HeaderMap, Request};

use super::exchange::Exchange;
use super::header_flags::HeaderFlags;
use crate::net::headers::strip_hop_by_hop;
use crate::ojs::header::{BLOCK_TIMEOUT, REQUEST_ID, TENANT, TENANT_ID};
use crate::ojs::{ErrorDocument, JOBS_PATH};
use crate::proxy::{
    body::{
        collect::collect_body,
        encoding::{self, Encoding},
    },
    state::Proxy,
};

/// Where nearly all jobs are sent.
const JOBS: PathAndQuery = PathAndQuery::from_static(JOBS_PATH);
/// A region that may hold an enqueue back gets this much longer than it asked for.
const BLOCK_MARGIN: Duration = Duration::from_secs(5);
/// The longest that a client may ask a region to hold an enqueue back.
const BLOCK_MAX: Duration = Duration::from_secs(600);

/// The part of a call that travels whichever region it goes to.
pub(crate) struct Head {
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) deadline: tokio::time::Instant,
}

/// Reads the body of a call that creates jobs. Not an async function: its future would hold a copy of the request
/// before the request is taken apart.
///
/// Errors: the error document for the client.
pub(crate) fn read<'r>(
    proxy: &'r Proxy,
    exchange: &Exchange,
    request: Request<IncomingBody>,
) -> impl Future<Output = Result<(Head, bytes::Bytes), ErrorDocument>> + use<'r> {
    let parts = in_parts(proxy, exchange, request);
    async move {
        let (head, body, until, encoding) = parts?;
        let body = collect_body(proxy, body, until).await?;
        Ok((head, encoding.decoded(proxy, body).await?.hold()))
    }
}

/// A request without its box, which would else stay, emptied, as long as the call takes.
pub(crate) fn unboxed(request: Box<Request<IncomingBody>>) -> Request<IncomingBody> {
    *request
}

/// The part of a call that goes on, its body, the deadline for the body to arrive, and its coding.
pub(crate) fn in_parts(
    proxy: &Proxy,
    exchange: &Exchange,
    request: Request<IncomingBody>,
) -> Result<(Head, IncomingBody, tokio::time::Instant, Encoding), ErrorDocument> {
    let (parts, body) = request.into_parts();
    let mut headers = parts.headers;
    let noted = exchange.header_flags;
    let encoding =
        if noted.has(HeaderFlags::CONTENT_ENCODING) { encoding::take(&mut headers)? } else { Encoding::Plain };
    let begun = tokio::time::Instant::from_std(exchange.started());
    let usual = proxy.shared.config.limits.call_timeout;
    let deadline = begun + if noted.has(HeaderFlags::BLOCK_TIMEOUT) { call_timeout(usual, &headers) } else { usual };
    if noted.has(HeaderFlags::HOP_BY_HOP) {
        strip_hop_by_hop(&mut headers);
    }
    // The length changes with the stamp, and the answer must be readable to us.
    if !body.is_whole() {
        headers.remove(CONTENT_LENGTH);
    }
    if noted.has(HeaderFlags::ACCEPT_ENCODING) {
        headers.remove(ACCEPT_ENCODING);
    }
    headers.insert(REQUEST_ID, exchange.request_id().clone());
    // The usual path is not taken from the connection's buffer, which else stays as long as the call does.
    let path = parts.uri.path_and_query().filter(|path| **path != *JOBS.as_str()).cloned().unwrap_or(JOBS);
    // However long a region may hold the job back, the client may not take its time to send it.
    Ok((Head { path, headers, deadline }, body, begun + usual, encoding))
}

/// The deadline of the whole call: longer than usual when the client lets the region hold it back.
fn call_timeout(usual: Duration, headers: &HeaderMap) -> Duration {
    asked_for(headers).map_or(usual, |asked| asked.max(usual))
}

/// How long a call may take of which the client says for how long the region may hold it back; none where it does not.
pub(crate) fn asked_for(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(BLOCK_TIMEOUT)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(BLOCK_MAX) + BLOCK_MARGIN)
}

/// Reads the body of a dry run, by the rules for enqueues.
///
/// Errors: the error document for the client.
pub async fn read_body(
    proxy: &Proxy,
    exchange: &Exchange,
    request: Request<IncomingBody>,
) -> Result<bytes::Bytes, ErrorDocument> {
    Ok(read(proxy, exchange, request).await?.1)
}

/// The tenant of a call, by either spelling of the header; an empty one names none.
///
/// Errors: 400 where the headers name two tenants, or a value that is not visible text.
pub fn tenant_of(exchange: &Exchange, headers: &HeaderMap) -> Result<Option<String>, ErrorDocument> {
    if !exchange.header_flags.has(HeaderFlags::TENANT) {
        return Ok(None);
    }
    let mut named: Option<&str> = None;
    let spelled = [TENANT, TENANT_ID];
    for value in spelled.iter().flat_map(|name| headers.get_all(name)) {
        let value = value.to_str().map_err(|_| ErrorDocument::tenants_differ())?;
        if named.is_some_and(|other| other != value) {
            return Err(ErrorDocument::tenants_differ());
        }
        named = Some(value);
    }
    Ok(named.filter(|tenant| !tenant.is_empty()).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_client_that_lets_the_region_hold_its_job_back_gets_a_later_deadline() {
        let check = |asked: Option<&'static str>, seconds: u64| {
            let mut headers = HeaderMap::new();
            if let Some(asked) = asked {
                headers.insert(BLOCK_TIMEOUT, HeaderValue::from_static(asked));
            }
            assert_eq!(call_timeout(Duration::from_secs(25), &headers), Duration::from_secs(seconds), "{asked:?}");
        };
        check(None, 25);
        check(Some("5"), 25);
        check(Some("60"), 65);
        check(Some("99999999"), 605);
        check(Some("soon"), 25);
        check(Some("-1"), 25);
    }
}
