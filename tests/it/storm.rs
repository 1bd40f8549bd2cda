//! Clients that try again by themselves, as SDKs do, in front of regions that refuse everything.

use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, When};

use crate::support::{Client, Federation, Setup, job};

/// Clients at once, jobs of each in a row, and how often a job is tried: SDKs try three times again.
const CLIENTS: usize = 10;
const JOBS: usize = 5;
const TRIES: usize = 4;
/// Seconds that pass between two jobs.
const SECONDS: usize = 1;
/// Attempts that the budgets allow beyond one a call: a fifth of the calls, three a second, and ten seconds of these at first.
const FLOOR: usize = 3;
const FIRST: usize = 10 * FLOOR;

/// A job, tried again at once whatever the answer says of when: the worst that a client can do. How often it called.
async fn insist(client: Client, name: String) -> usize {
    for tried in 1..=TRIES {
        let answer = client.enqueue(job(&name)).await;
        if answer.status == 201 {
            return tried;
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.json()["error"]["retryable"], true);
        // What a region has said itself is passed on as it is.
        if !answer.reason().is_empty() {
            assert!(answer.retry_after() > 0, "{answer:?}");
        }
    }
    TRIES
}

async fn refused(yaml: &str) -> Federation {
    let federation = Setup::default().steered().yaml(yaml).start().await;
    for region in &federation.regions {
        let answer = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
        region.faults().add(When::enqueue(), Fault::Answer { answer, store: false });
    }
    federation
}

/// All clients' calls, and the attempts that the regions have seen.
async fn storm(federation: &Federation) -> (usize, usize) {
    let mut calls = 0;
    for round in 0..JOBS {
        let each = (0..CLIENTS).map(|client| insist(federation.client, format!("job-{client}-{round}")));
        calls += join_all(each).await.into_iter().sum::<usize>();
        federation.advance(Duration::from_secs(u64::try_from(SECONDS).unwrap()));
    }
    (calls, (0..federation.regions.len()).map(|place| federation.enqueues(place)).sum())
}

#[tokio::test]
async fn clients_that_insist_add_no_more_attempts_than_the_budget_allows() {
    // Breakers and guards would end the storm before the budget has to.
    let yaml = "circuit_breaker: { failure_threshold: 100000, failure_ratio: 2 }\nlimits: { worker_threads: 1 }";
    let federation = refused(yaml).await;
    let (calls, attempts) = storm(&federation).await;
    assert_eq!(calls, CLIENTS * JOBS * TRIES);
    let allowed = calls + calls / 5 + FLOOR * SECONDS * JOBS + FIRST;
    assert!(attempts <= allowed, "{attempts} attempts for {calls} calls, at most {allowed}");
    assert!(attempts >= calls.min(CLIENTS), "the regions were asked: {attempts}");
}

#[tokio::test]
async fn clients_that_insist_are_answered_here_once_their_regions_are_known_to_refuse() {
    let federation = refused("circuit_breaker: { early_probe: 0s }").await;
    let (calls, attempts) = storm(&federation).await;
    assert_eq!(calls, CLIENTS * JOBS * TRIES);
    assert!(attempts < calls / 2, "{attempts} attempts for {calls} calls");
}
