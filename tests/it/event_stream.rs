//! `GET /ojs/v1/events/stream?channel=…`: what SDKs call and no server has, led to the stream of a job or of a queue.

use http::{Method, Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};

use crate::support::{Federation, Setup, Wire};

const PINNED: &str = r#"{"type":"a","args":[],"meta":{"ojs.federation.region":"ap-south-1"}}"#;

async fn open(federation: &Federation, query: &str) -> Wire {
    let mut wire = federation.client.wire().await;
    wire.send(format!("GET /ojs/v1/events/stream?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
    wire
}

/// Reads chunks until something has come.
async fn until(wire: &mut Wire, needle: &str) -> String {
    let mut text = String::new();
    while !text.contains(needle) {
        let chunk = wire.chunk().await;
        assert!(!chunk.is_empty(), "ended after {text:?}");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    text
}

/// The targets below a path that each region was asked for, by place.
fn asked(federation: &Federation, prefix: &str) -> Vec<Vec<String>> {
    let paths = |requests: Vec<ojs_testbed::Recorded>| requests.into_iter().map(|request| request.path).collect();
    federation.regions.iter().map(|region| paths(region.record().requests_to(prefix))).collect()
}

#[tokio::test]
async fn the_channel_of_a_job_streams_from_the_region_that_holds_it_as_things_happen() {
    let federation = Federation::start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    for (query, forget) in [(format!("channel=job:{id}"), false), (format!("x=%2F&channel=%6aob%3A{id}"), true)] {
        if forget {
            federation.shared.owners.forget(&id);
        }
        let mut wire = open(&federation, &query).await;
        let (status, headers) = wire.head().await;
        assert_eq!((status.as_u16(), &headers["ojs-federation-region"]), (200, &"ap-south-1".parse().unwrap()));
        assert_eq!(headers["content-type"], "text/event-stream");
        until(&mut wire, "event: job.available").await;
        if forget {
            federation.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await;
            until(&mut wire, "event: job.cancelled").await;
            assert!(wire.chunk().await.is_empty(), "the stream ends with the job");
        }
    }
    let path = format!("/ojs/v1/jobs/{id}/events");
    assert_eq!(asked(&federation, &path), [vec![], vec![], vec![path.clone(), format!("{path}?x=%2F")]]);
    assert!(asked(&federation, "/ojs/v1/events").concat().is_empty());
}

#[tokio::test]
async fn the_channel_of_a_queue_streams_from_the_local_region_or_from_the_one_that_is_named() {
    let federation = Federation::start().await;
    for (query, region, place) in [
        ("channel=queue:mail&types=a", "us-east-1", 0),
        ("channel=queue%3Amail&types=a&region=eu-west-1", "eu-west-1", 1),
    ] {
        let mut wire = open(&federation, query).await;
        let (status, headers) = wire.head().await;
        assert_eq!((status.as_u16(), &headers["ojs-federation-region"]), (200, &region.parse().unwrap()));
        until(&mut wire, "retry: 3000").await;
        federation.regions[place].fill("mail", 1);
        until(&mut wire, "event: job.state_changed").await;
        assert_eq!(asked(&federation, "/ojs/v1/queues/")[place], ["/ojs/v1/queues/mail/events?types=a"]);
    }
}

#[tokio::test]
async fn the_number_of_the_last_event_goes_only_to_the_region_that_may_have_given_it() {
    let federation = Federation::start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    for (query, path, place, kept) in [
        (format!("channel=job:{id}"), format!("/ojs/v1/jobs/{id}/events"), 2, true),
        ("channel=queue:mail".to_owned(), "/ojs/v1/queues/mail/events".to_owned(), 0, true),
        ("channel=queue:mail&region=eu-west-1".to_owned(), "/ojs/v1/queues/mail/events".to_owned(), 1, false),
    ] {
        let mut wire = federation.client.wire().await;
        let head =
            format!("GET /ojs/v1/events/stream?{query} HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: evt_7\r\n\r\n");
        wire.send(head).await;
        assert_eq!(wire.head().await.0, 200);
        let heard = federation.regions[place].record().requests_to(&path).pop().unwrap();
        assert_eq!(heard.headers.contains_key("last-event-id"), kept, "{query}");
    }
}

#[tokio::test]
async fn other_channels_are_refused_and_reach_no_region() {
    let federation = Federation::start().await;
    for query in
        ["?channel", "?channel=all", "?channel=worker:canary-1", "?channel=job:", "?channel=job:canary-1%2Fevents"]
    {
        let refused = federation.client.get(&format!("/ojs/v1/events/stream{query}")).await;
        let error = refused.check_error(400, "invalid_request", "unknown_channel");
        assert_eq!(error["details"]["field"], "channel", "{query}");
    }
    assert!(federation.seen("canary-1").is_empty());
}

#[tokio::test]
async fn without_a_channel_it_streams_from_the_local_region_as_it_was_asked_for() {
    let federation = Federation::start().await;
    let event = "event: job.completed\ndata: {}\n\n";
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    let answer = FaultAnswer { status: StatusCode::OK, headers, body: event.into() };
    let fault = Fault::Answer { answer, store: false };
    federation.regions[0].faults().add(When::path("/ojs/v1/events/stream"), fault);
    for query in ["", "?types=job.completed", "?queue=mail&types=a%2Cb"] {
        let answer = federation.client.get(&format!("/ojs/v1/events/stream{query}")).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "us-east-1"), "{query}");
        assert_eq!((answer.header("content-type"), &*answer.body), (Some("text/event-stream"), event.as_bytes()));
    }
    let path = "/ojs/v1/events/stream";
    let heard = [path.to_owned(), format!("{path}?types=job.completed"), format!("{path}?queue=mail&types=a%2Cb")];
    assert_eq!(asked(&federation, path), [heard.to_vec(), vec![], vec![]]);
}

#[tokio::test]
async fn a_job_that_no_region_has_is_a_404_only_when_all_have_said_so() {
    let federation = Federation::start().await;
    let path = "/ojs/v1/events/stream?channel=job:019461a8-0000-7000-8000-000000000000";
    assert_eq!(federation.client.get(path).await.status, 404);
    federation.regions[2].stop().await;
    federation.client.get(path).await.check_error(503, "backend_error", "owner_unavailable");
}

#[tokio::test]
async fn switched_off_it_goes_to_the_local_region_as_it_is() {
    let federation = Setup::default().yaml("compat: { event_stream: false }").start().await;
    let request = Request::get("/ojs/v1/events/stream?channel=job:a").header("last-event-id", "evt_7");
    let answer = federation.client.send(request, "").await;
    assert_eq!((answer.status.as_u16(), answer.region()), (404, "us-east-1"));
    let heard = &federation.regions[0].record().requests_to("/ojs/v1/events")[0];
    assert_eq!(heard.path, "/ojs/v1/events/stream?channel=job:a");
    assert_eq!(heard.headers["last-event-id"], "evt_7");
}
