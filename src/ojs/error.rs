//! Every error document that this program writes.
//!
//! SDKs replay any request on 429, 502, 503 and 504, for any value of `retryable`, so that the status decides; an
//! enqueue with an unknown outcome is therefore a 500. Messages have the fault, the expectation and the next step, and
//! repeat nothing from a body but names of regions. Spec: ojs-protocol 4.

mod client;
mod fixed;
mod region;
mod several;
mod spool;
mod uwer;

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::base::{Code, Reason, RefusalReason, RegionId};

pub use several::Fates;

/// An error, ready to be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorDocument {
    /// The reason: decisions look at this alone.
    pub reason: Reason,
    /// The HTTP status.
    pub status: StatusCode,
    /// The machine's word for it.
    pub code: Code,
    /// The person's sentence for it.
    pub message: Cow<'static, str>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Units: seconds, at least 1, for the `Retry-After` header.
    pub retry_after: Option<u64>,
    /// Apart, because the future of every request has room for a document.
    particulars: Box<Particulars>,
}

/// The members of `details` beside the reason.
#[derive(Debug, Clone, Default, PartialEq)]
struct Particulars {
    region: Option<RegionId>,
    allow: Option<&'static str>,
    /// Those that only clients read.
    further: Map<String, Value>,
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
            details: BTreeMap<&'a str, Detail<'a>>,
            request_id: &'a str,
        }
        let error = Inner {
            code: self.code.as_str(),
            message: &self.message,
            retryable: self.retryable,
            details: self.details(),
            request_id,
        };
        serde_json::to_vec(&Document { error }).expect("a document without maps of odd keys always serialises")
    }

    /// The error of one job in an answer about several: as in [`Self::to_json`], without a request id.
    #[must_use]
    pub(super) fn to_member(&self) -> Vec<u8> {
        let (code, message, details) = (self.code.as_str(), &*self.message, self.details());
        let error = json!({ "code": code, "message": message, "retryable": self.retryable, "details": details });
        error.to_string().into_bytes()
    }

    fn details(&self) -> BTreeMap<&str, Detail<'_>> {
        let region = self.region().map(RegionId::as_str);
        let typed = [("reason", Some(self.reason.as_str())), ("region", region), ("allow", self.allow())];
        let typed = typed.into_iter().filter_map(|(name, text)| Some((name, Detail::Text(text?))));
        let further = self.particulars.further.iter().map(|(name, value)| (name.as_str(), Detail::Value(value)));
        further.chain(typed).collect()
    }

    /// The region that it is about.
    #[must_use]
    pub fn region(&self) -> Option<&RegionId> {
        self.particulars.region.as_ref()
    }

    /// The methods that the path answers to, for the header `Allow`.
    #[must_use]
    pub fn allow(&self) -> Option<&'static str> {
        self.particulars.allow
    }

    /// Its label in metrics and logs.
    #[must_use]
    pub fn label(&self) -> RefusalReason {
        self.reason.label(self.code)
    }

    /// Whether the document is of an unknown outcome.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.reason == Reason::OutcomeUnknown
    }

    /// Adds a particular.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.particulars.further.insert(name.to_owned(), value.into());
        self
    }

    /// A region's name, when it looks like one: a pin that does not is not repeated.
    #[must_use]
    pub fn with_region(mut self, region: &str) -> Self {
        if let Ok(region) = RegionId::parse(region) {
            self.particulars.region = Some(region);
        }
        self
    }

    /// 405, and the methods that the path answers to.
    fn not_allowed(allow: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let mut document = Self::new(Reason::MethodNotAllowed, message);
        document.particulars.allow = Some(allow);
        document
    }

    fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        let (status, code, message) = (reason.status(), reason.code(), message.into());
        // The statuses that SDKs replay in any case.
        let retryable = matches!(status.as_u16(), 429 | 502..=504);
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        Self { reason, status, code, message, retryable, retry_after, particulars: Box::default() }
    }

    fn unavailable(reason: Reason, retry_after: u64, message: impl Into<Cow<'static, str>>) -> Self {
        // SDKs must not retry at once.
        Self { retry_after: Some(retry_after.max(1)), ..Self::new(reason, message) }
    }

    /// With the status that a region chose, and the code for it.
    fn of_status(self, status: StatusCode) -> Self {
        let code = match status {
            StatusCode::CONFLICT => Code::Duplicate,
            StatusCode::TOO_MANY_REQUESTS => Code::RateLimited,
            StatusCode::NOT_FOUND => Code::NotFound,
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Code::Forbidden,
            StatusCode::PAYLOAD_TOO_LARGE => Code::PayloadTooLarge,
            StatusCode::UNPROCESSABLE_ENTITY => Code::Unsupported,
            _ if status.as_u16() < 500 => Code::InvalidRequest,
            _ => Code::BackendError,
        };
        Self { status, code, retryable: false, retry_after: None, ..self }
    }
}

/// A particular, as it is written.
#[derive(Serialize)]
#[serde(untagged)]
enum Detail<'a> {
    Text(&'a str),
    Value(&'a Value),
}

#[cfg(test)]
mod tests;
