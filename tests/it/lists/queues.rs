//! Queues of the same name are one queue; what is done to it is done everywhere, or it is said where not.

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::json;

use super::{fill, ids};
use crate::support::{Client, Federation, Setup};

/// Where the queue stands still, as each region says itself.
async fn paused(client: &Client) -> Vec<bool> {
    let mut paused = Vec::new();
    for region in crate::support::IDS {
        let answer = client.get(&format!("/ojs/v1/admin/queues/q?region={region}")).await.json();
        paused.push(answer["paused"].as_bool().unwrap());
    }
    paused
}

#[tokio::test]
async fn queues_are_united_by_name_and_their_figures_added_up() {
    for setup in [Setup::default(), Setup::default().by_the_documents()] {
        let federation = setup.start().await;
        fill(&federation, [3, 0, 5]);
        federation.regions[1].fill("only-here", 2);
        for place in 0..250 {
            federation.regions[2].fill(&format!("many-{place:03}"), 1);
        }
        let answer = federation.client.get("/ojs/v1/queues?limit=1000").await.json();
        let names = ids(&answer);
        assert_eq!((names.len(), &answer["pagination"]["total"]), (252, &json!(252)));
        assert_eq!(answer["queues"][0]["available"], 8, "{answer}");
        assert_eq!(
            (answer["queues"][1]["name"].as_str(), answer["queues"][1]["available"].as_u64()),
            (Some("only-here"), Some(2))
        );
        let mut seen = Vec::new();
        let mut target = "/ojs/v1/queues?limit=100".to_owned();
        loop {
            let page = federation.client.get(&target).await.json();
            seen.extend(ids(&page));
            let Some(cursor) = page["pagination"]["next_cursor"].as_str() else { break };
            target = format!("/ojs/v1/queues?limit=100&cursor={cursor}");
        }
        assert_eq!(seen, names);
        let third = federation.client.get("/ojs/v1/admin/queues?page=3&per_page=100").await.json();
        assert_eq!((ids(&third), &third["pagination"]["total"]), (names[200..].to_vec(), &json!(252)));
        federation.regions[2].stop().await;
        let rest = federation.client.get("/ojs/v1/queues").await;
        assert_eq!((rest.header("ojs-federation-partial"), ids(&rest.json()).len()), (Some("ap-south-1"), 2));
    }
}

#[tokio::test]
async fn a_client_that_asks_for_no_number_gets_the_page_that_a_region_would_have_given() {
    let federation = Setup::default().by_the_documents().start().await;
    for place in 0..120 {
        federation.regions[place % 3].fill(&format!("many-{place:03}"), 1);
    }
    let page = async |target: &str| {
        let answer = federation.client.get(target).await.json();
        let paging = &answer["pagination"];
        let limit = paging["limit"].as_u64().or(paging["per_page"].as_u64());
        (ids(&answer).len(), limit.unwrap(), paging["total"].as_u64().unwrap())
    };
    assert_eq!(page("/ojs/v1/queues").await, (50, 50, 120));
    assert_eq!(page("/ojs/v1/admin/queues").await, (20, 20, 120));
    assert_eq!(page("/ojs/v1/admin/queues?page=6").await, (20, 20, 120));
    assert_eq!(page("/ojs/v1/admin/queues?page=7").await, (0, 20, 120));
    assert_eq!(page("/ojs/v1/jobs").await, (50, 50, 120));
    assert_eq!(page("/ojs/v1/admin/jobs").await, (20, 20, 120));
    assert_eq!(page("/ojs/v1/admin/workers").await, (0, 20, 0));
    // Servers that hand out all their queues at once are met as they are.
    let federation = Setup::default().start().await;
    for place in 0..120 {
        federation.regions[0].fill(&format!("many-{place:03}"), 1);
    }
    for path in ["/ojs/v1/queues", "/ojs/v1/admin/queues"] {
        assert_eq!(ids(&federation.client.get(path).await.json()).len(), 120, "{path}");
    }
}

