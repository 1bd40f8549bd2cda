//! Reads while the memory for bodies is taken.

use http::Method;
use ojs_testbed::{Fault, FaultAnswer, Gate, When};

use crate::support::{Setup, job};

#[tokio::test]
async fn reads_are_refused_while_bodies_take_the_memory_and_no_region_is_asked() {
    let limits = "limits: { body_bytes: 4KiB, buffered_bytes: 4KiB }\ncircuit_breaker: { failure_threshold: 1 }";
    let federation = Setup::default().steered().yaml(limits).start().await;
    let (region, gate) = (&federation.regions[0], Gate::new());
    region.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let first = async {
        // Half of the bound, and room for the same once more.
        let body = job("first");
        let body = format!("{body}{}", " ".repeat(2048 - body.len()));
        assert_eq!(federation.client.enqueue(body).await.status, 201);
    };
    let meanwhile = async {
        region.record().wait_for(|record| record.contains(b"first")).await;
        for path in ["/ojs/v1/queues", "/ojs/v1/dead-letter", "/ojs/v1/queues/q/stats"] {
            let answer = federation.client.get(path).await;
            answer.check_error(503, "backend_error", "overloaded");
            answer.check_retry_after(1);
            assert!(federation.regions.iter().all(|region| region.record().requests_to(path).is_empty()), "{path}");
        }
        let answer = federation.client.enqueue(job("second")).await;
        assert_eq!(answer.status, 201, "reads leave room for jobs: {answer:?}");
        gate.open();
    };
    tokio::join!(first, meanwhile);
    assert_eq!(federation.client.get("/ojs/v1/queues").await.status, 200);
}

#[tokio::test]
async fn a_list_that_there_is_no_room_for_blames_no_region() {
    let limits = "limits: { body_bytes: 4KiB, buffered_bytes: 4KiB }\ncircuit_breaker: { failure_threshold: 1 }";
    let federation = Setup::default().steered().regions(2).yaml(limits).start().await;
    // Each fits alone, and both do not.
    let job = format!(r#"{{"id":"a","args":["{}"]}}"#, "x".repeat(700 << 10));
    let body = format!(r#"{{"jobs":[{job}],"pagination":{{"total":1,"limit":1,"offset":0,"has_more":false}}}}"#);
    for region in &federation.regions {
        let answer = FaultAnswer { body: body.clone().into(), ..FaultAnswer::balancer(http::StatusCode::OK) };
        region
            .faults()
            .add(When::path("/ojs/v1/dead-letter").method(Method::GET), Fault::Answer { answer, store: false });
    }
    let answer = federation.client.get("/ojs/v1/dead-letter").await;
    assert_eq!(answer.status, 200, "{:?}", answer.headers);
    let missing = answer.header("ojs-federation-partial");
    assert!(missing.is_some_and(|region| ["us-east-1", "eu-west-1"].contains(&region)), "{missing:?}");
    assert_eq!([federation.breaker(0), federation.breaker(1)], ["closed"; 2]);
    assert_eq!(federation.shared.buffered.bytes(), 0);
}
