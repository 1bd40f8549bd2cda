//! `Retry-After` of regions, made readable for every client, whichever way the answer takes.

use http::{Method, Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};

use crate::support::{Answer, Federation, Setup};

const JOB: &str = r#"{"type":"a","args":[],"meta":{"ojs.federation.region":"us-east-1"}}"#;

/// Every way that an answer of a region takes, each answered 429 with this header.
async fn answers(federation: &Federation, value: &str) -> Vec<Answer> {
    let answer = FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    let fault = Fault::Answer { answer: answer.header("retry-after", value), store: false };
    // Probes are no answers to clients, and go on as ever.
    for path in ["/ojs/v1/jobs", "/ojs/v1/queues", "/ojs/v1/cron", "/ojs/v1/ws", "/ojs/manifest"] {
        federation.regions[0].faults().add(When::path(path), fault.clone());
    }
    let client = federation.client;
    let upgrade = Request::get("/ojs/v1/ws").header("connection", "upgrade").header("upgrade", "websocket");
    let answers = vec![
        client.enqueue(JOB).await,
        client.post("/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{JOB}]}}"#)).await,
        client.call(Method::DELETE, "/ojs/v1/jobs/x?region=us-east-1", "").await,
        client.get("/ojs/v1/queues/mail/jobs").await,
        client.post("/ojs/v1/cron", r#"{"name":"n","expression":"* * * * *"}"#).await,
        client.send(upgrade, "").await,
        client.get("/ojs/manifest?region=us-east-1").await,
    ];
    federation.regions[0].faults().clear();
    answers
}

#[tokio::test]
async fn it_is_a_positive_whole_number_on_every_answer_that_is_passed_on() {
    let federation = Setup::default().regions(1).steered().start().await;
    for (value, expected) in [
        ("7", "7"),
        ("0.5", "1"),
        ("2.5", "3"),
        ("0", "1"),
        ("-3", "1"),
        ("inf", "1"),
        ("soon", "1"),
        // The steered clock stands at 2027-01-15T08:00:00Z.
        ("Fri, 15 Jan 2027 08:01:30 GMT", "90"),
        ("Fri, 15 Jan 2027 07:00:00 GMT", "1"),
    ] {
        for (way, answer) in answers(&federation, value).await.iter().enumerate() {
            assert_eq!(
                (answer.status.as_u16(), answer.header("retry-after")),
                (429, Some(expected)),
                "{value}, way {way}"
            );
        }
    }
    assert_eq!(federation.client.get("/ojs/v1/queues").await.header("retry-after"), None);
}

#[tokio::test]
async fn switched_off_it_is_passed_on_as_it_came() {
    let federation = Setup::default().regions(1).yaml("compat: { retry_after: false }").start().await;
    for answer in answers(&federation, "-0.5").await {
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, Some("-0.5")));
    }
}