#[tokio::test]
async fn a_number_that_is_none_is_refused_where_the_local_region_refuses_it() {
    let federation = Setup::default().by_the_documents().start().await;
    let reference = Setup::default().start().await;
    for target in [
        "/ojs/v1/dead-letter?limit=x",
        "/ojs/v1/dead-letter?limit=-1",
        "/ojs/v1/jobs?offset=x",
        "/ojs/v1/queues?limit=x",
        "/ojs/v1/admin/jobs?page=x",
        "/ojs/v1/admin/queues?per_page=x",
    ] {
        let direct = federation.client.get(&format!("{target}&region=us-east-1")).await;
        let answer = federation.client.get(target).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (400, "us-east-1"), "{target}: {answer:?}");
        assert_eq!(answer.json()["error"]["code"], direct.json()["error"]["code"]);
        if !target.contains("/ojs/v1/jobs") {
            assert_eq!(reference.client.get(target).await.status, 200, "{target}");
        }
    }
}

#[tokio::test]
async fn statistics_of_a_queue_are_summed_and_a_region_without_it_adds_nothing() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [3, 0, 5]);
    let stats = federation.client.get("/ojs/v1/queues/q/stats").await;
    assert_eq!((stats.status.as_u16(), &stats.json()["stats"]["available"]), (200, &json!(8)));
    assert_eq!(stats.json()["x-ojs-federation"]["regions"]["ap-south-1"]["stats"]["available"], 5);
    let queue = federation.client.get("/ojs/v1/admin/queues/q").await;
    assert_eq!((queue.header("ojs-federation-partial"), &queue.json()["counts"]["available"]), (None, &json!(8)));
    assert_eq!(
        queue.json()["x-ojs-federation"]["regions"].as_object().unwrap().len(),
        2,
        "eu-west-1 has no such queue"
    );
    let nowhere = federation.client.get("/ojs/v1/admin/queues/none").await;
    assert_eq!((nowhere.status.as_u16(), &nowhere.json()["error"]["code"]), (404, &json!("not_found")));
    federation.regions[2].stop().await;
    let partial = federation.client.get("/ojs/v1/queues/q/stats").await;
    assert_eq!(
        (partial.header("ojs-federation-partial"), &partial.json()["stats"]["available"]),
        (Some("ap-south-1"), &json!(3))
    );
    // It may be where nobody answers.
    let unsure = federation.client.get("/ojs/v1/admin/queues/none").await;
    unsure.check_error(503, "backend_error", "owner_unavailable");
}

#[tokio::test]
async fn pause_and_resume_reach_every_region_and_say_which_did_not_follow() {
    let federation = Setup::default().start().await;
    fill(&federation, [1, 1, 1]);
    let answer = federation.client.post("/ojs/v1/queues/q/pause", "").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["queue"]["paused"]), (200, &json!(true)));
    assert_eq!(answer.json()["x-ojs-federation"]["regions"].as_object().unwrap().len(), 3);
    assert_eq!(paused(&federation.client).await, [true; 3]);
    federation.regions[1].faults().add(
        When::path("/ojs/v1/queues"),
        Fault::Answer {
            answer: FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error"),
            store: false,
        },
    );
    let answer = federation.client.post("/ojs/v1/queues/q/resume", "").await;
    let error = answer.check_error(503, "backend_error", "regions_missing");
    assert_eq!(error["details"]["followed"], json!(["us-east-1", "ap-south-1"]));
    assert_eq!(error["details"]["missing"], json!(["eu-west-1"]));
    assert_eq!(paused(&federation.client).await, [false, true, false]);
    // Done in part is not done.
    assert_eq!(federation.client.get("/ojs/v1/queues/q/stats?region=us-east-1").await.json()["queue"]["paused"], false);
    federation.regions[1].faults().clear();
    assert_eq!(federation.client.post("/ojs/v1/queues/q/resume", "").await.status, 200);
    assert_eq!(paused(&federation.client).await, [false; 3]);
    federation.client.post("/ojs/v1/queues/q/pause?region=ap-south-1", "").await;
    assert_eq!(paused(&federation.client).await, [false, false, true]);
}

