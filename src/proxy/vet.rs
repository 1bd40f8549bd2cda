//! The bodies of calls that we do not interpret, before they stream to a region.
//!
//! What is no job to us may be one to a server: `PUT /ojs/v1/jobs`, a path of the next version of the protocol, a method that
//! some framework takes for POST. Wherever that can be, the body is read first, and one that carries a routing key which the
//! region does not satisfy goes nowhere. What is known to be data (results, checkpoints, schemas) is never read.

use std::rc::Rc;

use crate::net::Arriving;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body::Body as _;

use super::Proxy;
use super::collect::collect_body;
use super::create::check_keys;
use super::encoding::{self, Encoding};
use super::exchange::Exchange;
use crate::net::body::{Outgoing, Upload};
use crate::ojs::{ErrorDocument, Payload, routing_within};
use crate::policy::RegionIndex;

/// The body as it may be sent to the region: a stream, or read and found harmless.
///
/// Errors: 422 for a job that may not go there, 400 for a body that cannot be read with certainty, 413 and 408 as for enqueues.
pub(super) async fn vet(
    proxy: &Proxy,
    exchange: &Exchange,
    index: RegionIndex,
    headers: &mut HeaderMap,
    body: Arriving,
    upload: &Rc<Upload>,
) -> Result<Outgoing, ErrorDocument> {
    if body.is_end_stream() {
        return Ok(Outgoing::EMPTY);
    }
    if !is_read(exchange.matched.payload, headers) {
        return Ok(Outgoing::stream(body, Rc::clone(upload)));
    }
    let encoding = encoding::take(headers)?;
    if encoding != Encoding::Plain {
        // What goes on is longer.
        headers.remove(CONTENT_LENGTH);
    }
    let limits = &proxy.shared.config.limits;
    let deadline = tokio::time::Instant::now() + limits.call_timeout;
    let body = encoding.decoded(proxy, collect_body(proxy, body, deadline).await?).await?.hold();
    let keys = routing_within(&body, limits.json_depth).map_err(|fault| ErrorDocument::from_fault(&fault))?;
    check_keys(&proxy.shared.registry.view(), index, &keys)?;
    Ok(Outgoing::pieces(&[body]))
}

fn is_read(payload: Payload, headers: &HeaderMap) -> bool {
    match payload {
        Payload::Data => false,
        Payload::MayDefineJobs => true,
        // Servers take a body without a type for JSON, and refuse jobs of any other type.
        Payload::Unknown => {
            let mut types = headers.get_all(CONTENT_TYPE).iter().peekable();
            types.peek().is_none()
                || types.any(|value| value.as_bytes().to_ascii_lowercase().windows(4).any(|part| part == b"json"))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn data_streams_and_what_may_be_a_job_is_read() {
        let check = |payload: Payload, types: &[&'static str], read: bool| {
            let mut headers = HeaderMap::new();
            for value in types {
                headers.append(CONTENT_TYPE, HeaderValue::from_static(value));
            }
            assert_eq!(is_read(payload, &headers), read, "{payload:?} {types:?}");
        };
        check(Payload::Data, &["application/json"], false);
        check(Payload::MayDefineJobs, &["application/octet-stream"], true);
        check(Payload::Unknown, &[], true);
        check(Payload::Unknown, &["application/json"], true);
        check(Payload::Unknown, &["application/OpenJobSpec+JSON; charset=utf-8"], true);
        check(Payload::Unknown, &["text/plain", "application/json"], true);
        check(Payload::Unknown, &["application/octet-stream"], false);
        check(Payload::Unknown, &["multipart/form-data; boundary=x"], false);
    }
}
