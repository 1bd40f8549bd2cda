//! The caller of a request: its credentials and its tenant.

use http::request::Parts;
use http::{HeaderValue, header};

/// The header of a tenant has three spellings among the documents. Spec: ojs-multi-tenancy.
const HEADERS: [&str; 2] = ["x-ojs-tenant", "x-ojs-tenant-id"];

/// A caller, by the headers of its request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Caller {
    authorization: Option<HeaderValue>,
    tenant: Option<String>,
}

impl Caller {
    pub(super) fn of(head: &Parts) -> Self {
        Self { authorization: head.headers.get(header::AUTHORIZATION).cloned(), tenant: tenant(head) }
    }
}

/// The tenant that a request speaks for.
pub(super) fn tenant(head: &Parts) -> Option<String> {
    let value = HEADERS.into_iter().find_map(|name| head.headers.get(name))?;
    value.to_str().ok().filter(|tenant| !tenant.is_empty()).map(str::to_owned)
}
