//! A cron job lives in one region, and its name in no other.

use http::{Method, StatusCode};
use ojs_testbed::{Dialect, Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::{call, defined, pin, post, quiet};
use crate::support::Federation;

const CRON: &str = "/ojs/v1/cron";

fn cron(name: &str) -> Value {
    json!({ "name": name, "expression": "0 3 * * *", "job_template": { "type": "report.nightly", "args": ["nightly-args"] } })
}

fn pinned(name: &str, place: usize) -> Value {
    let mut cron = cron(name);
    cron["job_template"]["options"] = json!({ "metadata": pin(place) });
    cron
}

/// The regions that have a cron job of this name, by their own lists.
async fn living(federation: &Federation, name: &str) -> Vec<String> {
    let mut regions = Vec::new();
    for region in &federation.regions {
        let path = format!("{CRON}?region={}", region.id());
        let list = federation.client.get(&path).await.json();
        if list["crons"].as_array().unwrap().iter().any(|cron| cron["name"] == name) {
            regions.push(region.id().to_owned());
        }
    }
    regions
}

#[tokio::test]
async fn a_cron_job_goes_to_its_pin_wherever_that_stands_and_else_to_the_local_region() {
    for dialect in Dialect::ALL {
        let federation = quiet(dialect).start().await;
        let mut beside = cron("cron-beside");
        beside["meta"] = pin(1);
        let mut template = cron("cron-of-template");
        template["job_template"]["meta"] = pin(2);
        for (body, place) in [(cron("plain"), 0), (beside, 1), (template, 2), (pinned("cron-of-options", 1), 1)] {
            let name = body["name"].as_str().unwrap().to_owned();
            let answer = post(&federation, CRON, &body).await;
            assert!(answer.status.is_success(), "{answer:?}");
            assert_eq!(answer.region(), federation.regions[place].id(), "{name}");
            assert_eq!(living(&federation, &name).await, [federation.regions[place].id()]);
        }
        // Not even its name is told to a region that it may not be in.
        assert_eq!((federation.seen("cron-of-options"), federation.seen("cron-of-template")), (vec![1], vec![2]));
    }
}

#[tokio::test]
async fn a_name_that_lives_in_another_region_is_a_conflict_and_nothing_is_sent() {
    for dialect in Dialect::ALL {
        let federation = quiet(dialect).start().await;
        assert!(post(&federation, CRON, &pinned("nightly", 1)).await.status.is_success());
        for body in [cron("nightly"), pinned("nightly", 2)] {
            let answer = post(&federation, CRON, &body).await;
            let error = answer.check_error(409, "duplicate", "cron_in_other_region");
            assert_eq!(error["details"]["region"], "eu-west-1");
        }
        assert_eq!(defined(&federation, "cron"), [0, 1, 0]);
        // In its own region it is registered again, as applications do at every start.
        assert!(post(&federation, CRON, &pinned("nightly", 1)).await.status.is_success());
        assert_eq!(defined(&federation, "cron"), [0, 2, 0]);
    }
}

#[tokio::test]
async fn calls_by_name_go_to_the_region_where_the_cron_job_lives() {
    for dialect in Dialect::ALL {
        let federation = quiet(dialect).start().await;
        post(&federation, CRON, &pinned("nightly", 2)).await;
        federation.regions.iter().for_each(|region| region.record().clear());
        if dialect == Dialect::Spec {
            let nightly = format!("{CRON}/nightly");
            for (method, path) in [
                (Method::GET, nightly.clone()),
                (Method::POST, format!("{nightly}/pause")),
                (Method::POST, format!("{nightly}/resume")),
                (Method::POST, format!("{nightly}/trigger")),
            ] {
                let answer = call(&federation, method, &path, &Value::Null).await;
                assert!(answer.status.is_success(), "{path}: {answer:?}");
                assert_eq!(answer.region(), "ap-south-1", "{path}");
            }
            let changed = call(&federation, Method::PATCH, &nightly, &json!({ "enabled": false })).await;
            assert_eq!((changed.status.as_u16(), changed.region()), (200, "ap-south-1"), "{changed:?}");
        }
        let deleted = call(&federation, Method::DELETE, &format!("{CRON}/nightly"), &Value::Null).await;
        assert_eq!((deleted.status.as_u16(), deleted.region()), (200, "ap-south-1"), "{deleted:?}");
        assert_eq!(living(&federation, "nightly").await, [""; 0]);
        // The other regions were only asked.
        for place in [0, 1] {
            let writes = federation.regions[place].record().requests().into_iter();
            assert_eq!(writes.filter(|request| request.method != Method::GET).count(), 0);
        }
        let gone = call(&federation, Method::DELETE, &format!("{CRON}/nightly"), &Value::Null).await;
        assert_eq!((gone.status.as_u16(), gone.region()), (404, "us-east-1"));
    }
}

#[tokio::test]
async fn a_cron_job_is_not_missing_while_a_region_that_may_have_it_is_silent() {
    let federation = quiet(Dialect::Spec).start().await;
    federation.regions[1].stop().await;
    let unsure = call(&federation, Method::DELETE, &format!("{CRON}/nightly"), &Value::Null).await;
    unsure.check_error(503, "backend_error", "owner_unavailable");
    // A name that is new here may be there: in both it would fire twice.
    let unsure = post(&federation, CRON, &cron("nightly")).await;
    unsure.check_error(503, "backend_error", "owner_unavailable");
    assert_eq!(defined(&federation, "cron"), [0, 0, 0]);
    federation.regions[1].resume().await.unwrap();
    assert!(post(&federation, CRON, &cron("nightly")).await.status.is_success());
    // What is known to live here is changed here, whoever else is silent.
    federation.regions[1].stop().await;
    assert!(post(&federation, CRON, &cron("nightly")).await.status.is_success());
    assert_eq!(call(&federation, Method::DELETE, &format!("{CRON}/nightly"), &Value::Null).await.status, 200);
}

#[tokio::test]
async fn a_change_by_name_is_bound_by_its_own_pin() {
    let federation = quiet(Dialect::Spec).start().await;
    post(&federation, CRON, &pinned("nightly", 1)).await;
    let elsewhere = call(&federation, Method::PUT, &format!("{CRON}/nightly"), &pinned("nightly", 2)).await;
    elsewhere.check_error(409, "duplicate", "cron_in_other_region");
    let mut contrary = pinned("weekly", 1);
    contrary["meta"] = pin(2);
    let answer = post(&federation, CRON, &contrary).await;
    let error = answer.check_error(400, "invalid_request", "contradicting_pins");
    let places = json!([
        { "place": "/job_template/options/metadata", "region": "eu-west-1" },
        { "place": "/meta", "region": "ap-south-1" },
    ]);
    assert_eq!(error["details"]["places"], places);
    assert_eq!(federation.seen("weekly"), [0; 0]);
}

#[tokio::test]
async fn a_list_is_read_page_by_page_for_a_name() {
    let federation = quiet(Dialect::Spec).start().await;
    for number in 0..230 {
        // Behind the sidecar's back, as another one may have done it.
        let name = format!("c{number:03}");
        let answer = post(&federation, CRON, &pinned(&name, 1)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let answer = post(&federation, CRON, &cron("c229")).await;
    answer.check_error(409, "duplicate", "cron_in_other_region");
    federation.regions[1].faults().add(When::path(CRON), Fault::CutBeforeBody);
    post(&federation, CRON, &cron("new")).await.check_error(503, "backend_error", "owner_unavailable");
}

#[tokio::test]
async fn a_cron_job_is_not_missing_because_a_region_does_not_tell_or_a_balancer_answers() {
    let federation = quiet(Dialect::Spec).start().await;
    assert!(post(&federation, CRON, &pinned("nightly", 1)).await.status.is_success());
    let nightly = format!("{CRON}/nightly");
    let answers = |answer: FaultAnswer| Fault::Answer { answer, store: false };
    let busy = answers(FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited"));
    federation.regions[0].faults().add(When::path(CRON).next(1), busy.clone());
    let found = call(&federation, Method::GET, &nightly, &Value::Null).await;
    assert_eq!((found.status.as_u16(), found.region()), (200, "eu-west-1"), "{found:?}");
    for (place, fault) in [(0, busy.clone()), (1, answers(FaultAnswer::balancer(StatusCode::NOT_FOUND)))] {
        federation.regions[place].faults().add(When::path("/ojs/v1/"), fault);
    }
    for method in [Method::GET, Method::DELETE] {
        let unsure = call(&federation, method, &nightly, &Value::Null).await;
        unsure.check_error(503, "backend_error", "owner_unavailable");
    }
    federation.regions[0].faults().clear();
    let unsure = call(&federation, Method::GET, &nightly, &Value::Null).await;
    unsure.check_error(503, "backend_error", "owner_unavailable");
    // What only the local region can have is its to answer.
    federation.regions[1].faults().clear();
    assert_eq!(call(&federation, Method::DELETE, &nightly, &Value::Null).await.status, 200);
    federation.regions[0].faults().add(When::path(CRON).method(Method::GET), busy);
    let said = call(&federation, Method::GET, &nightly, &Value::Null).await;
    assert_eq!((said.status.as_u16(), said.region()), (429, "us-east-1"), "{said:?}");
}
