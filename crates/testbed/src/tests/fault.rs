use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{Client, over, plain};
use crate::{DemoRegion, Fault, FaultAnswer, Gate, RegionOptions, When};
use ojs_handles::{Clock, SteeredTime};

const JOB: &str = r#"{"type":"a.b","args":[]}"#;

/// Enqueues one job while a fault is on and says what came of it: the error if no whole answer came, and the jobs stored.
async fn check(protocol: &str, fault: Fault, answered: Option<u16>, stored: usize) -> Option<hyper::Error> {
    let (region, mut client) = over(protocol).await;
    region.faults().add(When::enqueue().next(1), fault.clone());
    let outcome = client.send(Method::POST, "/ojs/v1/jobs", JOB).await;
    let status = outcome.as_ref().ok().map(|answer| answer.status.as_u16());
    assert_eq!((status, region.jobs().len()), (answered, stored), "{protocol} {fault:?}");
    assert_eq!(region.faults().struck(), 1);
    outcome.err()
}

#[tokio::test]
async fn a_fault_ends_or_answers_the_request_and_stores_the_job_only_where_it_says_so() {
    let balancer = || FaultAnswer::balancer(StatusCode::BAD_GATEWAY);
    for protocol in ["http/1.1", "h2"] {
        check(protocol, Fault::CutBeforeBody, None, 0).await;
        check(protocol, Fault::CutAfterRequest { store: false }, None, 0).await;
        check(protocol, Fault::CutAfterRequest { store: true }, None, 1).await;
        check(protocol, Fault::CutMidResponse { after_bytes: 0 }, None, 1).await;
        check(protocol, Fault::CutMidResponse { after_bytes: 1_000_000 }, None, 1).await;
        check(protocol, Fault::Answer { answer: balancer(), store: false }, Some(502), 0).await;
        check(protocol, Fault::Answer { answer: balancer(), store: true }, Some(502), 1).await;
        check(protocol, Fault::RefuseStream, None, 0).await;
        check(protocol, Fault::GoAway, None, 0).await;
    }
    // Its body ends with the connection: only a polite close makes that a whole answer.
    let raw = Bytes::from_static(b"HTTP/1.1 299 Odd\r\n\r\nup to the end");
    check("http/1.1", Fault::Raw { bytes: raw }, Some(299), 1).await;
    check("http/1.1", Fault::Raw { bytes: Bytes::from_static(b"no HTTP at all\r\n\r\n") }, None, 1).await;
}

