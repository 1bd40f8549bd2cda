//! The bodies of calls that we do not interpret, before they stream to a region.
//!
//! A body that is no job to us may be one to a server: `PUT /ojs/v1/jobs`, a path of the next version of the protocol,
//! a method that some framework takes for POST. In such calls the body is read first, and one with a routing key that
//! the region does not satisfy is refused. At an unknown path, rules and tenants that bind jobs to regions bind
//! possible jobs, too, and none of a paused type or tenant passes. Known data (results, checkpoints, schemas) is never read.

use std::future::poll_fn;
use std::rc::Rc;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body::Body as _;

use crate::net::body::{Outgoing, Upload};
use crate::net::{IncomingBody, Violation};
use crate::ojs::{ErrorDocument, Fault, Operation, Payload, jobs_within, routing_within};
use crate::policy::RegionIndex;
use crate::proxy::{
    body::{
        collect::{broken_body, collect_body},
        encoding::{self, Encoding},
    },
    call::{exchange::Exchange, head::tenant_of},
    routing::{
        bound::{check_keys, check_routing},
        paused::check_sources,
    },
    state::Proxy,
};

/// The body as it may be sent to the region: a stream, or read and found harmless.
///
/// Errors: 422 for a job that may not go there, 403 for a pin that a rule forbids, 400 for a body that cannot be read with certainty, 413 and 408 as for enqueues.
pub(crate) async fn vet(
    proxy: &Proxy,
    exchange: &Exchange,
    index: RegionIndex,
    headers: &mut HeaderMap,
    mut body: IncomingBody,
    upload: &Rc<Upload>,
) -> Result<Outgoing, ErrorDocument> {
    if body.is_end_stream() {
        return Ok(Outgoing::EMPTY);
    }
    let limits = &proxy.shared.config.limits;
    let deadline = tokio::time::Instant::now() + limits.call_timeout;
    let is_read = match exchange.matched.payload {
        Payload::Data => false,
        Payload::MayDefineJobs => true,
        // An encoded body can be judged only after it was read.
        Payload::Unknown if is_json(headers) || headers.contains_key(CONTENT_ENCODING) => true,
        Payload::Unknown => {
            let begun = tokio::time::timeout_at(deadline, poll_fn(|cx| body.poll_begin(cx).map_ok(may_be_json))).await;
            let begun = begun.map_err(|_| ErrorDocument::request_timeout())?;
            begun.map_err(|error| broken_body(Violation::in_causes_of(&error)))?
        }
    };
    if body.is_end_stream() {
        return Ok(Outgoing::EMPTY);
    }
    if !is_read {
        return Ok(Outgoing::stream(body, Rc::clone(upload)));
    }
    let encoding = encoding::take(headers)?;
    if encoding != Encoding::Plain {
        // The forwarded body is longer.
        headers.remove(CONTENT_LENGTH);
    }
    let body = encoding.decoded(proxy, collect_body(proxy, body, deadline).await?).await?.hold();
    if exchange.matched.payload == Payload::Unknown && !is_json(headers) && !may_be_json(&body) {
        return Ok(Outgoing::pieces(&[body]));
    }
    check(proxy, exchange, index, headers, &body)?;
    Ok(Outgoing::pieces(&[body]))
}

/// Whether the content of a body may go to a region.
fn check(
    proxy: &Proxy,
    exchange: &Exchange,
    index: RegionIndex,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(), ErrorDocument> {
    let (view, depth_max) = (proxy.shared.registry.view(), proxy.shared.config.limits.json_depth);
    let faulty = |fault: Fault| ErrorDocument::from_fault(&fault);
    // A body of a path that we know may be a part of a job, which no rule can be applied to.
    let binds = view.settings.restricts() || view.pauses.as_ref().is_some_and(|pauses| pauses.has_sources());
    if exchange.matched.operation != Operation::Unknown || !binds {
        return check_keys(&view, index, &routing_within(body, depth_max).map_err(faulty)?);
    }
    let tenant = tenant_of(exchange, headers)?;
    let mut found = jobs_within(body, depth_max).map_err(faulty)?;
    found.set_caller_tenant(tenant.as_deref());
    check_sources(&view, found.envelopes.iter())?;
    check_routing(&view, index, &found)
}

/// Whether a body is JSON by its type, or has none: servers take a body without a type for JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter().peekable();
    types.peek().is_none()
        || types.any(|value| value.as_bytes().to_ascii_lowercase().windows(4).any(|part| part == b"json"))
}

/// Whether a body that begins so may be a document with members, for any content type: many servers decode without a
/// look at the type. A body that has not shown its first character yet may be one, too.
fn may_be_json(begin: &[u8]) -> bool {
    match begin.trim_ascii_start() {
        // UTF-16 and UTF-32, which some readers recognise by themselves.
        [0xfe | 0xff | 0] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, 0 | b'{' | b'[', ..] => true,
        // A byte order mark, or the start of one.
        [0xef] | [0xef, 0xbb, ..] => true,
        [first, ..] => matches!(first, b'{' | b'['),
        [] => true,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_body_is_json_by_its_type_or_without_one() {
        let check = |types: &[&'static str], expected: bool| {
            let mut headers = HeaderMap::new();
            for value in types {
                headers.append(CONTENT_TYPE, HeaderValue::from_static(value));
            }
            assert_eq!(is_json(&headers), expected, "{types:?}");
        };
        check(&[], true);
        check(&["application/json"], true);
        check(&["application/OpenJobSpec+JSON; charset=utf-8"], true);
        check(&["text/plain", "application/json"], true);
        check(&["application/octet-stream"], false);
        check(&["multipart/form-data; boundary=x"], false);
    }

    #[test]
    fn a_body_may_be_json_by_its_first_character_whatever_stands_before_it() {
        for begin in ["{", "[1]", " \r\n\t{\"type\"", "  ", "", "\u{feff}{", "\0{"] {
            assert!(may_be_json(begin.as_bytes()), "{begin:?}");
        }
        assert!(may_be_json(b"\xff\xfe{\0") && may_be_json(b"\xef"));
        for begin in ["a=b", "--boundary\r\n", "<xml/>", "\u{e9}", "12"] {
            assert!(!may_be_json(begin.as_bytes()), "{begin:?}");
        }
        assert!(!may_be_json(b"\x89PNG\r\n") && !may_be_json(b"\xff\xd8\xff"));
    }
}
