//! The answers of the admin listener, by kind of body.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A JSON document with status 200.
pub(super) fn document(body: &Value) -> Response<Bytes> {
    response(StatusCode::OK, JSON, body.to_string())
}

/// An error document in the shape of the clients' listener, so that one reader understands both.
pub(super) fn error(status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
    let body = json!({"error": {"code": code, "message": message, "retryable": false}});
    response(status, JSON, body.to_string())
}

pub(super) fn response(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
