//! The shapes of answers: JSON written member by member, so that raw values pass through it untouched.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

use super::envelope::Invalid;
use super::job::JobState;
use super::store::Refused;

/// What OJS documents are called.
pub(super) const MEDIA_TYPE: &str = "application/openjobspec+json";

/// An error of any kind, as bodies and services carry it.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of every answer.
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there already.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer with a body of a given type.
pub(super) fn typed(status: StatusCode, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// An answer with an OJS document.
pub(super) fn document(status: StatusCode, document: String) -> Response<Body> {
    typed(status, MEDIA_TYPE, full(document))
}

/// A JSON object under construction.
#[derive(Debug)]
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Self {
        Self("{".to_owned())
    }

    /// A member whose value is JSON already.
    pub(super) fn raw(mut self, name: &str, value: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&quoted(name));
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    pub(super) fn maybe_raw(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.raw(name, value),
            None => self,
        }
    }

    pub(super) fn text(self, name: &str, value: &str) -> Self {
        self.raw(name, &quoted(value))
    }

    pub(super) fn maybe_text(self, name: &str, value: Option<&str>) -> Self {
        self.maybe_raw(name, value.map(quoted).as_deref())
    }

    pub(super) fn number(self, name: &str, value: impl std::fmt::Display) -> Self {
        self.raw(name, &value.to_string())
    }

    pub(super) fn flag(self, name: &str, value: bool) -> Self {
        self.raw(name, if value { "true" } else { "false" })
    }

    pub(super) fn array(self, name: &str, items: impl IntoIterator<Item = String>) -> Self {
        let items: Vec<String> = items.into_iter().collect();
        self.raw(name, &format!("[{}]", items.join(",")))
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    /// What the router of such servers answers to a path that it does not know.
    #[error("404 page not found")]
    NoSuchPath,
    #[error("the method is not allowed here")]
    Method,
    #[error("there is no job {0}")]
    NoSuchJob(String),
    #[error("the job is {}", .0.as_str())]
    Conflict(JobState),
    #[error("the content type is neither application/openjobspec+json nor application/json")]
    MediaType,
    #[error("the body is larger than this server takes")]
    TooLarge,
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl Problem {
    pub(super) fn of_job(id: &str, refused: Refused) -> Self {
        match refused {
            Refused::NotFound => Self::NoSuchJob(id.to_owned()),
            Refused::Conflict(state) => Self::Conflict(state),
        }
    }

    pub(super) fn answer(&self, request_id: &str) -> Response<Body> {
        let (status, code) = match self {
            Self::NoSuchPath => {
                return typed(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", full(format!("{self}\n")));
            }
            Self::Method => {
                let mut response = Response::new(full(Bytes::new()));
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                return response;
            }
            Self::NoSuchJob(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large"),
            Self::Invalid(Invalid::Payload) => (StatusCode::BAD_REQUEST, "invalid_payload"),
            Self::MediaType | Self::Invalid(Invalid::Member(..)) => (StatusCode::BAD_REQUEST, "invalid_request"),
        };
        let error = Object::new()
            .text("code", code)
            .text("message", &self.to_string())
            .flag("retryable", false)
            .text("request_id", request_id);
        document(status, Object::new().raw("error", &error.finish()).finish())
    }
}

/// The headers that stand on every answer.
pub(super) fn sign(headers: &mut HeaderMap, request_id: &HeaderValue) {
    headers.insert("ojs-version", HeaderValue::from_static("1.0"));
    headers.insert("x-request-id", request_id.clone());
}
