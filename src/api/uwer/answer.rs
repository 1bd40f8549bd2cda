//! An answer of the ingress.

use http::{HeaderValue, StatusCode};

/// An answer to a sender or an operator: JSON.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
    /// As a region or the proxy has said it.
    pub(super) retry_after: Option<HeaderValue>,
}

impl Answer {
    pub(super) fn new(status: StatusCode, document: &serde_json::Value) -> Self {
        Self { status, body: document.to_string().into_bytes(), retry_after: None }
    }
}
