//! `/metrics`: everything is there from the start, and moves with what happens and with nothing else.

use std::collections::BTreeSet;

use ojs_sidecar::telemetry::metrics::FAMILIES;
use ojs_testbed::{Fault, When};

use crate::support::{Federation, IDS, Scrape, Setup};

mod counters;
mod detail;
mod gauges;

const JOB: &str = r#"{"type":"email.send","args":["a"]}"#;

fn pinned(region: &str) -> String {
    format!(r#"{{"type":"t","args":[],"meta":{{"ojs.federation.region":"{region}"}}}}"#)
}

/// Nothing but the test moves a counter: time stands still, so that there is one probe a region and one poll.
async fn still() -> Federation {
    Setup::default().steered().start().await
}

#[tokio::test]
async fn every_family_is_there_before_any_traffic_with_its_type_and_help() {
    let federation = still().await;
    let scrape = Scrape::of(&federation.admin).await;
    let of = |mark: &str| -> BTreeSet<&str> { scrape.text.lines().filter_map(|it| it.strip_prefix(mark)).collect() };
    let (types, helps) = (of("# TYPE "), of("# HELP "));
    // A process that discovers no regions has none of the figures of that.
    let always: Vec<_> =
        FAMILIES.iter().filter(|family| !family.name.starts_with("discovery_") && !family.is_of_scheduling()).collect();
    for family in &always {
        assert!(types.contains(format!("{} {}", family.full_name(), family.kind.as_str()).as_str()), "{}", family.name);
        assert!(helps.contains(format!("{} {}", family.full_name(), family.help).as_str()), "{}", family.name);
    }
    let process = types.iter().filter(|line| line.starts_with("process_")).count();
    assert!(process >= 6, "{types:?}");
    assert_eq!(types.len(), always.len() + process, "and no others");
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let build = format!("build_info{{arch=\"{arch}\",os=\"{os}\",version=\"{version}\"}}");
    assert_eq!(scrape.value(&build), 1.0);
}

#[tokio::test]
async fn traffic_of_every_kind_adds_no_series_and_no_label_value_comes_from_a_request() {
    let federation = still().await;
    let before = Scrape::of(&federation.admin).await;
    let (client, regions) = (&federation.client, &federation.regions);
    client.enqueue(JOB).await;
    client.enqueue("{").await;
    client.enqueue(pinned("weird-region-1")).await;
    client.get("/ojs/v1/weird/path?weird=1").await;
    client.get("/weird").await;
    client.call(http::Method::from_bytes(b"WEIRD").unwrap(), "/ojs/v1/jobs/weird", "").await;
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["weird"]}"#).await;
    client.raw(b"WEIRD\r\n\r\n").await;
    regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
    client.enqueue(JOB).await;
    regions[0].stop().await;
    client.enqueue(r#"{"type":"weird.type","args":[],"options":{"queue":"weird"}}"#).await;
    let after = Scrape::of(&federation.admin).await;
    assert_eq!(before.names(), after.names());
    assert!(!after.text.to_lowercase().contains("weird"));
    let labels: BTreeSet<&str> = FAMILIES.iter().flat_map(|family| family.labels).copied().chain(["le"]).collect();
    for name in after.names() {
        let Some((_, inner)) = name.split_once('{') else { continue };
        for label in inner.trim_end_matches('}').split(',') {
            let (label, value) = label.split_once('=').unwrap();
            assert!(labels.contains(label), "{name}");
            let is_region = label.ends_with("region");
            assert!(!is_region || value == "\"none\"" || IDS.contains(&value.trim_matches('"')), "{name}");
        }
    }
}

#[tokio::test]
async fn scrapes_during_traffic_are_whole_and_counters_never_fall() {
    let federation = still().await;
    let (client, admin) = (federation.client, federation.admin);
    let load: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn(async move {
                for _ in 0..20 {
                    assert_eq!(client.enqueue(JOB).await.status, 201);
                }
            })
        })
        .collect();
    let stored = "enqueues_total{region=\"us-east-1\",strategy=\"affinity\"}";
    let (mut last, mut names) = (Scrape::of(&admin).await, None);
    while last.value(stored) < 160.0 {
        let next = Scrape::of(&admin).await;
        assert!(next.value(stored) >= last.value(stored));
        let count = next.names().len();
        assert_eq!(*names.get_or_insert(count), count);
        last = next;
    }
    for task in load {
        task.await.unwrap();
    }
    let last = Scrape::of(&admin).await;
    assert_eq!((last.value(stored), last.value("in_flight{region=\"us-east-1\"}")), (160.0, 0.0));
    assert_eq!(last.value("requests_total{class=\"enqueue\",status_class=\"2xx\"}"), 160.0);
}
