//! Why a body is refused before anything is sent.

use std::borrow::Cow;

use super::scan::ScanError;
use crate::base::Reason;

/// Why a body is refused. It names places and never repeats a value from the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The place, such as `options.metadata`; `body` for the whole.
    pub field: Cow<'static, str>,
    /// The fault, the expectation and the next step.
    pub message: String,
    /// The cause.
    pub reason: Reason,
}

impl Fault {
    pub(super) fn body_not_an_object() -> Self {
        Self { reason: Reason::BodyNotAnObject, ..Self::not_an_object("body") }
    }

    pub(super) fn not_an_object(field: &'static str) -> Self {
        let message = format!("`{field}` must be a JSON object; send an object or leave it out");
        Self { field: field.into(), message, reason: Reason::NotAnObject }
    }

    pub(super) fn ambiguous(field: impl Into<Cow<'static, str>>) -> Self {
        let field = field.into();
        let message = format!(
            "`{field}` is written more than once or in another case, which servers read in different ways; send it once, in \
             lower case"
        );
        Self { field, message, reason: Reason::AmbiguousMember }
    }

    pub(super) fn attribute(field: impl Into<Cow<'static, str>>, expected: &str) -> Self {
        let field = field.into();
        let message = format!("`{field}` must be {expected}; correct it or leave it out");
        Self { field, message, reason: Reason::InvalidFederationMeta }
    }

    pub(super) fn pool_is_no_text() -> Self {
        let message = "`pool` must be the name of a pool of workers, as text; correct it or leave it out".to_owned();
        Self { field: "pool".into(), message, reason: Reason::PoolUnclear }
    }

    pub(super) fn contradiction(name: &'static str) -> Self {
        let message = format!(
            "`{name}` differs between `meta` and `options.metadata`; send the same value in both or only one of them"
        );
        Self { field: name.into(), message, reason: Reason::InvalidFederationMeta }
    }

    pub(super) fn misspelt(field: &'static str, meant: &'static str) -> Self {
        let message = format!(
            "`{field}` holds a key that looks like `{meant}` and is another, so it would bind nothing; write `{meant}`, as a \
             member of `{field}` itself, or choose a name that does not begin with `ojs.federation.`"
        );
        Self { field: format!("{field}.{meant}").into(), message, reason: Reason::InvalidFederationMeta }
    }

    pub(super) fn stray(name: &'static str) -> Self {
        let message = format!(
            "`{name}` stands where no region looks for it, so it would bind nothing; move it into `meta` of the job; \
             a job of a batch that needs a pin of its own has it in its own `meta`"
        );
        Self { field: name.into(), message, reason: Reason::InvalidFederationMeta }
    }

    pub(super) fn too_many(what: &str, limit: usize) -> Self {
        let message = format!("the body holds more than {limit} {what}; send it in several calls");
        Self { field: "body".into(), message, reason: Reason::TooManyObjects }
    }
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        let (message, reason) = match error {
            ScanError::Malformed { .. } => (
                format!("the body is not valid JSON: {error}; correct the body and send it again"),
                Reason::MalformedJson,
            ),
            ScanError::TooDeep { .. } => (format!("the body is {error}; send it with less nesting"), Reason::TooDeep),
        };
        Self { field: "body".into(), message, reason }
    }
}
