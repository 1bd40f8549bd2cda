//! The answers of a hub, by kind of body.

use std::convert::Infallible;
use std::pin::Pin;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

use super::record::RecordError;

/// The code of an answer to a change that may or may not have been made.
pub(super) const OUTCOME_UNKNOWN: &str = "outcome_unknown";
/// The advice that goes with it.
pub(super) const LOOK_AGAIN: &str =
    "the change may be in force: list the switches, and send it again where it is not among them";

/// The body of an answer.
pub(super) type Body = Pin<Box<dyn http_body::Body<Data = Bytes, Error = Infallible>>>;

/// Why a request is not carried out: an error document in the shape of the clients' listener.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    header: Option<(HeaderName, &'static str)>,
}

impl Refusal {
    pub(super) const fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        Self { status, code, message, header: None }
    }

    pub(super) const fn bad_request(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// 500 for something of this hub or its record that cannot be used.
    pub(super) fn unreadable(subject: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("this hub cannot use {subject}"))
    }

    /// For a change that was not kept, or may have been.
    pub(super) fn unchanged(error: RecordError) -> Self {
        let (code, message) = match error {
            RecordError::Unknown => (OUTCOME_UNKNOWN, format!("{error}: {LOOK_AGAIN}")),
            error => ("record_unavailable", format!("nothing was changed: {error}")),
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// The same with the methods of the path.
    pub(super) fn allowing(self, methods: &'static str) -> Self {
        Self { header: Some((header::ALLOW, methods)), ..self }
    }

    /// For a request without valid credentials.
    pub(super) fn unauthorized(message: String) -> Self {
        let challenge = Some((header::WWW_AUTHENTICATE, "Bearer"));
        Self { header: challenge, ..Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message) }
    }

    pub(super) fn response(self) -> Response<Body> {
        let retryable = self.status == StatusCode::SERVICE_UNAVAILABLE;
        let body = json!({"error": {"code": self.code, "message": self.message, "retryable": retryable}});
        let mut response = json_response(self.status, &body);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl From<RecordError> for Refusal {
    fn from(error: RecordError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", error.to_string())
    }
}

/// Server-sent events.
pub(super) fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A JSON document with status 200.
pub(super) fn document(body: &Value) -> Response<Body> {
    json_response(StatusCode::OK, body)
}

fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(whole(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Bytes with status 200.
pub(super) fn octets(body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(whole(Bytes::from(body)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn whole(bytes: Bytes) -> Body {
    Box::pin(Full::new(bytes))
}
