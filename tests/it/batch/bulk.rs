//! `/jobs/bulk`: each job for itself, or all or none.

use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::{BULK, alive, cancelled, check_fates, job, mixed, post, post_keyed, quiet};
use crate::support::Answer;

fn with(mut body: Value, name: &str, value: &str) -> Value {
    body[name] = value.into();
    body
}

/// The sums, and for each item its index and what became of it.
fn lines(answer: &Answer) -> ([u64; 3], Vec<(u64, String)>) {
    let body = answer.json();
    let sums = ["total", "succeeded", "failed"].map(|name| body[name].as_u64().unwrap_or_else(|| panic!("{answer:?}")));
    let line = |item: &Value| {
        let error = &item["error"];
        let what = item["job"]["type"].as_str().or(error["details"]["reason"].as_str()).or(error["code"].as_str());
        (item["index"].as_u64().unwrap(), what.unwrap_or_default().to_owned())
    };
    (sums, body["items"].as_array().unwrap().iter().map(line).collect())
}

fn numbered(whats: &[&str]) -> Vec<(u64, String)> {
    (0..).zip(whats.iter().map(|what| (*what).to_owned())).collect()
}

#[tokio::test]
async fn a_mixed_bulk_enqueue_is_split_and_its_items_are_in_the_order_of_the_request() {
    let federation = quiet().start().await;
    for atomicity in ["partial", "atomic"] {
        let body = with(mixed(&[Some(1), None, Some(0), Some(1)]), "atomicity", atomicity);
        let answer = post(&federation, BULK, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(lines(&answer), ([4, 4, 0], numbered(&["t.a", "t.b", "t.c", "t.d"])));
        assert_eq!((federation.seen("t.a"), federation.seen("t.c")), (vec![1], vec![0]));
    }
    assert_eq!(alive(&federation)[0], ["t.b", "t.c", "t.b", "t.c"]);
    let id = post(&federation, BULK, &mixed(&[Some(1), Some(0)])).await.json()["items"][0]["job"]["id"].clone();
    let found = federation.client.get(&format!("/ojs/v1/jobs/{}", id.as_str().unwrap())).await;
    assert_eq!(found.region(), "eu-west-1");
}

#[tokio::test]
async fn a_partial_bulk_enqueue_tells_of_each_job_whatever_became_of_its_region() {
    let federation = quiet().start().await;
    federation.regions[1].stop().await;
    let answer = post(&federation, BULK, &mixed(&[Some(0), Some(1), Some(2), Some(1)])).await;
    assert_eq!(answer.status, 207, "{answer:?}");
    let expected = numbered(&["t.a", "region_unavailable", "t.c", "region_unavailable"]);
    assert_eq!(lines(&answer), ([4, 2, 2], expected));
    assert_eq!(alive(&federation), [vec!["t.a"], vec![], vec!["t.c"]]);
    // A region that is known to be down is not even tried.
    federation.advance_until_health(1, "unhealthy").await;
    federation.regions.iter().for_each(|region| region.record().clear());
    let answer = post(&federation, BULK, &mixed(&[Some(1), Some(0)])).await;
    assert_eq!((answer.status.as_u16(), lines(&answer)), (207, ([2, 1, 1], numbered(&["region_unavailable", "t.b"]))));
    // Where nothing could be sent at all there is nothing to tell of.
    federation.regions[2].stop().await;
    federation.advance_until_health(2, "unhealthy").await;
    let answer = post(&federation, BULK, &mixed(&[Some(1), Some(2)])).await;
    answer.check_error(503, "backend_error", "region_unavailable");
}

#[tokio::test]
async fn a_regions_own_items_are_renumbered_and_refusals_of_whole_parts_are_told_job_by_job() {
    let federation = quiet().start().await;
    let mut bad = job("t.b", Some(1));
    bad["args"] = json!("no array");
    let jobs = json!({ "jobs": [job("t.a", Some(0)), bad, job("t.c", Some(1))] });
    let answer = post(&federation, BULK, &jobs).await;
    let (sums, items) = lines(&answer);
    assert_eq!((answer.status.as_u16(), sums), (207, [3, 2, 1]), "{answer:?}");
    assert_eq!((items[0].1.as_str(), items[2].1.as_str()), ("t.a", "t.c"));
    assert_eq!(answer.json()["items"][1]["status"], "failed");

    let refusal = FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    federation.regions[1].faults().add(When::path(BULK).next(1), Fault::Answer { answer: refusal, store: false });
    federation.regions[2].faults().add(When::path(BULK).next(1), Fault::CutAfterRequest { store: true });
    let answer = post(&federation, BULK, &mixed(&[Some(1), Some(2), Some(0)])).await;
    assert_eq!(answer.status, 207);
    assert_eq!(lines(&answer), ([3, 1, 2], numbered(&["part_refused", "outcome_unknown", "t.c"])));
    assert_eq!(answer.json()["items"][0]["error"]["code"], "rate_limited");
    assert_eq!(answer.json()["items"][1]["error"]["details"]["region"], "ap-south-1");
}

#[tokio::test]
async fn an_atomic_bulk_enqueue_is_undone_when_a_part_fails() {
    let federation = quiet().start().await;
    let mut bad = job("t.b", Some(1));
    bad["args"] = json!("no array");
    let body = json!({ "atomicity": "atomic", "jobs": [job("t.a", Some(0)), bad, job("t.c", Some(1))] });
    let answer = post(&federation, BULK, &body).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (422, "batch_failed"), "{answer:?}");
    check_fates(&answer, &[], &[1, 2], &[0], &[]);
    assert_eq!((alive(&federation), cancelled(&federation)[0].len()), (vec![vec![]; 3], 1));
    federation.regions[1].stop().await;
    federation.advance_until_health(1, "unhealthy").await;
    federation.regions[0].record().clear();
    let answer = post(&federation, BULK, &with(mixed(&[Some(0), Some(1)]), "atomicity", "atomic")).await;
    answer.check_error(503, "backend_error", "region_unavailable");
    assert!(federation.regions[0].record().requests_to(BULK).is_empty(), "nothing was sent");
}

