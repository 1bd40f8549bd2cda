//! A workflow lives whole in one region.

use http::{Method, StatusCode};
use ojs_testbed::{Dialect, Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::{call, defined, pin, post, quiet};

const WORKFLOWS: &str = "/ojs/v1/workflows";

fn step(kind: &str, place: Option<usize>) -> Value {
    let mut step = json!({ "type": kind, "args": [kind] });
    if let Some(place) = place {
        step["options"] = json!({ "metadata": pin(place) });
    }
    step
}

fn chain(places: &[Option<usize>]) -> Value {
    let steps: Vec<Value> = places.iter().map(|place| step("t.step", *place)).collect();
    json!({ "type": "chain", "name": "flow", "steps": steps })
}

fn id(answer: &crate::support::Answer) -> String {
    answer.json()["workflow"]["id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

#[tokio::test]
async fn a_workflow_goes_whole_to_the_region_that_any_of_its_parts_is_pinned_to() {
    for dialect in Dialect::ALL {
        let federation = quiet(dialect).start().await;
        let callbacks = json!({ "on_complete": { "type": "t.done", "args": [], "options": { "metadata": pin(1) } } });
        let top = |mut body: Value| {
            body["meta"] = pin(1);
            body
        };
        for body in [
            chain(&[None, Some(1), None]),
            chain(&[Some(1), Some(1)]),
            top(chain(&[None, None])),
            json!({ "type": "group", "name": "g", "jobs": [step("t.a", None), step("t.b", Some(1))] }),
            json!({ "type": "batch", "name": "b", "jobs": [step("t.a", None)], "callbacks": callbacks }),
        ] {
            let answer = post(&federation, WORKFLOWS, &body).await;
            assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{body}: {answer:?}");
        }
        assert_eq!(defined(&federation, "workflows"), [0, 5, 0]);
        assert_eq!((federation.seen("t.step"), federation.seen("flow")), (vec![1], vec![1]));
        let answer = post(&federation, WORKFLOWS, &chain(&[None])).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (201, "us-east-1"));
    }
}

#[tokio::test]
async fn steps_with_contradicting_pins_are_refused_by_their_places() {
    let federation = quiet(Dialect::Spec).start().await;
    let answer = post(&federation, WORKFLOWS, &chain(&[Some(0), None, Some(1)])).await;
    let error = answer.check_error(400, "invalid_request", "contradicting_pins");
    let places = json!([
        { "place": "/steps/0/options/metadata", "region": "us-east-1" },
        { "place": "/steps/2/options/metadata", "region": "eu-west-1" },
    ]);
    assert_eq!(error["details"]["places"], places);
    assert_eq!(federation.seen("flow"), [0; 0]);
    assert_eq!(defined(&federation, "workflows"), [0; 3]);
}

#[tokio::test]
async fn a_rule_that_binds_one_step_binds_the_workflow() {
    let rules = "routing: { rules: [ { match: { job_type: \"t.gpu\" }, target: { region: ap-south-1 } } ] }";
    let federation = quiet(Dialect::Spec).yaml(rules).start().await;
    let body = json!({ "type": "chain", "name": "flow", "steps": [step("t.a", None), step("t.gpu", None)] });
    assert_eq!(post(&federation, WORKFLOWS, &body).await.region(), "ap-south-1");
    let contrary = json!({ "type": "chain", "name": "flaw", "steps": [step("t.a", Some(1)), step("t.gpu", None)] });
    let answer = post(&federation, WORKFLOWS, &contrary).await;
    let error = answer.check_error(400, "invalid_request", "contradicting_pins");
    let places = json!([
        { "place": "/steps/0/options/metadata", "region": "eu-west-1" },
        { "place": "/steps/1", "regions": ["ap-south-1"] },
    ]);
    assert_eq!(error["details"]["places"], places);
    assert_eq!(federation.seen("flaw"), [0; 0]);
}

#[tokio::test]
async fn a_default_of_geo_pin_is_for_steps_and_not_for_what_holds_them() {
    let federation = quiet(Dialect::Spec).yaml("routing: { strategy: geo-pin }").start().await;
    assert_eq!(post(&federation, WORKFLOWS, &chain(&[Some(1), Some(1)])).await.region(), "eu-west-1");
    let answer = post(&federation, WORKFLOWS, &chain(&[Some(1), None])).await;
    answer.check_error(400, "invalid_request", "contradicting_pins");
}

#[tokio::test]
async fn a_workflow_is_found_and_cancelled_where_it_lives_also_by_who_never_heard_of_it() {
    for entries in [1_000_000, 0] {
        let limits = format!("limits: {{ owner_entries: {entries} }}");
        let federation = quiet(Dialect::Spec).yaml(&limits).start().await;
        let ids: Vec<String> = [
            id(&post(&federation, WORKFLOWS, &chain(&[Some(2)])).await),
            id(&post(&federation, WORKFLOWS, &chain(&[Some(1)])).await),
        ]
        .into();
        for (id, region) in ids.iter().zip(["ap-south-1", "eu-west-1"]) {
            let path = format!("{WORKFLOWS}/{id}");
            let found = federation.client.get(&path).await;
            assert_eq!((found.status.as_u16(), found.region()), (200, region), "{found:?}");
        }
        let cancelled = call(&federation, Method::DELETE, &format!("{WORKFLOWS}/{}", ids[0]), &Value::Null).await;
        assert_eq!((cancelled.status.as_u16(), cancelled.region()), (200, "ap-south-1"), "{cancelled:?}");
        let cancelled = post(&federation, &format!("{WORKFLOWS}/{}/cancel", ids[1]), &Value::Null).await;
        assert_eq!((cancelled.status.as_u16(), cancelled.region()), (200, "eu-west-1"), "{cancelled:?}");
        let nowhere = federation.client.get(&format!("{WORKFLOWS}/wf_nobodys")).await;
        assert_eq!((nowhere.status.as_u16(), nowhere.region()), (404, "us-east-1"));
        federation.regions[1].stop().await;
        let unsure = federation.client.get(&format!("{WORKFLOWS}/wf_nobodys")).await;
        unsure.check_error(503, "backend_error", "owner_unavailable");
    }
}

#[tokio::test]
async fn a_workflow_is_not_missing_because_a_region_does_not_tell_or_a_balancer_answers() {
    let federation = quiet(Dialect::Spec).start().await;
    let flow = id(&post(&federation, WORKFLOWS, &chain(&[Some(1)])).await);
    let path = format!("{WORKFLOWS}/{flow}");
    let answers = |answer: FaultAnswer| Fault::Answer { answer, store: false };
    for fault in [
        answers(FaultAnswer::balancer(StatusCode::NOT_FOUND)),
        answers(FaultAnswer::error_document(StatusCode::FORBIDDEN, "forbidden")),
    ] {
        federation.shared.owners.forget(&flow);
        federation.regions[1].faults().add(When::path("/ojs/v1/"), fault);
        for method in [Method::GET, Method::DELETE] {
            let unsure = call(&federation, method, &path, &Value::Null).await;
            unsure.check_error(503, "backend_error", "owner_unavailable");
        }
        federation.regions[1].faults().clear();
    }
    let busy = answers(FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited"));
    federation.regions[0].faults().add(When::path(WORKFLOWS), busy);
    federation.regions[1].stop().await;
    let unsure = call(&federation, Method::GET, &path, &Value::Null).await;
    unsure.check_error(503, "backend_error", "owner_unavailable");
    federation.regions[1].resume().await.unwrap();
    let found = call(&federation, Method::GET, &path, &Value::Null).await;
    assert_eq!((found.status.as_u16(), found.region()), (200, "eu-west-1"), "{found:?}");
}

#[tokio::test]
async fn what_was_remembered_wrongly_of_a_workflow_is_no_404() {
    let federation = quiet(Dialect::Spec).start().await;
    let flow = id(&post(&federation, WORKFLOWS, &chain(&[Some(1)])).await);
    let path = format!("{WORKFLOWS}/{flow}");
    let wrong = federation.shared.registry.view().regions[2].id.clone();
    for method in [Method::GET, Method::DELETE] {
        federation.shared.owners.learn(&flow, &wrong);
        let answer = call(&federation, method, &path, &Value::Null).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "eu-west-1"), "{answer:?}");
    }
    federation.shared.owners.learn(&flow, &wrong);
    federation.regions[1].stop().await;
    let unsure = call(&federation, Method::GET, &path, &Value::Null).await;
    unsure.check_error(503, "backend_error", "owner_unavailable");
}

/// A body as the region received it, with the ids that were put into it taken out again, and those ids.
fn unstamped(body: &str) -> (String, Vec<String>) {
    const KEY: &str = r#""ojs.federation.federation_id":""#;
    const META: &str = r#""meta":{"#;
    let (mut rest, mut ids) = (body.to_owned(), Vec::new());
    while let Some(at) = rest.find(KEY) {
        let id = at + KEY.len();
        ids.push(rest[id..id + 36].to_owned());
        let (mut start, mut end) = (at, id + 36 + 1);
        if rest[end..].starts_with('}') && rest[..at].ends_with(META) {
            (start, end) = (at - META.len(), end + 1);
        }
        end += usize::from(rest[end..].starts_with(','));
        rest.replace_range(start..end, "");
    }
    (rest, ids)
}

#[tokio::test]
async fn each_job_of_a_definition_is_stamped_and_nothing_else_of_it_changes() {
    let federation = quiet(Dialect::Spec).start().await;
    let pin = r#""ojs.federation.region":"eu-west-1""#;
    for (path, body, jobs) in [
        (WORKFLOWS, r#"{"type":"chain","steps":[{"type":"a.b","args":[1.50]} , {"type":"c","args":[{"type":"x","args":[]}]}]}"#.to_owned(), 2),
        (WORKFLOWS, r#"{"type":"group","jobs":[{"type":"a","args":[],"options":{"retry":{"backoff":{"type":"linear"}}}}]}"#.to_owned(), 1),
        (WORKFLOWS, format!(r#"{{"type":"batch","jobs":[{{"type":"a","args":[],"meta":{{{pin}}}}}],"callbacks":{{"on_complete":{{"type":"d","args":[]}}}}}}"#), 2),
        (WORKFLOWS, r#"{"steps":[{"id":"s","type":"a","args":[]},{"id":"t","type":"b","args":[],"depends_on":["s"],"options":{"metadata":{"k":1}}}]}"#.to_owned(), 2),
        ("/ojs/v1/cron", r#"{"name":"flat","cron":"0 9 * * *","type":"a.b","args":[]}"#.to_owned(), 1),
        ("/ojs/v1/cron", r#"{"name":"held","expression":"0 9 * * *","job_template":{"type":"a.b","args":[],"meta":{"own":1}}}"#.to_owned(), 1),
    ] {
        federation.regions.iter().for_each(|region| region.record().clear());
        let request = http::Request::post(path).header("content-type", "application/json");
        let answer = federation.client.send(request, body.clone()).await;
        assert!(answer.status.is_success(), "{body}: {answer:?}");
        let region = federation.regions.iter().find(|region| region.id() == answer.region()).unwrap();
        let received = region.record().requests();
        let received = received.iter().find(|request| request.method == Method::POST && request.path == path).unwrap();
        let (rest, mut ids) = unstamped(std::str::from_utf8(&received.body).unwrap());
        assert_eq!(rest, body);
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), jobs, "{ids:?}");
        assert!(ids.iter().all(|id| id.as_bytes()[14] == b'7'), "{ids:?}");
    }
}

#[tokio::test]
async fn a_definition_with_ids_of_its_own_or_without_stamps_goes_as_it_is() {
    for (yaml, body) in [
        ("routing: { stamp: never }", r#"{"type":"chain","steps":[{"type":"a","args":[]}]}"#),
        ("", r#"{"type":"chain","steps":[{"type":"a","args":[],"meta":{"ojs.federation.federation_id":"mine"}}]}"#),
    ] {
        let federation = quiet(Dialect::Spec).yaml(yaml).start().await;
        let request = http::Request::post(WORKFLOWS).header("content-type", "application/json");
        assert_eq!(federation.client.send(request, body).await.status, 201);
        let received = federation.regions[0].record().requests();
        let received = received.iter().find(|request| request.method == Method::POST).unwrap();
        assert_eq!(received.body, body);
    }
}