#[tokio::test]
async fn what_a_queue_is_to_be_is_written_to_all_regions_and_read_in_one() {
    let federation = Setup::default().by_the_documents().start().await;
    let config = async |region: &str| {
        let answer = federation.client.get(&format!("/ojs/v1/queues/new/config{region}")).await;
        (answer.status.as_u16(), answer.json()["config"]["max_size"].clone())
    };
    let body = json!({ "name": "new", "max_size": 10 }).to_string();
    let created = federation.client.post("/ojs/v1/queues", body).await;
    assert_eq!((created.status.as_u16(), created.region()), (201, "us-east-1"), "{created:?}");
    for path in ["/ojs/v1/queues/new/config", "/ojs/v1/admin/queues/new/config"] {
        for region in crate::support::IDS {
            assert_eq!(config(&format!("?region={region}")).await, (200, json!(10)));
        }
        let changed = federation.client.call(Method::PUT, path, json!({ "max_size": 20 }).to_string()).await;
        assert_eq!((changed.status.as_u16(), &changed.json()["config"]["max_size"]), (200, &json!(20)), "{changed:?}");
        for region in crate::support::IDS {
            assert_eq!(config(&format!("?region={region}")).await, (200, json!(20)));
        }
        federation.client.call(Method::PUT, path, json!({ "max_size": 10 }).to_string()).await;
    }
    federation.regions[1].stop().await;
    let path = "/ojs/v1/queues/new/config";
    let answer = federation.client.call(Method::PUT, path, json!({ "max_size": 30 }).to_string()).await;
    let error = answer.check_error(503, "backend_error", "regions_missing");
    assert_eq!(error["details"]["missing"], json!(["eu-west-1"]));
    assert_eq!(config("").await, (200, json!(30)));
}

#[tokio::test]
async fn control_of_queues_can_be_kept_to_the_local_region() {
    let federation = Setup::default().yaml("queues: { control: local }").start().await;
    fill(&federation, [1, 1, 1]);
    let answer = federation.client.post("/ojs/v1/queues/q/pause", "").await;
    assert_eq!((answer.status.as_u16(), answer.region()), (200, "us-east-1"));
    assert_eq!(paused(&federation.client).await, [true, false, false]);
    let config = "/ojs/v1/queues/q/config";
    federation.client.call(Method::PUT, config, r#"{"max_size":5}"#).await;
    let configured = federation.regions.iter().map(|region| region.record().requests_to(config).len());
    assert_eq!(configured.collect::<Vec<_>>(), [1, 0, 0]);
}

#[tokio::test]
async fn a_purge_empties_the_queue_everywhere() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [2, 3, 4]);
    let body = r#"{"confirm":true,"states":["available"]}"#;
    let answer = federation.client.call(Method::DELETE, "/ojs/v1/admin/queues/q/jobs", body).await;
    assert!(answer.status.is_success(), "{answer:?}");
    for region in &federation.regions {
        assert_eq!(region.record().requests_to("/ojs/v1/admin/queues/q/jobs").len(), 1);
        assert_eq!(region.jobs().count_in(ojs_testbed::JobState::Available), 0, "{answer:?}");
    }
}

#[tokio::test]
async fn an_annotated_queue_says_what_each_region_has() {
    let federation: Federation = Setup::default().yaml("lists: { annotate: true }").start().await;
    fill(&federation, [3, 0, 5]);
    let queue = federation.client.get("/ojs/v1/queues").await.json()["queues"][0].clone();
    assert_eq!(queue["available"], 8);
    assert_eq!(queue["x-ojs-federation"]["regions"]["ap-south-1"]["available"], 5, "{queue}");
}

#[tokio::test]
async fn a_region_whose_queues_never_end_is_named_as_missing_before_they_fill_the_memory() {
    let federation = Setup::default().by_the_documents().start().await;
    let filler = "x".repeat(7 * 1024 * 1024);
    let page = format!(r#"{{"queues":[{{"name":"q","x":"{filler}"}}],"pagination":{{"has_more":true}}}}"#);
    let headers = vec![("content-type".to_owned(), "application/openjobspec+json".to_owned())];
    let answer = FaultAnswer { status: StatusCode::OK, headers, body: page.into() };
    federation.regions[1].faults().add(When::path("/ojs/v1/queues"), Fault::Answer { answer, store: false });
    let answer = federation.client.get("/ojs/v1/queues").await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-partial")), (200, Some("eu-west-1")));
    assert_eq!(federation.regions[1].record().requests_to("/ojs/v1/queues").len(), 4, "one to learn how it pages");
}
