//! The tenant of a job: the header of a tenant, and the same in the job's meta.
//!
//! Spec: ojs-multi-tenancy; the header has three spellings among the documents.

use serde_json::value::RawValue;

use super::answer::quoted;
use super::envelope::Envelope;
use super::members::{Invalid, Members};

const RULE: &str = "is the tenant that the X-OJS-Tenant header names";

/// Writes the tenant of a request into a job's meta, before its other members.
///
/// Errors: [`Invalid::Member`] when the meta names another one.
pub(super) fn stamp(envelope: &mut Envelope, tenant: &str) -> Result<(), Invalid> {
    let written = match tenant_of(envelope) {
        Some(other) if other != tenant => return Err(Invalid::Member("tenant_id", RULE)),
        Some(_) => return Ok(()),
        None => quoted(tenant),
    };
    let meta = envelope.meta.as_deref().map(RawValue::get).filter(|meta| *meta != "null").unwrap_or("{}");
    let rest = meta.strip_prefix('{').ok_or(Invalid::Member("meta", "is an object"))?;
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    let text = format!("{{\"tenant_id\":{written}{comma}{rest}");
    envelope.meta = Some(RawValue::from_string(text).map_err(|_| Invalid::Member("meta", "is an object"))?);
    Ok(())
}

/// The tenant that a job's meta names.
pub(super) fn tenant_of(envelope: &Envelope) -> Option<String> {
    let meta = Members::parse(envelope.meta.as_deref()?.get().as_bytes()).ok()?;
    meta.read("tenant_id", RULE).ok()?
}
