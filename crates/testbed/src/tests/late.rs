//! Writes that come late, reads that lag, and jobs that only their callers see.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;

use super::client::{Client, config, over, plain, secured};
use crate::{DemoRegion, Fault, FaultAnswer, RegionOptions, When};
use ojs_handles::{Clock, SteeredTime};

const ONE: &str = "019461a8-0000-7000-8000-000000000001";

fn job() -> String {
    format!(r#"{{"type":"a.b","args":[],"id":"{ONE}"}}"#)
}

async fn steered() -> (Arc<SteeredTime>, DemoRegion) {
    let time = SteeredTime::starting_at(1_800_000_000_000);
    let clock = Clock::new(Arc::new(Arc::clone(&time)));
    let region = DemoRegion::start(RegionOptions { clock, ..RegionOptions::new("eu-west-1") }).await.unwrap();
    (time, region)
}

/// Moves the clock by seconds until something is stored: the region reaches its wait at a moment of its own.
async fn seconds_until_stored(time: &SteeredTime, region: &DemoRegion) {
    let moves = async {
        loop {
            time.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = region.wait_for_jobs(|jobs| jobs.len() == 1) => {}
        () = moves => {}
    }
}

#[tokio::test]
async fn a_late_write_lands_after_its_connection_was_cut_and_its_time_has_passed() {
    let (time, region) = steered().await;
    let delay = Duration::from_secs(60);
    region.faults().add(When::enqueue().next(1), Fault::LateWrite { delay, cut: true });
    let mut client = Client::plain(&region).await;
    client.send(Method::POST, "/ojs/v1/jobs", &job()).await.unwrap_err();
    region.record().wait_for(|record| record.connections().iter().all(|it| !it.open)).await;
    let cut_ms = Clock::new(Arc::new(Arc::clone(&time))).unix_ms();
    assert!(region.jobs().is_empty());
    seconds_until_stored(&time, &region).await;
    assert!(region.jobs()[0].created_ms >= cut_ms + 60_000, "{:?}", region.jobs());
}

#[tokio::test]
async fn a_late_write_waits_for_as_long_as_the_client_does_over_either_protocol() {
    for protocol in ["http/1.1", "h2"] {
        let (region, authority) = secured().await;
        let tls = config(&authority, Some(&authority.client("sidecar")), &[protocol]);
        let mut client = Box::pin(Client::tls(&region, Arc::clone(&tls))).await.unwrap();
        let mut witness = Box::pin(Client::tls(&region, tls)).await.unwrap();
        region.faults().add(When::enqueue().next(1), Fault::LateWrite { delay: Duration::ZERO, cut: false });
        let body = job();
        tokio::select! {
            answer = client.send(Method::POST, "/ojs/v1/jobs", &body) => panic!("it was answered: {answer:?}"),
            () = async {
                region.record().wait_for(|record| record.requests().iter().any(|it| it.complete)).await;
                // The region is one thread: what it did not do while it served these it does not do by itself.
                for _ in 0..10 {
                    witness.get("/ojs/v1/health").await;
                }
                assert!(region.jobs().is_empty(), "{protocol}: stored while its client waits");
            } => {}
        }
        if protocol == "h2" {
            // Only the stream has ended: the connection goes on.
            assert_eq!(client.get("/ojs/v1/health").await.status, 200);
        }
        let held = (protocol == "h2").then_some(client);
        region.wait_for_jobs(|jobs| jobs.len() == 1).await;
        drop(held);
    }
}

#[tokio::test]
async fn a_late_write_over_h2_lands_after_its_connection_was_cut() {
    let (region, mut client) = over("h2").await;
    region.faults().add(When::enqueue().next(1), Fault::LateWrite { delay: Duration::ZERO, cut: true });
    client.send(Method::POST, "/ojs/v1/jobs", &job()).await.unwrap_err();
    region.wait_for_jobs(|jobs| jobs.len() == 1).await;
}

#[tokio::test]
async fn a_replica_does_not_have_yet_what_was_stored_less_long_ago_than_it_lags() {
    let (time, region) = steered().await;
    region.faults().add(When::always(), Fault::ReadsLag { by: Duration::from_secs(10) });
    let mut client = Client::plain(&region).await;
    let path = format!("/ojs/v1/jobs/{ONE}");
    assert_eq!(client.post("/ojs/v1/jobs", &job()).await.status, 201);
    let missing = client.get(&path).await;
    assert_eq!((missing.status.as_u16(), &missing.json()["error"]["code"]), (404, &"not_found".into()));
    time.advance(Duration::from_secs(9));
    assert_eq!(client.get(&path).await.status, 404);
    // Writes do not lag, and another fault strikes beside.
    assert_eq!(client.post("/ojs/v1/jobs", &job()).await.status, 409);
    time.advance(Duration::from_secs(1));
    assert_eq!(client.get(&path).await.status, 200);
    let page = Fault::Answer { answer: FaultAnswer::balancer(StatusCode::NOT_FOUND), store: false };
    region.faults().add(When::lookup().next(1), page);
    let balancer = client.get(&path).await;
    assert_eq!((balancer.status.as_u16(), &balancer.headers["content-type"]), (404, &"text/html".parse().unwrap()));
    assert_eq!(client.get(&path).await.status, 200);
}

#[tokio::test]
async fn a_job_is_there_for_its_caller_only_where_others_are_not_to_see_it() {
    let region = plain().await;
    region.faults().add(When::always(), Fault::OthersUnseen);
    let mut client = Client::plain(&region).await;
    let mut call = async |method: Method, path: &str, headers: &[(&str, &str)], body: String| {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        client.call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap().status.as_u16()
    };
    let mine: &[_] = &[("authorization", "Bearer x"), ("x-ojs-tenant-id", "acme")];
    assert_eq!(call(Method::POST, "/ojs/v1/jobs", mine, job()).await, 201);
    let path = format!("/ojs/v1/jobs/{ONE}");
    for (headers, status) in [
        (mine, 200),
        (&[], 404),
        (&mine[..1], 404),
        (&mine[1..], 404),
        (&[("authorization", "Bearer y"), ("x-ojs-tenant-id", "acme")], 404),
    ] {
        assert_eq!(call(Method::GET, &path, headers, String::new()).await, status, "{headers:?}");
    }
    assert_eq!(call(Method::DELETE, &path, &[], String::new()).await, 404);
    let nobodys = job().replace("0001\"", "0002\"");
    assert_eq!(call(Method::POST, "/ojs/v1/jobs", &[], nobodys).await, 201);
    assert_eq!(call(Method::GET, &path.replace("0001", "0002"), mine, String::new()).await, 200);
}

#[tokio::test]
async fn a_dishonest_success_stores_nothing_and_does_not_show_the_job() {
    let other = "019461a8-0000-7000-8000-000000000009";
    for (answer, status, body) in [
        (FaultAnswer::page(), 200, "<html>"),
        (FaultAnswer::other_job(other), 201, other),
        (FaultAnswer::empty(StatusCode::CREATED), 201, ""),
    ] {
        let region = plain().await;
        region.faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
        let mut client = Client::plain(&region).await;
        let told = client.post("/ojs/v1/jobs", &job()).await;
        assert_eq!(told.status.as_u16(), status);
        assert!(told.text().contains(body) && !told.text().contains(ONE), "{}", told.text());
        assert!(region.jobs().is_empty());
    }
}
