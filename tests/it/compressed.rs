//! Compressed bodies: read, routed and sent on without their coding.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Request;
use ojs_testbed::JobState;

use crate::support::{Answer, Federation, Setup, job, pinned};

fn gzip(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap().into()
}

/// Sends a body in this coding.
async fn post(federation: &Federation, path: &str, coding: &str, body: impl Into<Bytes>) -> Answer {
    let request = Request::post(path).header("content-type", "application/json").header("content-encoding", coding);
    federation.client.send(request, body).await
}

/// The one call of a path that a region has received: its coding and its body.
fn received(federation: &Federation, place: usize, path: &str) -> (bool, Bytes) {
    let calls = federation.regions[place].record().requests_to(path);
    assert_eq!(calls.len(), 1, "{path}");
    assert_eq!(calls[0].headers["content-length"], calls[0].body.len().to_string().as_str(), "{path}");
    (calls[0].headers.contains_key("content-encoding"), calls[0].body.clone())
}

#[tokio::test]
async fn a_compressed_job_goes_where_its_pin_says_and_arrives_plain() {
    // Short, with a body that is read aside, and one that comes in many pieces.
    for filler in [0, 50_000, 600_000] {
        let federation = Setup::default().yaml("routing: { stamp: never, mint_id: false }").start().await;
        let text: String = (0..filler).map(|number: usize| char::from(b'a' + (number * number % 23) as u8)).collect();
        let sent = pinned("eu-west-1", &text);
        let answer = post(&federation, "/ojs/v1/jobs", "gzip", gzip(sent.as_bytes())).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
        assert_eq!(received(&federation, 1, "/ojs/v1/jobs"), (false, sent.into()));
        assert_eq!((federation.enqueues(0), federation.enqueues(2)), (0, 0));
    }
}

#[tokio::test]
async fn identity_is_no_coding() {
    let federation = Federation::start().await;
    let answer = post(&federation, "/ojs/v1/jobs", "identity", job("a")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(!received(&federation, 0, "/ojs/v1/jobs").0);
}

#[tokio::test]
async fn workers_and_batches_may_compress_what_they_say_too() {
    let federation = Federation::start().await;
    let batch = format!(r#"{{"jobs":[{}]}}"#, job("a"));
    assert_eq!(post(&federation, "/ojs/v1/jobs/batch", "gzip", gzip(batch.as_bytes())).await.status, 201);
    let claim = br#"{"queues":["default"],"count":1,"worker_id":"w"}"#;
    let answer = post(&federation, "/ojs/v1/workers/fetch", "x-gzip", gzip(claim)).await;
    let id = answer.json()["jobs"][0]["id"].as_str().unwrap().to_owned();
    let beat = format!(r#"{{"worker_id":"w","active_jobs":["{id}"]}}"#);
    assert_eq!(post(&federation, "/ojs/v1/workers/heartbeat", "gzip", gzip(beat.as_bytes())).await.status, 200);
    let ack = format!(r#"{{"job_id":"{id}","result":{{}}}}"#);
    let answer = post(&federation, "/ojs/v1/workers/ack", "gzip", gzip(ack.as_bytes())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(federation.regions[0].jobs().job(&id).unwrap().state, JobState::Completed);
    assert_eq!(received(&federation, 0, "/ojs/v1/workers/ack"), (false, ack.into()));
}

#[tokio::test]
async fn a_compressed_body_of_a_path_that_we_do_not_know_is_read_and_goes_on_plain() {
    let federation = Federation::start().await;
    let path = "/ojs/v2/things";
    post(&federation, path, "gzip", gzip(br#"{"note":"a"}"#)).await;
    assert_eq!(received(&federation, 0, path), (false, Bytes::from_static(br#"{"note":"a"}"#)));
    let answer = post(&federation, path, "gzip", gzip(pinned("eu-west-1", "canary-77").as_bytes())).await;
    answer.check_error(422, "unsupported", "routing_unsupported");
    assert_eq!(federation.regions[0].record().requests_to(path).len(), 1);
}

#[tokio::test]
async fn a_body_that_grows_too_much_is_refused_and_nothing_is_sent() {
    let federation = Setup::default().yaml("limits: { body_bytes: 2MiB }").start().await;
    let bomb = gzip(&vec![b' '; 64 * 1024 * 1024]);
    for path in ["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/ojs/v1/workers/ack"] {
        let answer = post(&federation, path, "gzip", bomb.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.json()["error"]["code"].as_str()), (413, Some("payload_too_large")));
        assert!(federation.regions.iter().all(|region| region.record().requests_to(path).is_empty()));
    }
}
