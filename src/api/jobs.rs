//! `GET /v1/federation/jobs/{federation_id}`, or with `?job_id=`: the record of a job in the index of the hub.

use http::Uri;
use tokio::time::Instant;

use crate::ojs::{ErrorDocument, path_segment, query_value};
use crate::proxy::{Exchange, Proxy};
use crate::replica::{IndexAnswer, is_text};

/// When a hub that does not answer may be back. Units: seconds.
const RETRY_AFTER: u64 = 3;

/// Shape: the hub's document: the copies of the job, each with its region, state and history, and the one that counts. Spec: RFC-0001 §5.
///
/// Errors: 400 unless one job is named; 404 where the index does not have it, or there is none; 503 where the hub does not answer.
pub(super) async fn document(proxy: &Proxy, exchange: &Exchange, uri: &Uri) -> Result<Vec<u8>, ErrorDocument> {
    let named = exchange.matched.named_in(uri.path());
    let path = path_at_hub(&named, uri.query().unwrap_or_default()).ok_or_else(ErrorDocument::index_query)?;
    if proxy.shared.config.hub.is_none() {
        return Err(ErrorDocument::no_index());
    }
    let until = Instant::now() + proxy.shared.config.limits.call_timeout;
    match proxy.shared.index.ask(path, until).await {
        IndexAnswer::Shown(record) => Ok(record.to_vec()),
        IndexAnswer::Absent => Err(ErrorDocument::job_not_indexed()),
        IndexAnswer::NoIndex => Err(ErrorDocument::no_index()),
        IndexAnswer::Failed => Err(ErrorDocument::index_unavailable(RETRY_AFTER)),
    }
}

/// The path and query of the same look-up at the hub. `named`: the tracking id in the path; empty without one.
fn path_at_hub(named: &str, query: &str) -> Option<String> {
    if !named.is_empty() {
        return (query.is_empty() && is_text(named)).then(|| format!("/v1/federation/jobs/{}", path_segment(named)));
    }
    let id = query.strip_prefix("job_id=").filter(|rest| !rest.contains('&')).and_then(query_value)?;
    is_text(&id).then(|| format!("/v1/federation/jobs?job_id={}", path_segment(&id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::TEXT_BYTES_MAX;

    #[test]
    fn a_look_up_names_one_job_by_one_of_its_ids() {
        let job = "/v1/federation/jobs?job_id=";
        assert_eq!(path_at_hub("a/b", ""), Some("/v1/federation/jobs/a%2Fb".to_owned()));
        assert_eq!(path_at_hub("", "job_id=a%2Bb+c"), Some(format!("{job}a%2Bb%20c")));
        let long = format!("job_id={}", "j".repeat(TEXT_BYTES_MAX + 1));
        for (named, query) in
            [("", ""), ("a", "job_id=b"), ("", "job_id="), ("", "job_id=a&x=1"), ("", "id=a"), ("", &long), ("\n", "")]
        {
            assert_eq!(path_at_hub(named, query), None, "{named} {query}");
        }
    }
}
