//! `POST /v1/federation/route`: where a job would go, and why, without sending it.

use crate::net::IncomingBody;
use http::Request;
use serde_json::{Value, json};

use crate::ojs::ErrorDocument;
use crate::policy::{DecidedBy, Scored};
use crate::proxy::{DryRun, Exchange, Proxy, dry_run, read_body, tenant_of};

/// Answers with the members that the RFC defines; `candidates` lists every region. For a job that would be refused, `target_region` is
/// `null`, and two members are added: `error`, the document that a live call would get, and `status`, its HTTP status. `warnings` is added
/// for keys under `ojs.federation.` that are not defined, and `decided_by` where the hub was asked. Spec: RFC-0001 §6.
///
/// Errors: the error document for a tenant header or a body that cannot be read, and for a body that is no job.
pub(super) async fn document(
    proxy: &Proxy,
    exchange: &Exchange,
    request: Request<IncomingBody>,
) -> Result<Vec<u8>, ErrorDocument> {
    let tenant = tenant_of(exchange, request.headers())?;
    let body = read_body(proxy, exchange, request).await?;
    let DryRun { explanation, decided_by, refusal, unknown_keys } = dry_run(proxy, &body, tenant.as_deref()).await?;
    let view = proxy.shared.registry.view();
    let candidate = |scored: &Scored| json!({ "id": view.region(scored.region).id.as_str(), "score": rounded(scored.score), "reason": scored.reason });
    let candidates: Vec<Value> = explanation.candidates.iter().map(candidate).collect();
    let target = explanation.outcome.as_ref().ok().and_then(|decision| decision.target());
    let mut document = json!({
        "target_region": target.map(|target| view.region(target).id.as_str()),
        "strategy": explanation.strategy.map(crate::base::Strategy::as_str),
        "candidates": candidates,
    });
    if let (true, Some(members)) = (decided_by != DecidedBy::View, document.as_object_mut()) {
        members.insert("decided_by".to_owned(), decided_by.as_str().into());
    }
    if let (Some(refusal), Some(members)) = (refusal, document.as_object_mut()) {
        let id = exchange.request_id().to_str().unwrap_or_default();
        let error: Value = serde_json::from_slice(&refusal.to_json(id)).unwrap_or_default();
        members.insert("error".to_owned(), error.get("error").cloned().unwrap_or_default());
        members.insert("status".to_owned(), refusal.status.as_u16().into());
    }
    if let (false, Some(members)) = (unknown_keys.is_empty(), document.as_object_mut()) {
        members.insert("warnings".to_owned(), unknown_keys.iter().map(|key| warning(key)).collect());
    }
    Ok(document.to_string().into_bytes())
}

/// Shape: `{"code", "key", "message"}`; the key is the client's, cut to a length that suffices to recognise it.
fn warning(key: &str) -> Value {
    const KEY_LETTERS_MAX: usize = 128;
    let key: String = key.chars().take(KEY_LETTERS_MAX).collect();
    let message = format!(
        "`{key}` is not a defined key and binds nothing; the keys that bind a job are `ojs.federation.region`, \
         `ojs.federation.region_affinity` and `ojs.federation.weights`"
    );
    json!({ "code": "unknown_federation_key", "key": key, "message": message })
}

/// Three decimals: the score is only displayed.
fn rounded(score: f64) -> f64 {
    (score * 1_000.0).round() / 1_000.0
}
