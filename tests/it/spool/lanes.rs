//! The order within a queue, and the repetitions of an enqueue.

use http::{Method, Request};
use ojs_testbed::{Fault, Gate, When};

use super::{
    Files, OWN, arguments, check_held, eventually, held, job, launched, resume, setup, shown, stop, stored_once,
};

fn own(args: &str) -> String {
    format!(r#"{{"id":"{OWN}","type":"email.send","args":["{args}"]}}"#)
}

#[tokio::test]
async fn new_jobs_go_behind_those_that_wait_also_when_a_region_is_back() {
    let files = Files::new();
    let federation = launched(setup(&files, "")).await;
    federation.regions[1].stop().await;
    federation.regions[0].stop().await;
    for number in 0..3 {
        held(&federation.client, job(&number.to_string())).await;
    }
    let gate = Gate::new();
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    federation.regions[0].resume().await.unwrap();
    let record = federation.regions[0].record();
    record.wait_for(|record| record.requests_to("/ojs/v1/jobs").iter().any(|it| it.complete)).await;
    // The first is on its way.
    for number in 3..6 {
        held(&federation.client, job(&number.to_string())).await;
    }
    let other = r#"{"type":"email.send","queue":"other","args":["other"]}"#;
    assert_eq!(federation.client.enqueue(other).await.status, 201, "another lane is empty");
    let several = r#"{"jobs":[{"type":"email.send","args":["overtakes"]}]}"#;
    let flow = r#"{"name":"w","steps":[{"id":"s","type":"email.send","args":["overtakes"]}]}"#;
    for (path, body) in [("/ojs/v1/jobs/batch", several), ("/ojs/v1/workflows", flow)] {
        let refused = federation.client.call(Method::POST, path, body).await;
        assert_eq!(refused.check_error(503, "backend_error", "spool_behind")["details"]["why"], "several_jobs");
    }
    assert!(federation.seen("overtakes").is_empty());
    let keyed = Request::post("/ojs/v1/jobs").header("idempotency-key", "k");
    let keyed = federation.client.send(keyed, job("keyed")).await;
    let error = keyed.check_error(503, "backend_error", "spool_behind");
    assert_eq!(error["details"]["why"], "idempotency_key");
    let long = federation.client.enqueue(job(&"x".repeat(300_000))).await;
    assert_eq!(long.check_error(503, "backend_error", "spool_behind")["details"]["why"], "too_long");
    gate.open();
    eventually("all are there", async || federation.regions[0].jobs().len() == 7).await;
    let order: Vec<String> = arguments(&federation.regions[0]).into_iter().filter(|args| args.len() == 5).collect();
    assert_eq!(order, [r#"["0"]"#, r#"["1"]"#, r#"["2"]"#, r#"["3"]"#, r#"["4"]"#, r#"["5"]"#]);
    assert!(stored_once(&federation.regions, 7));
}

#[tokio::test]
async fn a_full_spool_refuses_and_loses_nothing() {
    let files = Files::new();
    let federation = launched(setup(&files, "max_bytes: 1MiB, ")).await;
    stop(&federation.regions).await;
    let (mut count, body) = (0, || job(&"x".repeat(200_000)));
    loop {
        let answer = federation.client.enqueue(body()).await;
        if answer.status != 202 {
            assert_eq!(answer.check_error(503, "backend_error", "spool_behind")["details"]["why"], "full");
            break;
        }
        count += 1;
    }
    assert_eq!(count, 5);
    let other = r#"{"type":"email.send","queue":"other","args":["OTHER"]}"#.replace("OTHER", &"x".repeat(200_000));
    let other = federation.client.enqueue(other).await;
    assert_eq!((other.status.as_u16(), other.reason().as_str()), (503, "no_healthy_region"), "{other:?}");
    resume(&federation.regions).await;
    eventually("all are there", async || stored_once(&federation.regions, count)).await;
}

#[tokio::test]
async fn a_repetition_is_answered_by_the_spooled_job_and_another_body_under_its_id_is_refused() {
    let files = Files::new();
    let federation = launched(setup(&files, "")).await;
    stop(&federation.regions).await;
    for _ in 0..3 {
        let answer = held(&federation.client, own("a")).await;
        assert_eq!(answer.job_id(), OWN);
    }
    let other = federation.client.enqueue(own("b")).await;
    assert_eq!((other.status.as_u16(), other.reason().as_str()), (503, "id_in_use"), "{other:?}");
    let tracked = |args: &str| {
        format!(r#"{{"type":"email.send","args":["{args}"],"meta":{{"ojs.federation.federation_id":"{OWN}"}}}}"#)
    };
    let first = held(&federation.client, tracked("t")).await;
    let again = federation.client.enqueue(tracked("t")).await;
    check_held(&again);
    assert_eq!(again.job_id(), first.job_id());
    assert_eq!(shown(&federation.admin).await["waiting"], 2);
    resume(&federation.regions).await;
    eventually("both are there", async || stored_once(&federation.regions, 2)).await;
    eventually("the rows are gone", async || shown(&federation.admin).await["waiting"] == 0).await;
    let late = federation.client.enqueue(own("a")).await;
    assert_eq!((late.status.as_u16(), late.header("ojs-federation-replayed")), (201, Some("true")), "{late:?}");
    assert!(stored_once(&federation.regions, 2), "a repetition after the drain stores nothing");
}
