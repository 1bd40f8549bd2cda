//! Why a body is refused before anything is sent.

use std::borrow::Cow;

use super::scan::ScanError;

/// Which of the two 400 codes a fault becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The body is not acceptable JSON.
    InvalidPayload,
    /// The JSON is well formed; what it says about federation is not.
    InvalidRequest,
}

/// Why a body is refused. It names places and never repeats a value from the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The place, such as `options.metadata`; `body` for the whole.
    pub field: Cow<'static, str>,
    /// What was wrong, what was expected and what to do next.
    pub message: String,
    /// The cause as a fixed word, for `details.reason`.
    pub reason: &'static str,
}

/// The reason of every fault in federation attributes. Spec: ojs-protocol 4.3.
pub(super) const FEDERATION_META: &str = "invalid_federation_meta";

impl Fault {
    pub(super) fn not_an_object(field: &'static str) -> Self {
        let kind = if field == "body" { FaultKind::InvalidPayload } else { FaultKind::InvalidRequest };
        let message = format!("`{field}` must be a JSON object; send an object or leave it out");
        Self { kind, field: field.into(), message, reason: "not_an_object" }
    }

    pub(super) fn ambiguous(field: impl Into<Cow<'static, str>>) -> Self {
        let field = field.into();
        let message = format!(
            "`{field}` is written more than once or in another case, which servers read in different ways; send it once, in \
             lower case"
        );
        Self { kind: FaultKind::InvalidRequest, field, message, reason: "ambiguous_member" }
    }

    pub(super) fn attribute(field: impl Into<Cow<'static, str>>, expected: &str) -> Self {
        let field = field.into();
        let message = format!("`{field}` must be {expected}; correct it or leave it out");
        Self { kind: FaultKind::InvalidRequest, field, message, reason: FEDERATION_META }
    }

    pub(super) fn contradiction(name: &'static str) -> Self {
        let message = format!(
            "`{name}` differs between `meta` and `options.metadata`; send the same value in both or only one of them"
        );
        Self { kind: FaultKind::InvalidRequest, field: name.into(), message, reason: FEDERATION_META }
    }

    pub(super) fn misspelt(field: &'static str, meant: &'static str) -> Self {
        let message = format!(
            "`{field}` holds a key that looks like `{meant}` and is another, so it would bind nothing; write `{meant}`, as a \
             member of `{field}` itself, or choose a name that does not begin with `ojs.federation.`"
        );
        Self {
            kind: FaultKind::InvalidRequest,
            field: format!("{field}.{meant}").into(),
            message,
            reason: FEDERATION_META,
        }
    }

    pub(super) fn stray(name: &'static str) -> Self {
        let message = format!(
            "`{name}` stands where no region looks for it, so it would bind nothing; move it into `meta`, and send a job that \
             is to be bound on its own as a call of its own"
        );
        Self { kind: FaultKind::InvalidRequest, field: name.into(), message, reason: FEDERATION_META }
    }

    pub(super) fn too_many(what: &str, limit: usize) -> Self {
        let message = format!("the body holds more than {limit} {what}; send it in several calls");
        Self { kind: FaultKind::InvalidRequest, field: "body".into(), message, reason: "too_many_objects" }
    }
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        let (message, reason) = match error {
            ScanError::Malformed { .. } => {
                (format!("the body is not valid JSON: {error}; correct the body and send it again"), "malformed_json")
            }
            ScanError::TooDeep { .. } => (format!("the body is {error}; send it with less nesting"), "too_deep"),
        };
        Self { kind: FaultKind::InvalidPayload, field: "body".into(), message, reason }
    }
}
