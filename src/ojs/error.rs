//! Every error document that this program writes.
//!
//! SDKs replay any request on 429, 502, 503 and 504 whatever `retryable` says, so the status is what decides; an enqueue whose
//! outcome is unknown is therefore a 500. Messages say what was wrong, what was expected and what to do next, and repeat
//! nothing from a body but names of regions. Spec: ojs-protocol 4.

mod client;
mod region;
mod several;
mod tenant;

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::base::RegionId;

pub use several::Fates;

/// The `code` of an error document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The request is wrong.
    InvalidRequest,
    /// The body is wrong.
    InvalidPayload,
    /// A body above the bound.
    PayloadTooLarge,
    /// Nothing is there.
    NotFound,
    /// A policy of the operator forbids it.
    Forbidden,
    /// Something of this name or id is there already.
    Duplicate,
    /// The state of the job does not permit it.
    Conflict,
    /// Too much at once.
    RateLimited,
    /// We do not do this, or not yet.
    Unsupported,
    /// A region, or we ourselves, could not do it now.
    BackendError,
}

impl Code {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidPayload => "invalid_payload",
            Self::PayloadTooLarge => "payload_too_large",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::RateLimited => "rate_limited",
            Self::Unsupported => "unsupported",
            Self::BackendError => "backend_error",
        }
    }
}

/// An error, ready to be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorDocument {
    /// The HTTP status.
    pub status: StatusCode,
    /// The machine's word for it.
    pub code: Code,
    /// The person's sentence for it.
    pub message: Cow<'static, str>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Particulars; `reason` is always among them.
    pub details: Map<String, Value>,
    /// Units: seconds, at least 1, for the `Retry-After` header.
    pub retry_after: Option<u64>,
}

impl ErrorDocument {
    /// The body of the answer.
    #[must_use]
    #[expect(clippy::expect_used, reason = "text and JSON values always serialise")]
    pub fn to_json(&self, request_id: &str) -> Vec<u8> {
        #[derive(Serialize)]
        struct Document<'a> {
            error: Inner<'a>,
        }
        #[derive(Serialize)]
        struct Inner<'a> {
            code: &'a str,
            message: &'a str,
            retryable: bool,
            details: &'a Map<String, Value>,
            request_id: &'a str,
        }
        let error = Inner {
            code: self.code.as_str(),
            message: &self.message,
            retryable: self.retryable,
            details: &self.details,
            request_id,
        };
        serde_json::to_vec(&Document { error }).expect("a document without maps of odd keys always serialises")
    }

    /// The error of one job in an answer about several: as in [`Self::to_json`], without a request id.
    #[must_use]
    pub(super) fn to_member(&self) -> Vec<u8> {
        let (code, message, details) = (self.code.as_str(), &*self.message, &self.details);
        let error = json!({ "code": code, "message": message, "retryable": self.retryable, "details": details });
        error.to_string().into_bytes()
    }

    /// `details.reason`: a fixed word for logs and metrics.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.details.get("reason").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it says that nobody knows if a job is stored.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.reason() == "outcome_unknown"
    }

    /// Adds a particular.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    fn new(status: StatusCode, code: Code, reason: &str, message: impl Into<Cow<'static, str>>) -> Self {
        let mut details = Map::new();
        details.insert("reason".to_owned(), reason.into());
        Self { status, code, message: message.into(), retryable: false, details, retry_after: None }
    }

    fn invalid(reason: &str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidRequest, reason, message)
    }

    fn unavailable(reason: &str, retry_after: u64, message: impl Into<Cow<'static, str>>) -> Self {
        let mut document = Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::BackendError, reason, message);
        document.retryable = true;
        // SDKs may not be told to retry at once.
        document.retry_after = Some(retry_after.max(1));
        document
    }

    /// A region's name, when it looks like one: a pin that does not is not repeated.
    fn with_region(self, region: &str) -> Self {
        if RegionId::parse(region).is_ok() { self.with("region", region) } else { self }
    }
}

#[cfg(test)]
mod tests;
