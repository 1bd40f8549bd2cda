//! `GET /v1/federation/decisions`: how a job was routed, and why.

use serde_json::json;

use crate::journal::{Decided, Wanted};
use crate::ojs::{ErrorDocument, query_value};
use crate::proxy::Proxy;

/// Longer ids are not recorded.
const ID_BYTES_MAX: usize = 256;

/// Shape: one document for each time the job was routed, the newest first; `durable` says of each whether it is in the journal's file.
///
/// Errors: 400 unless the query names one job by one of its ids, and nothing else.
pub(super) async fn document(proxy: &Proxy, query: Option<&str>) -> Result<Vec<u8>, ErrorDocument> {
    let wanted = wanted(query.unwrap_or_default()).ok_or_else(ErrorDocument::decisions_query)?;
    let store = &proxy.shared.journal;
    let Decided { documents, dropped, rows_max } = store.decided(wanted).await;
    let durable = store.is_durable();
    let document = json!({ "durable": durable, "rows_max": rows_max, "dropped": dropped, "decisions": documents });
    Ok(document.to_string().into_bytes())
}

fn wanted(query: &str) -> Option<Wanted> {
    let mut pairs = query.split('&').filter(|pair| !pair.is_empty());
    let (name, value) = pairs.next()?.split_once('=')?;
    let id = query_value(value)?;
    if pairs.next().is_some() || id.is_empty() || id.len() > ID_BYTES_MAX {
        return None;
    }
    match name {
        "job_id" => Some(Wanted::Job(id)),
        "federation_id" => Some(Wanted::Federation(id)),
        "request_id" => Some(Wanted::Request(id)),
        _ => None,
    }
}
