//! The regions that have a job by the index of the hub.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::base::RegionId;
use crate::ojs::path_segment;
use crate::proxy::state::Proxy;
use crate::replica::{IndexAnswer, is_text};

/// How long a search waits for the hub of its own region before it asks all regions, and an enqueue before it is sent.
pub(crate) const HUB_WAIT: Duration = Duration::from_millis(250);

/// The regions of the copies of a job by the index of the hub: a hint that the answers of these regions prove or not. Empty where this sidecar
/// reports no jobs, where the index does not have the job or cannot have one with that id, and where the hub does not answer in time.
pub(super) async fn indexed(proxy: &Proxy, id: &str, deadline: Instant) -> Vec<RegionId> {
    // Only a hub that gets the ids of jobs anyway is asked about one.
    if !proxy.shared.outbox.is_on() || proxy.shared.registry.regions().len() == 1 || !is_text(id) {
        return Vec::new();
    }
    let path = format!("/v1/federation/jobs?job_id={}", path_segment(id));
    match proxy.shared.index.ask(path, deadline.min(Instant::now() + HUB_WAIT)).await {
        IndexAnswer::Shown(record) => regions(&record),
        IndexAnswer::Absent | IndexAnswer::NoIndex | IndexAnswer::Failed => Vec::new(),
    }
}

/// The regions of the copies in a record of the index. Empty for another document.
fn regions(record: &[u8]) -> Vec<RegionId> {
    #[derive(Deserialize)]
    struct Record {
        copies: Vec<Copy>,
    }
    #[derive(Deserialize)]
    struct Copy {
        region: RegionId,
    }
    let record = serde_json::from_slice(record).unwrap_or(Record { copies: Vec::new() });
    record.copies.into_iter().map(|copy| copy.region).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_regions_of_its_copies_and_another_document_none() {
        let record = br#"{"region":"eu","copies":[{"region":"eu","state":"active"},{"region":"us","job_id":"1"}]}"#;
        let named = regions(record);
        assert_eq!(named.iter().map(RegionId::as_str).collect::<Vec<_>>(), ["eu", "us"]);
        for other in ["", "[]", "{}", r#"{"copies":[{"region":"NOT ONE"}]}"#] {
            assert!(regions(other.as_bytes()).is_empty(), "{other}");
        }
    }
}
