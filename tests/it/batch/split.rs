//! Where the jobs of a batch go while all is well.

use super::{BATCH, alive, job, kinds, mixed, post, quiet};
use crate::support::{Federation, Setup};
use serde_json::json;

#[tokio::test]
async fn jobs_with_different_pins_are_split_and_answered_in_the_order_of_the_request() {
    let federation = quiet().start().await;
    let answer = post(&federation, BATCH, &mixed(&[Some(1), None, Some(0), Some(1), None, Some(2)])).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(kinds(&answer), ["t.a", "t.b", "t.c", "t.d", "t.e", "t.f"]);
    assert_eq!(answer.json()["count"], 6);
    assert_eq!(alive(&federation), [vec!["t.b", "t.c", "t.e"], vec!["t.a", "t.d"], vec!["t.f"]]);
    assert_eq!(answer.region(), "eu-west-1, us-east-1, ap-south-1");
    // A job is seen by its own region only, and each region gets one call.
    for (kind, place) in [("t.a", 1), ("t.d", 1), ("t.c", 0), ("t.f", 2)] {
        assert_eq!(federation.seen(kind), [place], "{kind}");
    }
    assert!(federation.regions.iter().all(|region| region.record().requests_to(BATCH).len() == 1));
}

#[tokio::test]
async fn the_owners_of_a_split_batch_are_known_and_every_job_carries_its_stamp() {
    let federation = quiet().start().await;
    let answer = post(&federation, BATCH, &mixed(&[Some(2), Some(1)])).await;
    for (place, job) in [(2, &answer.json()["jobs"][0]), (1, &answer.json()["jobs"][1])] {
        assert!(job["meta"]["ojs.federation.federation_id"].is_string(), "{job}");
        let id = job["id"].as_str().unwrap();
        assert_eq!(federation.stored(id), [(place, 1)]);
        federation.regions.iter().for_each(|region| region.record().clear());
        let found = federation.client.get(&format!("/ojs/v1/jobs/{id}")).await;
        assert_eq!((found.status.as_u16(), found.region()), (200, federation.regions[place].id()));
        let asked: Vec<usize> = federation.job_requests();
        assert_eq!(asked.iter().sum::<usize>(), 1, "nobody is searched for: {asked:?}");
    }
}

#[tokio::test]
async fn flexible_jobs_follow_the_pinned_ones() {
    let federation = quiet().start().await;
    let answer = post(&federation, BATCH, &mixed(&[None, Some(1), None])).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
    assert_eq!(alive(&federation), [vec![], vec!["t.a", "t.b", "t.c"], vec![]]);
    assert_eq!(federation.seen("t.a"), [1], "nothing of it went elsewhere");
    // Also one that names a strategy of its own, and one whose pin stands beside the jobs.
    let mut overflow = job("t.d", None);
    overflow["meta"] = json!({ "ojs.federation.region_affinity": "overflow" });
    let body = json!({ "jobs": [overflow, job("t.e", None)], "default_options": { "metadata": { "ojs.federation.region": "ap-south-1" } } });
    assert_eq!(post(&federation, BATCH, &body).await.region(), "ap-south-1");
    assert_eq!(federation.seen("t.d"), [2]);
}

#[tokio::test]
async fn a_flexible_job_follows_a_pin_only_where_rules_permit_it() {
    let rules =
        "routing: { rules: [ { match: { job_type: \"t.b\" }, target: { regions: [us-east-1, ap-south-1] } } ] }";
    let federation = quiet().yaml(rules).start().await;
    let answer = post(&federation, BATCH, &mixed(&[Some(1), None, None])).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(kinds(&answer), ["t.a", "t.b", "t.c"]);
    assert_eq!(alive(&federation), [vec!["t.b"], vec!["t.a", "t.c"], vec![]]);
}

#[tokio::test]
async fn a_mixed_batch_is_refused_whole_where_the_operator_says_so() {
    let federation = quiet().yaml("batch: { mixed: reject }").start().await;
    let answer = post(&federation, BATCH, &mixed(&[Some(1), None, Some(0), Some(1)])).await;
    let error = answer.check_error(400, "invalid_request", "mixed_batch");
    assert_eq!(error["details"]["regions"], json!({ "eu-west-1": [0, 3], "us-east-1": [1, 2] }));
    assert_eq!(alive(&federation), [[""; 0]; 3]);
    assert!(federation.regions.iter().all(|region| region.record().requests_to(BATCH).is_empty()));
    // What one region will do for is no mixed batch.
    assert_eq!(post(&federation, BATCH, &mixed(&[Some(1), None])).await.status, 201);
}

#[tokio::test]
async fn what_stands_beside_the_jobs_binds_them_all() {
    let federation = quiet().start().await;
    let pinned = json!({ "metadata": { "ojs.federation.region": "eu-west-1" } });
    let body = json!({ "jobs": [job("t.a", Some(1)), job("t.b", Some(0))], "default_options": pinned });
    let error = post(&federation, BATCH, &body).await.check_error(400, "invalid_request", "contradicting_pins");
    assert_eq!(error["details"]["index"], 1);
    assert_eq!(error["details"]["places"], json!([{ "place": "/default_options/metadata", "region": "eu-west-1" }]));
    assert_eq!(federation.seen("t.a"), [0; 0]);
}

#[tokio::test]
async fn a_batch_of_flexible_jobs_stays_together() {
    let federation = Setup::default().yaml("routing: { strategy: round-robin }").start().await;
    for (turn, expected) in [(0, "t.a"), (1, "t.b"), (2, "t.c")] {
        let body = json!({ "jobs": [job(expected, None), job(expected, None)] });
        let answer = post(&federation, BATCH, &body).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (201, federation.regions[turn].id()));
        assert_eq!(answer.header("ojs-federation-strategy"), Some("round-robin"));
    }
    assert_eq!(alive(&federation), [vec!["t.a"; 2], vec!["t.b"; 2], vec!["t.c"; 2]]);
    let counted = r#"enqueues_total{region="us-east-1",strategy="round-robin"}"#;
    assert_eq!(federation.metric(counted).await, 2.0, "jobs are counted, not calls");
}

#[tokio::test]
async fn a_large_mixed_batch_is_answered_job_by_job_in_its_order() {
    let federation = Federation::start().await;
    let jobs: Vec<_> =
        (0..1_500).map(|place| job(&format!("t.n{place}"), [Some(1), Some(2), None][place % 3])).collect();
    let answer = post(&federation, BATCH, &json!({ "jobs": jobs })).await;
    assert_eq!(answer.status, 201);
    let expected: Vec<String> = (0..1_500).map(|place| format!("t.n{place}")).collect();
    assert_eq!(kinds(&answer), expected);
    let counts: Vec<usize> = federation.regions.iter().map(|region| region.jobs().len()).collect();
    assert_eq!(counts, [0, 1_000, 500], "flexible jobs follow the first pin");
}
