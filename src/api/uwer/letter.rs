//! A document that is no task: a dead letter at the hub, with its bytes where these may be there. Spec: UWER §4, 0xFF.

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use serde_json::json;

use super::form::{Form, shape};
use super::store;
use crate::config::Uwer;
use crate::fleet::{LETTER_CONTENT_MAX, LetterRequest};
use crate::ojs::ErrorDocument;
use crate::proxy::{Proxy, may_be_at_hub, offload};
use crate::uwer::{Flaw, Known, known_in_json, known_in_xml};

/// The member of the meta by which rules know a service.
const ORIGIN_KEY: &str = "uwer.origin_service";

/// A document that is refused.
#[derive(Clone, Copy)]
pub(super) struct Subject<'s> {
    pub(super) form: Form,
    pub(super) bytes: &'s Bytes,
    /// The tenant that the head of the call names.
    pub(super) tenant: Option<&'s str>,
    /// The job of a document that is a task; none of another one.
    pub(super) job: Option<&'s str>,
}

/// Keeps the document, and is the refusal for its sender: 422 once the hub has it, else 503.
pub(super) async fn refused(proxy: &Proxy, uwer: &Uwer, subject: Subject<'_>, flaw: &Flaw) -> ErrorDocument {
    let Subject { form, bytes, tenant, job } = subject;
    let document = bytes.clone();
    let read = offload(bytes.len(), move || {
        let known = match form {
            Form::Xml => known_in_xml(&document),
            Form::Json => known_in_json(&document),
        };
        (known, HEXLOWER.encode(digest(&SHA256, &document).as_ref()))
    });
    let (known, digest) = read.await;
    let may_leave = match job {
        Some(job) => may_be_at_hub(proxy, job.as_bytes(), tenant),
        None => may_leave(proxy, uwer, &known, tenant),
    };
    let is_kept = bytes.len() <= LETTER_CONTENT_MAX && may_leave;
    let Some(_place) = proxy.shared.store.place_of_letter() else { return store::busy() };
    let request = LetterRequest {
        why: flaw.kind.as_str().to_owned(),
        field: flaw.field.clone(),
        line: flaw.line,
        expected: flaw.expected.clone(),
        form: form.as_str().to_owned(),
        digest,
        length: bytes.len() as u64,
        content: is_kept.then(|| BASE64.encode(bytes)),
        key: known.key,
        workflow_id: known.workflow_id,
        origin: known.origin,
    };
    match store::keep_letter(proxy, &request).await {
        Ok(letter) => ErrorDocument::uwer_dead_letter(flaw, &letter, is_kept),
        Err(document) => document,
    }
}

/// Whether the hub may have the bytes of a document that is no task: a job of the same service may be in its region, as far as its service alone says so.
fn may_leave(proxy: &Proxy, uwer: &Uwer, known: &Known, tenant: Option<&str>) -> bool {
    let config = &proxy.shared.config;
    let mut binding = config.routing.rules.iter().filter(|rule| !rule.regions.is_empty());
    let Some(origin) = &known.origin else {
        return binding.next().is_none() && config.tenants.iter().all(|it| it.regions.is_empty());
    };
    // The other values of the meta may be wrong or missing.
    if binding.any(|rule| rule.matcher.meta.keys().any(|key| key != ORIGIN_KEY)) {
        return false;
    }
    let shape = shape(uwer, origin);
    let (meta, options) = (json!({ ORIGIN_KEY: origin }), json!({ "queue": shape.queue }));
    let job = json!({ "type": shape.job_type, "args": [], "meta": meta, "options": options });
    may_be_at_hub(proxy, job.to_string().as_bytes(), tenant)
}
