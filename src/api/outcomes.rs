//! `GET /v1/federation/outcomes`: enqueues that ended unknown, and what became of them.

use serde_json::{Value, json};

use crate::base::text::rfc3339;
use crate::journal::{Place, State, Unknown};
use crate::ojs::ErrorDocument;
use crate::proxy::Proxy;

/// Shown when the call does not say how many.
const LIMIT: usize = 100;
/// The most that one answer shows.
const LIMIT_MAX: usize = 1_000;

/// Shape: the newest first; `?state=` chooses one state, `?limit=` says how many. Times in RFC 3339, `null` what is not known.
///
/// Errors: 400 for a state or a limit that there is not.
pub(super) fn document(proxy: &Proxy, query: Option<&str>) -> Result<Vec<u8>, ErrorDocument> {
    let (mut state, mut limit) = (None, LIMIT);
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let understood = match name {
            "state" => State::parse(value).map(|it| state = Some(it)),
            "limit" => value.parse().ok().filter(|it| (1..=LIMIT_MAX).contains(it)).map(|it| limit = it),
            _ => Some(()),
        };
        understood.ok_or_else(ErrorDocument::outcomes_query)?;
    }
    let store = &proxy.shared.journal;
    let unknowns = store.unknowns(limit, |it| state.is_none_or(|state| it.state == state));
    let outcomes: Vec<Value> = unknowns.iter().map(outcome).collect();
    let document = json!({ "durable": store.is_durable(), "pending": store.pending(), "outcomes": outcomes });
    Ok(document.to_string().into_bytes())
}

fn outcome(it: &Unknown) -> Value {
    let shown = |place: &Place| json!({ "region": place.region.as_str(), "job_id": place.job_id });
    json!({
        "job_id": it.job_id,
        "region": it.region.as_str(),
        "state": it.state.as_str(),
        "sent_at": rfc3339(it.at_ms),
        "resolved_at": it.resolved_ms.map(rfc3339),
        "going": it.going.as_ref().map(shown),
        "elsewhere": it.elsewhere.as_ref().map(shown),
        "cancelled_in": it.cancelled_in().map(crate::base::RegionId::as_str),
        "federation_id": it.federation_id,
        "request_id": it.request_id,
    })
}
