//! How much a scrape holds, in which form, and of which federation.

use std::io::Read as _;
use std::time::Duration;

use flate2::read::GzDecoder;
use http::Request;

use super::{JOB, pinned, still};
use crate::support::{Client, Scrape, Setup, eventually};

const STORED: &str = "enqueues_total{region=\"us-east-1\",strategy=\"all\"}";

async fn unpacked(admin: &Client) -> String {
    let answer = admin.send(Request::get("/metrics").header("accept-encoding", "gzip"), "").await;
    assert_eq!((answer.header("content-encoding"), answer.header("vary")), (Some("gzip"), Some("accept-encoding")));
    let mut text = String::new();
    GzDecoder::new(&answer.body[..]).read_to_string(&mut text).unwrap();
    assert!(answer.body.len() * 4 < text.len(), "{} of {} bytes", answer.body.len(), text.len());
    text
}

#[tokio::test]
async fn basic_series_add_up_what_the_full_ones_tell_apart() {
    let federation = Setup::default().steered().yaml("metrics: { detail: basic }").start().await;
    assert_eq!(federation.client.enqueue(JOB).await.status, 201);
    assert_eq!(federation.client.enqueue(pinned("us-east-1")).await.status, 201);
    assert_eq!(federation.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await.status, 200);
    let scrape = Scrape::of(&federation.admin).await;
    let region = "region=\"us-east-1\"";
    assert_eq!(scrape.value(STORED), 2.0);
    assert_eq!(scrape.value(&format!("attempts_total{{class=\"all\",outcome=\"answered\",{region}}}")), 3.0);
    for (class, count) in [("enqueue", 2.0), ("rest", 1.0)] {
        let labels = format!("class=\"{class}\",{region}");
        assert_eq!(scrape.value(&format!("request_duration_seconds_count{{{labels}}}")), count);
        assert_eq!(scrape.value(&format!("request_duration_seconds_bucket{{{labels},le=\"+Inf\"}}")), count);
        assert!(scrape.value(&format!("request_duration_seconds_sum{{{labels}}}")) > 0.0);
    }
    assert!(!scrape.text.contains("strategy=\"affinity\"") && !scrape.text.contains("connections_total{"));
}

#[tokio::test]
async fn the_detail_of_scrapes_changes_without_a_restart_and_loses_no_count() {
    let federation = Setup::default().steered().yaml("metrics: { detail: basic }").start().await;
    assert_eq!(federation.client.enqueue(JOB).await.status, 201);
    let text = std::fs::read_to_string(&federation.config).unwrap();
    std::fs::write(&federation.config, text.replace("detail: basic", "detail: full")).unwrap();
    federation.advance(Duration::from_secs(60));
    let full = STORED.replace("all", "affinity");
    eventually("every series is there", async || Scrape::of(&federation.admin).await.text.contains(&full)).await;
    assert_eq!(Scrape::of(&federation.admin).await.value(&full), 1.0);
}

#[tokio::test]
async fn a_scrape_is_compressed_for_those_who_ask_and_plain_for_others() {
    let federation = still().await;
    let plain = Scrape::of(&federation.admin).await;
    let text = unpacked(&federation.admin).await;
    let names = |text: &str| text.lines().filter(|it| it.starts_with("ojs_")).count();
    assert_eq!(names(&text), names(&plain.text));
    let answer = federation.admin.get("/metrics").await;
    assert_eq!(answer.header("content-encoding"), None);
}

#[tokio::test]
async fn a_job_that_another_region_stores_is_counted_from_the_local_one() {
    let federation = still().await;
    let before = Scrape::of(&federation.admin).await;
    for region in ["eu-west-1", "us-east-1", "eu-west-1"] {
        assert_eq!(federation.client.enqueue(pinned(region)).await.status, 201);
    }
    let batch = format!(r#"{{"jobs":[{},{}]}}"#, pinned("ap-south-1"), pinned("ap-south-1"));
    assert_eq!(federation.client.post("/ojs/v1/jobs/batch", batch).await.status, 201);
    let crossed = Scrape::of(&federation.admin).await.changes(&before, &["cross_region_total"]);
    let expected = [("eu-west-1", 2.0), ("ap-south-1", 2.0)];
    let series = |to: &str| format!("cross_region_total{{from=\"us-east-1\",to=\"{to}\"}}");
    assert_eq!(crossed, expected.into_iter().map(|(to, count)| (series(to), count)).collect());
}

#[tokio::test]
async fn the_federation_and_its_local_region_are_a_series() {
    let federation = still().await;
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("info{{federation_id=\"test\",local_region=\"us-east-1\",version=\"{version}\"}}");
    assert_eq!(Scrape::of(&federation.admin).await.value(&info), 1.0);
}

#[tokio::test]
async fn a_refused_pin_is_counted_for_its_region_and_no_other() {
    let federation = Setup::default().steered().region(2, "weight: 0").start().await;
    let before = Scrape::of(&federation.admin).await;
    assert_eq!(federation.client.enqueue(pinned("ap-south-1")).await.status, 503);
    assert_eq!(federation.client.enqueue(pinned("mars")).await.status, 400);
    let refused = Scrape::of(&federation.admin).await.changes(&before, &["refusals_total"]);
    let expected = [("region_unavailable", "ap-south-1"), ("unknown_region", "none")];
    let series = |(reason, region): (&str, &str)| format!("refusals_total{{reason=\"{reason}\",region=\"{region}\"}}");
    assert_eq!(refused, expected.into_iter().map(|it| (series(it), 1.0)).collect());
}
