//! A region that is away is named, and the rest is returned.

use std::time::Duration;

use http::{Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};

use super::{fill, ids, own_lists};
use crate::support::{Setup, eventually};

const JOBS: &str = "/ojs/v1/jobs";

#[tokio::test]
async fn a_dead_region_is_named_and_the_others_lists_are_returned() {
    let federation =
        Setup::default().by_the_documents().yaml("circuit_breaker: { failure_threshold: 1 }").start().await;
    fill(&federation, [3, 4, 5]);
    let lists = own_lists(&federation.client, JOBS).await;
    federation.regions[1].stop().await;
    // Once by its silence, then by its breaker.
    for target in ["?limit=50", "?limit=50&offset=1", "?limit=50"] {
        let answer = federation.client.get(&format!("{JOBS}{target}")).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("ojs-federation-partial")),
            (200, Some("eu-west-1")),
            "{answer:?}"
        );
        let skipped = usize::from(target.contains("offset"));
        assert_eq!(ids(&answer.json()), [lists[0].clone(), lists[2].clone()].concat()[skipped..]);
        assert_eq!(answer.json()["pagination"]["total"], 8);
        eventually("the breaker is open", async || federation.breaker(1) == "open").await;
    }
    let answer = federation.client.get("/ojs/v1/admin/jobs").await;
    assert_eq!((answer.header("ojs-federation-partial"), ids(&answer.json()).len()), (Some("eu-west-1"), 8));
    federation.regions[2].stop().await;
    let answer = federation.client.get(JOBS).await;
    assert_eq!(
        (answer.header("ojs-federation-partial"), answer.region()),
        (Some("eu-west-1, ap-south-1"), "us-east-1")
    );
    assert_eq!(ids(&answer.json()), lists[0]);
    federation.regions[0].stop().await;
    federation.client.get(JOBS).await.check_error(503, "backend_error", "owner_unavailable");
}

#[tokio::test]
async fn a_region_that_answers_badly_is_named_and_a_refusal_of_all_is_passed_on() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [3, 4, 5]);
    let list = || When::path(JOBS);
    let answers = [
        FaultAnswer::balancer(StatusCode::OK),
        FaultAnswer::error_document(StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        FaultAnswer::error_document(StatusCode::NOT_FOUND, "not_found"),
    ];
    for answer in answers {
        federation.regions[0].faults().add(list(), Fault::Answer { answer, store: false });
        let answer = federation.client.get(JOBS).await;
        assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-partial")), (200, Some("us-east-1")));
        assert_eq!((ids(&answer.json()).len(), &answer.json()["pagination"]["total"]), (9, &9.into()));
        federation.regions[0].faults().clear();
    }
    for region in &federation.regions {
        let code = format!("refused_by_{}", region.id().replace('-', "_"));
        let answer = FaultAnswer::error_document(StatusCode::FORBIDDEN, &code);
        region.faults().add(list(), Fault::Answer { answer, store: false });
    }
    let answer = federation.client.get(JOBS).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (403, &"refused_by_us_east_1".into()));
    assert_eq!(answer.region(), "us-east-1");
}

#[tokio::test]
async fn a_region_that_hangs_costs_its_share_of_the_time_and_no_more() {
    let federation = Setup::default().by_the_documents().yaml("limits: { call_timeout: 800ms }").start().await;
    fill(&federation, [3, 4, 5]);
    federation.regions[1].faults().add(When::path(JOBS), Fault::HangBeforeBody);
    let answer = federation.client.get(JOBS).await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-partial")), (200, Some("eu-west-1")));
    assert_eq!(ids(&answer.json()).len(), 8);
}

#[tokio::test]
async fn what_a_region_held_while_it_was_away_is_read_when_it_is_back() {
    let federation = Setup::default().by_the_documents().steered().start().await;
    fill(&federation, [6, 6, 6]);
    let lists = own_lists(&federation.client, JOBS).await;
    let mut seen = Vec::new();
    let mut target = format!("{JOBS}?limit=4");
    for page in 0.. {
        if page == 1 {
            federation.regions[1].stop().await;
        }
        if page == 2 {
            federation.regions[1].resume().await.unwrap();
            federation.advance(Duration::from_secs(31));
            federation.advance_until_health(1, "healthy").await;
        }
        let answer = federation.client.get(&target).await;
        assert_eq!(answer.header("ojs-federation-partial"), (page == 1).then_some("eu-west-1"), "page {page}");
        seen.extend(ids(&answer.json()));
        let Some(cursor) = answer.json()["pagination"]["next_cursor"].as_str().map(str::to_owned) else { break };
        target = format!("{JOBS}?limit=4&cursor={cursor}");
    }
    let mut union = lists.concat();
    seen.sort();
    union.sort();
    assert_eq!(seen, union, "each once");
}

#[tokio::test]
async fn an_addressed_region_answers_alone_with_its_own_cursors() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [3, 4, 5]);
    let lists = own_lists(&federation.client, JOBS).await;
    for region in &federation.regions {
        region.record().clear();
    }
    let first = federation.client.get(&format!("{JOBS}?limit=3&region=ap-south-1")).await;
    assert_eq!((first.region(), &first.json()["pagination"]["total"]), ("ap-south-1", &5.into()));
    let cursor = first.json()["pagination"]["next_cursor"].as_str().unwrap().to_owned();
    let request = Request::get(format!("{JOBS}?limit=3&cursor={cursor}")).header("ojs-federation-region", "ap-south-1");
    let second = federation.client.send(request, "").await;
    assert_eq!([ids(&first.json()), ids(&second.json())].concat(), lists[2]);
    assert_eq!(federation.job_requests(), [0, 0, 2]);
    assert_eq!(federation.seen(&cursor), [2]);
    // A cursor of one region is none of all.
    federation.client.get(&format!("{JOBS}?cursor={cursor}")).await.check_error(
        400,
        "invalid_request",
        "invalid_cursor",
    );
}

#[tokio::test]
async fn a_job_that_a_list_has_shown_is_asked_for_where_it_is_and_nowhere_else() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [1, 1, 1]);
    let listed = ids(&federation.client.get(JOBS).await.json());
    for region in &federation.regions {
        region.record().clear();
    }
    let found = federation.client.get(&format!("{JOBS}/{}", listed[2])).await;
    assert_eq!((found.status.as_u16(), found.region()), (200, "ap-south-1"));
    assert_eq!(federation.job_requests(), [0, 0, 1]);
}
