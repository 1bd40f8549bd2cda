//! Lists of jobs answer for a region that is down by the index of the hub, and say so: each job is marked, and the region is named with its age.

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::INFO;
use super::index::{CANARY, Two, completed, enqueued, hub_of, recorded};
use super::postgres::Postgres;
use super::stage::{HubStage, status};
use crate::support::{Answer, Client, Process, Setup, Stage, eventually};

/// The region that is down, among those of the first federation.
const EU: usize = 1;
/// A list that the demo regions have.
const LIST: &str = "/ojs/v1/admin/jobs";
/// The same of servers by the documents, with cursors.
const JOBS: &str = "/ojs/v1/jobs";
/// A region is asked by each page, whether it has failed or not.
const MARK: &str = "lists: { replicas: mark }\ncircuit_breaker: { failure_threshold: 1000 }";

fn items(page: &Value) -> Vec<Value> {
    ["jobs", "items"].into_iter().find_map(|name| page[name].as_array()).unwrap().clone()
}

fn ids(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// The jobs of a page that are those of the index.
fn replicas(page: &Value) -> Vec<Value> {
    items(page).into_iter().filter(|item| item["x-ojs-federation"]["replica"] == true).collect()
}

/// The regions that the index has answered for, without their ages; empty where there are none.
fn named(answer: &Answer) -> Vec<String> {
    let named = answer.header("ojs-federation-replicas").unwrap_or_default();
    let region = |it: &str| it.split(';').next().unwrap().trim().to_owned();
    named.split(',').filter(|it| !it.is_empty()).map(region).collect()
}

/// The second region does not answer lists in a federation, or does.
fn set_down(federation: &Stage, is_down: bool) {
    let faults = federation.regions[EU].faults();
    faults.clear();
    if is_down {
        for path in [LIST, JOBS] {
            let answer = FaultAnswer::balancer(StatusCode::SERVICE_UNAVAILABLE);
            faults.add(When::path(path).method(Method::GET), Fault::Answer { answer, store: false });
        }
    }
}

/// Jobs of the second region, the one with the greatest id first, once the hub of the first one has them. The last one was enqueued first.
async fn made(two: &Two, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..count {
        let id = format!("01912e4a-7b3c-7def-8a12-{number:012}");
        let job = json!({ "id": id, "type": "t", "args": [CANARY], "options": { "queue": "mail" } });
        let answer = two.in_eu.client.enqueue(job.to_string()).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
        ids.insert(0, id);
    }
    for id in &ids {
        two.equal(id).await;
    }
    ids
}

/// All pages behind a cursor.
async fn behind(client: &Client, limit: usize, mut cursor: String) -> (Vec<Answer>, Vec<String>) {
    let (mut pages, mut all) = (Vec::new(), Vec::new());
    loop {
        let answer = client.get(&format!("{JOBS}?limit={limit}&cursor={cursor}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let page = answer.json();
        all.extend(ids(&items(&page)).into_iter().map(str::to_owned));
        pages.push(answer);
        let Some(next) = page["pagination"]["next_cursor"].as_str() else { return (pages, all) };
        next.clone_into(&mut cursor);
        assert!(pages.len() < 50, "the list does not end");
    }
}

async fn lists(two: &Two) {
    let client = &two.in_us.client;
    let all = made(two, 5).await;
    completed(&two.in_eu, "mail", all.last().unwrap()).await;
    let bound = enqueued(&two.in_eu, "secret", json!({ "ojs.federation.region": "eu-west-1" })).await;
    recorded(&two.us, all.last().unwrap(), "completed").await;
    recorded(&two.us, &bound, "available").await;
    let live = client.get(&format!("{LIST}?limit=50")).await;
    assert_eq!((live.header("ojs-federation-replicas"), live.header("ojs-federation-partial")), (None, None));
    set_down(&two.federations[0], true);
    let answer = client.get(&format!("{LIST}?limit=50")).await;
    let page = answer.json();
    assert_eq!(
        (named(&answer), answer.header("ojs-federation-partial")),
        (vec!["eu-west-1".to_owned()], Some("eu-west-1"))
    );
    assert!(answer.header("ojs-federation-replicas").unwrap().starts_with("eu-west-1;age="), "{answer:?}");
    assert!(!answer.header("ojs-federation-region").unwrap().contains("eu-west-1"), "{answer:?}");
    let expected = [std::slice::from_ref(&bound), &all[..]].concat();
    assert_eq!(ids(&replicas(&page)), expected, "{page}");
    assert!(!String::from_utf8_lossy(&answer.body).contains(CANARY), "no argument is in the index");
    for job in replicas(&page) {
        let (mark, is_bound) = (&job["x-ojs-federation"], job["id"] == *bound);
        assert_eq!((&mark["region"], mark["as_of"].is_string()), (&json!("eu-west-1"), true), "{job}");
        assert_eq!((&job["args"], job["enqueued_at"].is_string()), (&json!([]), true), "{job}");
        let texts = (job["type"].as_str(), job["queue"].as_str());
        assert_eq!(texts, if is_bound { (None, None) } else { (Some("t"), Some("mail")) }, "{job}");
    }
    for (query, found) in [
        ("?state=completed", &all[4..]),
        ("?state=available,active&queue=mail&type=t", &all[..4]),
        ("?limit=5&queue=mail", &all[..]),
    ] {
        let answer = client.get(&format!("{LIST}{query}")).await;
        assert_eq!(
            (named(&answer), ids(&replicas(&answer.json()))),
            (vec!["eu-west-1".to_owned()], ids_of(found)),
            "{query}"
        );
    }
    // A filter that the index cannot apply leaves the region out, as without replicas; so does one that takes no job of it.
    for query in ["worker_id=w", "queue=other"] {
        let other = client.get(&format!("{LIST}?{query}")).await;
        assert_eq!((named(&other), other.header("ojs-federation-partial")), (vec![], Some("eu-west-1")), "{query}");
    }
}

fn ids_of(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn the_jobs_of_a_region_that_is_down_are_listed_from_the_index_and_marked() {
    lists(&Two::start_with(hub_of("us-east-1", "eu-west-1"), MARK).await).await;
}

#[tokio::test]
async fn a_hub_on_postgresql_lists_the_same_jobs() {
    let us = hub_of("us-east-1", "eu-west-1");
    let Some(server) = Postgres::start(&us.authority).await else { return };
    let record = Postgres::section(&[&server], &us.path(""), &us.path("hub.ca.pem"));
    lists(&Two::start_with(us.with_record(record), MARK).await).await;
}

#[tokio::test]
async fn pages_by_cursor_stay_with_the_replica_or_with_the_region_that_they_began_with() {
    let two = Two::start_with(hub_of("us-east-1", "eu-west-1"), MARK).await;
    let all = made(&two, 5).await;
    let section = two.us.section("three").replace("hub: {", "hub: { report_jobs: true,");
    let federation = Setup::default().by_the_documents().yaml(&section).yaml(MARK).stage().await;
    let sidecar = Process::run(&federation.config, &[&INFO[..], &["--set", "local_region=us-east-1"]].concat()).await;
    two.us.follows("three").await;
    let client = &sidecar.client;
    // The region has other jobs of its own, which a list that began with the index must not have between its pages.
    federation.regions[EU].fill("mail", 4);
    // The list ends with a region that answers, behind the end of the replica.
    federation.regions[2].fill("mail", 3);
    let whole = |ids: &[&str]| ids.len() == 8 && ids[..5] == ids_of(&all);
    for limit in [1, 2, 3, 5, 50] {
        set_down(&federation, true);
        let first = client.get(&format!("{JOBS}?limit={limit}")).await;
        let begun = items(&first.json());
        set_down(&federation, false);
        let Some(cursor) = first.json()["pagination"]["next_cursor"].as_str().map(str::to_owned) else {
            assert!(whole(&ids(&begun)), "{begun:?}");
            continue;
        };
        let (pages, rest) = behind(client, limit, cursor).await;
        let listed = [ids(&begun), ids_of(&rest)].concat();
        assert!(whole(&listed), "{limit}: {listed:?}");
        for page in &pages {
            let expected = if replicas(&page.json()).is_empty() { vec![] } else { vec!["eu-west-1".to_owned()] };
            assert_eq!((named(page), page.header("ojs-federation-partial")), (expected, Some("eu-west-1")), "{limit}");
        }
    }
    // A region that is down behind its first page is left out: the index counts in another order.
    let first = client.get(&format!("{JOBS}?limit=2")).await;
    assert_eq!((named(&first), items(&first.json()).len()), (vec![], 2));
    set_down(&federation, true);
    let cursor = first.json()["pagination"]["next_cursor"].as_str().unwrap().to_owned();
    let second = client.get(&format!("{JOBS}?limit=2&cursor={cursor}")).await;
    assert_eq!((named(&second), second.header("ojs-federation-partial")), (vec![], Some("eu-west-1")), "{second:?}");
    assert_eq!((second.status.as_u16(), items(&second.json()).len()), (200, 2), "those of the last region");
}

#[tokio::test]
async fn a_region_is_listed_where_the_index_has_many_jobs_of_others_before_its_own() {
    let us = hub_of("us-east-1", "eu-west-1");
    let Some(server) = Postgres::start(&us.authority).await else { return };
    let record = Postgres::section(&[&server], &us.path(""), &us.path("hub.ca.pem"));
    let two = Two::start_with(us.with_record(record), MARK).await;
    let all = made(&two, 3).await;
    let section = two.us.section("three").replace("hub: {", "hub: { report_jobs: true,");
    let federation = Setup::default().by_the_documents().yaml(&section).yaml(MARK).stage().await;
    let sidecar = Process::run(&federation.config, &[&INFO[..], &["--set", "local_region=us-east-1"]].concat()).await;
    two.us.follows("three").await;
    // More than one answer of the hub reads, and its last statement ends between the two copies of one job.
    let fact = |id: &str, from: &str| {
        format!(
            "INSERT INTO ojs_hub_change (job_id, region, kind, lease_ms, at_ms, state, origin, learned_ms) SELECT {id}, 'us-east-1', 'created', 0, \
             learned_ms, 'available', 'us-east-1', learned_ms FROM (SELECT max(learned_ms) AS learned_ms FROM ojs_hub_change) AS newest{from}"
        )
    };
    server.query(&fact("'z' || it", ", generate_series(1, 51999) AS it"));
    server.query(&fact(&format!("'{}'", all[0]), ""));
    set_down(&federation, true);
    let first = sidecar.client.get(&format!("{JOBS}?limit=2")).await;
    assert_eq!((named(&first), ids(&items(&first.json()))), (vec!["eu-west-1".to_owned()], ids_of(&all[..2])));
    let cursor = first.json()["pagination"]["next_cursor"].as_str().unwrap().to_owned();
    assert_eq!(behind(&sidecar.client, 2, cursor).await.1, all[2..]);
}

#[tokio::test]
async fn pages_by_number_and_a_federation_without_a_region_are_listed_from_the_index() {
    let two = Two::start_with(hub_of("us-east-1", "eu-west-1"), MARK).await;
    let client = &two.in_us.client;
    let all = made(&two, 5).await;
    two.federations[0].regions[0].fill("mail", 2);
    set_down(&two.federations[0], true);
    let mut seen = Vec::new();
    for page in 1..=4 {
        let answer = client.get(&format!("{LIST}?page={page}&per_page=2")).await;
        assert_eq!((named(&answer), &answer.json()["pagination"]["total"]), (vec!["eu-west-1".to_owned()], &json!(7)));
        seen.extend(replicas(&answer.json()));
    }
    assert_eq!(ids(&seen), ids_of(&all));
    // The region would go on at this place of its own list.
    let counted = client.get(&format!("{LIST}?limit=2&offset=3")).await;
    let (page, pagination) = (counted.json(), &counted.json()["pagination"]);
    assert_eq!((ids(&replicas(&page)), &pagination["next_cursor"]), (ids_of(&all[1..3]), &Value::Null), "{page}");
    for region in &two.federations[0].regions {
        region.stop().await;
    }
    let alone = client.get(LIST).await;
    assert_eq!((alone.status.as_u16(), alone.header("ojs-federation-region")), (200, Some("none")), "{alone:?}");
    // The hub follows the first region, where nothing was reported, and the second one, and not the third.
    assert_eq!(named(&alone), ["eu-west-1"]);
    assert_eq!(alone.header("ojs-federation-partial"), Some("us-east-1, eu-west-1, ap-south-1"));
    assert_eq!((ids(&items(&alone.json())), &alone.json()["pagination"]["total"]), (ids_of(&all), &json!(5)));
}

#[tokio::test]
async fn without_the_setting_or_the_hub_a_region_that_is_down_is_missing_and_bound_jobs_may_be_hidden() {
    let mut two = Two::start_with(hub_of("us-east-1", "eu-west-1"), MARK).await;
    let bound = enqueued(&two.in_eu, "q", json!({ "ojs.federation.region": "eu-west-1" })).await;
    recorded(&two.us, &bound, "available").await;
    set_down(&two.federations[0], true);
    let config = &two.federations[0].config;
    let run = async |name: &str, set: &str| {
        let set =
            ["--set", set, "--set", &format!("hub.name={name}"), "--set", "local_region=us-east-1"].map(str::to_owned);
        let set: Vec<&str> = INFO.into_iter().chain(set.iter().map(String::as_str)).collect();
        let sidecar = Process::run(config, &set).await;
        two.us.follows(name).await;
        sidecar
    };
    let denying = run("deny", "residency.read_lists=deny").await;
    let answer = denying.client.get(LIST).await;
    assert_eq!(
        (named(&answer), &answer.json()["x-ojs-federation"]["withheld"]),
        (vec!["eu-west-1".to_owned()], &json!(1))
    );
    assert!(!String::from_utf8_lossy(&answer.body).contains(&bound), "{answer:?}");
    let off = run("off", "lists.replicas=off").await;
    let missing = |answer: &Answer| (named(answer).len(), answer.header("ojs-federation-partial").map(str::to_owned));
    let expected = (0, Some("eu-west-1".to_owned()));
    assert_eq!(missing(&off.client.get(LIST).await), expected);
    two.of_us.kill();
    two.in_us.wait_for_line("ojs.federation.hub_lost").await;
    assert_eq!(missing(&two.in_us.client.get(LIST).await), expected);
}

async fn at_hub(stage: &HubStage, query: &str) -> (u16, Value) {
    status(stage, "eve", &Method::GET, &format!("/v1/federation/jobs?{query}")).await
}

#[tokio::test]
async fn a_hub_lists_the_jobs_of_a_region_that_it_follows_for_sidecars_and_readers() {
    let two = Two::start_with(hub_of("us-east-1", "eu-west-1"), MARK).await;
    let all = made(&two, 3).await;
    let first = at_hub(&two.us, "region=eu-west-1&limit=2").await;
    let job_ids =
        |page: &Value| page["jobs"].as_array().unwrap().iter().map(|it| it["job_id"].clone()).collect::<Vec<_>>();
    assert_eq!((first.0, job_ids(&first.1)), (200, vec![json!(all[0]), json!(all[1])]), "{first:?}");
    let next = first.1["next"].as_str().unwrap();
    let rest = at_hub(&two.us, &format!("region=eu-west-1&before={next}")).await.1;
    assert_eq!((job_ids(&rest), &rest["next"]), (vec![json!(all[2])], &Value::Null));
    let counted = at_hub(&two.us, "region=eu-west-1&offset=1&limit=1").await.1;
    assert_eq!(
        (job_ids(&counted), &counted["total"], &counted["cut"]),
        (vec![json!(all[1])], &json!(3), &json!(false))
    );
    eventually("there is no lag", async || at_hub(&two.us, "region=eu-west-1").await.1["lag_ms"] == 0).await;
    for (query, status, code) in [
        ("region=ap-south-1", 404, "region_not_indexed"),
        ("region=NOT", 400, "invalid_request"),
        ("region=eu-west-1&sort=x", 400, "invalid_request"),
        ("region=eu-west-1&limit=0", 400, "invalid_request"),
        ("region=eu-west-1&before=", 400, "invalid_request"),
    ] {
        let refused = at_hub(&two.us, query).await;
        assert_eq!((refused.0, refused.1["error"]["code"].as_str()), (status, Some(code)), "{query}: {}", refused.1);
    }
    let peer = status(&two.us, "peer", &Method::GET, "/v1/federation/jobs?region=eu-west-1").await;
    assert_eq!(peer.0, 403, "the hub of another region is no reader");
}
