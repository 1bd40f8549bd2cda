//! A document that is no task: a dead letter at the hub, with its bytes where these may be there. Spec: UWER §4, 0xFF.

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use serde_json::json;

use super::store;
use super::submit::{Form, shape};
use crate::config::Uwer;
use crate::fleet::{LETTER_CONTENT_MAX, LetterRequest};
use crate::ojs::ErrorDocument;
use crate::proxy::{Proxy, may_be_at_hub, offload};
use crate::uwer::{Flaw, Known, known_in_json, known_in_xml};

/// Keeps the document, and is the refusal for its sender: 422 once the hub has it, else 503.
pub(super) async fn refused(
    proxy: &Proxy,
    uwer: &Uwer,
    (form, bytes): (Form, &Bytes),
    tenant: Option<&str>,
    flaw: &Flaw,
) -> ErrorDocument {
    let document = bytes.clone();
    let read = offload(bytes.len(), move || {
        let known = match form {
            Form::Xml => known_in_xml(&document),
            Form::Json => known_in_json(&document),
        };
        (known, HEXLOWER.encode(digest(&SHA256, &document).as_ref()), BASE64.encode(&document))
    });
    let (known, digest, content) = read.await;
    let is_kept = bytes.len() <= LETTER_CONTENT_MAX && may_leave(proxy, uwer, &known, tenant);
    let request = LetterRequest {
        why: flaw.kind.as_str().to_owned(),
        field: flaw.field.clone(),
        line: flaw.line,
        expected: flaw.expected.clone(),
        form: form.as_str().to_owned(),
        digest,
        length: bytes.len() as u64,
        content: is_kept.then_some(content),
        key: known.key,
        workflow_id: known.workflow_id,
        origin: known.origin,
    };
    match store::keep_letter(proxy, &request).await {
        Ok(letter) => ErrorDocument::uwer_dead_letter(flaw, &letter),
        Err(document) => document,
    }
}

/// Whether the hub may have the bytes: a job of the same service may be in its region. Those of a service that cannot be read are kept only where no
/// rule binds any job.
fn may_leave(proxy: &Proxy, uwer: &Uwer, known: &Known, tenant: Option<&str>) -> bool {
    let config = &proxy.shared.config;
    let Some(origin) = &known.origin else {
        let binds_none = config.tenants.iter().all(|it| it.regions.is_empty())
            && config.routing.rules.iter().all(|it| it.regions.is_empty());
        return binds_none;
    };
    let shape = shape(uwer, origin);
    let job = json!({
        "type": shape.job_type, "args": [], "options": { "queue": shape.queue },
        "meta": { "uwer.origin_service": origin, "uwer.workflow_id": known.workflow_id, "uwer.idempotency_key": known.key },
    });
    may_be_at_hub(proxy, job.to_string().as_bytes(), tenant)
}