#[tokio::test]
async fn an_idempotency_key_reaches_every_region_and_makes_a_repetition_harmless() {
    let federation = quiet().start().await;
    let body = with(mixed(&[Some(0), Some(1)]), "atomicity", "partial");
    // Regions refuse a key that comes with another body, so nothing is stamped that differs the next time.
    let first = post_keyed(&federation, BULK, "key-1", &body).await;
    let again = post_keyed(&federation, BULK, "key-1", &body).await;
    assert_eq!((first.status.as_u16(), &first.body), (201, &again.body));
    let flexible = mixed(&[None, None]);
    let first = post_keyed(&federation, BULK, "key-3", &flexible).await;
    let again = post_keyed(&federation, BULK, "key-3", &flexible).await;
    assert_eq!((first.status.as_u16(), &first.body), (201, &again.body));
    let id = first.json()["items"][0]["job"]["id"].as_str().unwrap().to_owned();
    assert_eq!(federation.stored(&id), [(0, 1)]);
    assert_eq!(alive(&federation), [vec!["t.a", "t.a", "t.b"], vec!["t.b"], vec![]]);
    post(&federation, BULK, &with(body, "idempotency_key", "key-2")).await;
    assert_eq!((federation.seen("key-1"), federation.seen("key-2")), (vec![0, 1], vec![0, 1]));
}

#[tokio::test]
async fn after_an_undone_bulk_enqueue_its_key_may_not_be_used_again() {
    // A region that remembers the key would repeat its first answer, and the cancelled jobs would be called stored.
    let federation = quiet().start().await;
    federation.regions[1].stop().await;
    let body = with(mixed(&[Some(0), Some(1)]), "atomicity", "atomic");
    let answer = post_keyed(&federation, BULK, "key-1", &body).await;
    answer.check_error(500, "backend_error", "batch_failed");
    check_fates(&answer, &[], &[1], &[0], &[]);
    let answer = post(&federation, BULK, &with(body, "idempotency_key", "key-2")).await;
    answer.check_error(500, "backend_error", "batch_failed");
}

#[tokio::test]
async fn a_bulk_enqueue_that_must_be_split_says_how_much_of_it_may_fail() {
    let federation = quiet().start().await;
    let answer = post(&federation, BULK, &with(mixed(&[Some(0), Some(1)]), "atomicity", "perhaps")).await;
    answer.check_error(400, "invalid_request", "unknown_atomicity");
    assert_eq!(federation.seen("t.a"), [0; 0]);
}
