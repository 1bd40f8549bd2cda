//! The answer to bytes that never became a request: heads that are not strict HTTP or do not end, and one connection
//! too many.

use bytes::Bytes;

use crate::base::Draw;
use crate::config::AccessLog;
use crate::net::{Refused, Violation};
use crate::ojs::ErrorDocument;
use crate::ojs::header::{MEDIA_TYPE, VERSION};
use crate::policy::jittered;
use crate::proxy::Shared;
use crate::telemetry::{HeadRejection, LineKind, event};

/// A whole HTTP/1.1 answer with the error document. There is no request to echo an id of, so one is minted.
pub(super) fn refused(shared: &Shared, why: Refused) -> Bytes {
    let (document, rejection) = document(why);
    match rejection {
        Some(rejection) => shared.metrics.rejected_heads[rejection].inc(),
        None => shared.metrics.client_connections_refused.inc(),
    }
    let uuid = uuid::Uuid::now_v7();
    let id = format!("req_{uuid}");
    let kind = LineKind::Head(rejection);
    let wants_line = shared.config.log.access != AccessLog::Off;
    if let Some(suppressed) = wants_line.then(|| shared.rations.take(kind)).flatten() {
        event::head_refused(kind, document.status.as_u16(), &id, suppressed);
    }
    let body = document.to_json(&id);
    // The latter half of an id is random.
    let mut draw = Draw::from_seed(uuid.as_u64_pair().1);
    let wait = document.retry_after.map(|seconds| jittered(seconds, &mut draw));
    let retry_after = wait.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {}\r\nconnection: close\r\nojs-version: {VERSION}\r\n\
         x-request-id: {id}\r\nojs-federation-region: none\r\n{retry_after}\r\n",
        document.status.as_u16(),
        document.status.canonical_reason().unwrap_or_default(),
        body.len(),
    );
    let mut answer = head.into_bytes();
    answer.extend_from_slice(&body);
    Bytes::from(answer)
}

fn document(why: Refused) -> (ErrorDocument, Option<HeadRejection>) {
    match why {
        Refused::HeadTimeout => (ErrorDocument::request_timeout(), Some(HeadRejection::Timeout)),
        Refused::Busy => (ErrorDocument::overloaded(1), None),
        Refused::Malformed(violation) => malformed(violation),
    }
}

fn malformed(violation: Violation) -> (ErrorDocument, Option<HeadRejection>) {
    match violation.status().as_u16() {
        414 => (ErrorDocument::uri_too_long(), Some(HeadRejection::TooLarge)),
        431 => (ErrorDocument::head_too_large(), Some(HeadRejection::TooLarge)),
        503 => (ErrorDocument::overloaded(1), None),
        505 => (ErrorDocument::version_not_supported(), Some(HeadRejection::Version)),
        _ => (ErrorDocument::bad_request(violation.to_string()), Some(HeadRejection::Malformed)),
    }
}