#[tokio::test]
async fn a_refused_stream_and_a_goaway_prove_to_the_client_that_nothing_was_done() {
    for (fault, is_proof) in [
        (Fault::RefuseStream, (|error| error.reason() == Some(h2::Reason::REFUSED_STREAM)) as fn(&h2::Error) -> bool),
        (Fault::GoAway, |error| {
            error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
        }),
    ] {
        let error = check("h2", fault.clone(), None, 0).await.unwrap();
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<h2::Error>());
        assert!(cause.is_some_and(is_proof), "{fault:?} {error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_has_sent_exactly_what_was_asked_for() {
    let region = plain().await;
    region.faults().add(When::enqueue(), Fault::CutMidResponse { after_bytes: 5 });
    let mut stream = TcpStream::connect(region.address()).await.unwrap();
    let request = format!("POST /ojs/v1/jobs HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{JOB}", JOB.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n{\"job"), "{answer}");
}

#[tokio::test]
async fn a_hanging_request_never_ends_and_only_one_that_was_read_can_be_stored() {
    for (fault, complete, stored) in [
        (Fault::HangBeforeBody, false, 0),
        (Fault::HangAfterBody { store: false }, true, 0),
        (Fault::HangAfterBody { store: true }, true, 1),
    ] {
        let region = plain().await;
        region.faults().add(When::enqueue(), fault.clone());
        let mut client = Client::plain(&region).await;
        tokio::select! {
            answer = client.send(Method::POST, "/ojs/v1/jobs", JOB) => panic!("{fault:?} was answered: {answer:?}"),
            () = region.record().wait_for(|record| {
                record.contains(JOB.as_bytes()) && record.requests().iter().any(|request| request.complete == complete)
            }) => {}
        }
        // Read is not yet stored: the one comes right after the other.
        region.wait_for_jobs(|jobs| jobs.len() >= stored).await;
        assert_eq!(region.jobs().len(), stored, "{fault:?}");
    }
}

#[tokio::test]
async fn a_held_request_takes_effect_when_the_gate_opens_even_if_the_client_has_gone() {
    let region = plain().await;
    let gate = Gate::new();
    region.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let mut client = Client::plain(&region).await;
    tokio::select! {
        answer = client.send(Method::POST, "/ojs/v1/jobs", JOB) => panic!("it was answered: {answer:?}"),
        () = region.record().wait_for(|record| record.requests().iter().any(|request| request.complete)) => {}
    }
    drop(client);
    region.cut_connections().await;
    assert!(region.jobs().is_empty());
    gate.open();
    region.wait_for_jobs(|jobs| jobs.len() == 1).await;
}

#[tokio::test]
async fn a_slow_answer_waits_by_the_clock_of_the_region() {
    let time = SteeredTime::starting_at(0);
    let clock = Clock::new(Arc::new(Arc::clone(&time)));
    let region = DemoRegion::start(RegionOptions { clock, ..RegionOptions::new("eu-west-1") }).await.unwrap();
    region.faults().add(When::health(), Fault::Slow { delay: Duration::from_secs(60) });
    let mut client = Client::plain(&region).await;
    let mut answer = Box::pin(client.get("/ojs/v1/health"));
    tokio::select! {
        answer = &mut answer => panic!("too early: {answer:?}"),
        () = region.record().wait_for(|record| !record.requests().is_empty()) => {}
    }
    // The region may reach its wait only after a first move of the clock: moves until the answer is there.
    let moves = async {
        loop {
            time.advance(Duration::from_secs(60));
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = answer => assert_eq!(answer.status, 200),
        () = moves => {}
    }
}

#[tokio::test]
async fn health_can_lie_while_everything_else_is_served() {
    let region = plain().await;
    region.faults().add(When::always(), Fault::LyingHealth { status_text: "degraded".to_owned() });
    let mut client = Client::plain(&region).await;
    let answer = client.get("/ojs/v1/health").await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (StatusCode::OK, Some("degraded")));
    assert_eq!(client.post("/ojs/v1/jobs", JOB).await.status, 201);
    region.faults().clear();
    assert_eq!(client.get("/ojs/v1/health").await.json()["status"], "ok");
}

#[tokio::test]
async fn a_refused_connection_sends_nothing_and_later_ones_are_served() {
    let (region, client) = over("http/1.1").await;
    drop(client);
    region.record().clear();
    region.faults().add(When::always().next(1), Fault::Refuse);
    // The reset may be faster than the connecting side's look at its own socket.
    if let Ok(mut stream) = TcpStream::connect(region.address()).await {
        assert!(!matches!(stream.read(&mut [0; 1]).await, Ok(1..)));
    }
    assert_eq!(region.faults().struck(), 1);
    let again = TcpStream::connect(region.address()).await.unwrap();
    assert!(again.peer_addr().is_ok());
    assert!(region.record().requests().is_empty());
}

#[tokio::test]
async fn an_endless_body_goes_on_until_the_client_leaves() {
    let region = plain().await;
    region.faults().add(When::always(), Fault::EndlessBody);
    let mut stream = TcpStream::connect(region.address()).await.unwrap();
    stream.write_all(b"GET /ojs/v1/health HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut megabyte = vec![0; 1 << 20];
    stream.read_exact(&mut megabyte).await.unwrap();
    drop(stream);
    region.record().wait_for(|record| record.connections().iter().all(|connection| !connection.open)).await;
}

#[tokio::test]
async fn rules_strike_by_path_method_count_and_seed_and_the_first_one_decides() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let answer = |status| Fault::Answer { answer: FaultAnswer::error_document(status, "backend_error"), store: false };
    let faults = region.faults();
    faults.add(When::path("/ojs/v1/queues").after(2).next(2), answer(StatusCode::INTERNAL_SERVER_ERROR));
    faults.add(When::always().method(Method::DELETE), answer(StatusCode::TOO_MANY_REQUESTS));
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(client.get("/ojs/v1/queues").await.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 500, 500, 200, 200]);
    let answer = client.send(Method::DELETE, "/ojs/v1/jobs/x", "").await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["retryable"]), (429, &true.into()));
    faults.clear();
    let unavailable = Fault::Answer { answer: FaultAnswer::queue_unavailable(), store: false };
    faults.add(When::always().chance(0.5, 7), unavailable);
    let mut struck = 0;
    for _ in 0..64 {
        struck += u32::from(client.get("/ojs/v1/queues").await.headers.contains_key("x-ojs-queue-status"));
    }
    assert!((16..48).contains(&struck), "{struck} of 64 for a chance of one half");
}
