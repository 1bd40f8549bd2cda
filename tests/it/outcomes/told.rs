//! What operators see: `GET /v1/federation/outcomes` and `ojs-sidecar outcomes`.

use std::collections::HashSet;

use http::Method;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::Value;

use super::{newest_in, open, quiet};
use crate::support::{Client, Process, command, job, pinned};

#[tokio::test]
async fn outcomes_are_shown_under_every_prefix_newest_first_and_by_state() {
    let federation = quiet().steered().start().await;
    federation.mute(0);
    federation.regions[0].faults().add(When::enqueue(), Fault::CutAfterRequest { store: false });
    let mut ids = Vec::new();
    for _ in 0..3 {
        let answer = federation.client.enqueue(job("secret-argument")).await;
        ids.insert(0, answer.json()["error"]["details"]["job_id"].clone());
    }
    for prefix in ["/v1/federation", "/ojs/v1/federation", "/ojs/federation"] {
        let get = async |query: &str| federation.client.get(&format!("{prefix}/outcomes{query}")).await;
        let all = get("").await.json();
        let shown: Vec<_> = all["outcomes"].as_array().unwrap().iter().map(|it| it["job_id"].clone()).collect();
        assert_eq!((shown, &all["unknown"], &all["durable"]), (ids.clone(), &3.into(), &false.into()));
        assert!(!all.to_string().contains("secret-argument"));
        assert_eq!(get("?limit=1").await.json()["outcomes"].as_array().unwrap().len(), 1);
        assert_eq!(get("?state=unknown&limit=2").await.json()["outcomes"].as_array().unwrap().len(), 2);
        assert_eq!(get("?state=stored").await.json()["outcomes"].as_array().unwrap().len(), 0);
        for wrong in ["?state=lost", "?limit=0", "?limit=1001", "?limit=x", "?cursor=x", "?job=1"] {
            get(wrong).await.check_error(400, "invalid_request", "outcomes_query");
        }
        let posted = federation.client.post(&format!("{prefix}/outcomes"), "").await;
        assert_eq!((posted.status.as_u16(), posted.header("allow")), (405, Some("GET, HEAD")));
    }
}

#[tokio::test]
async fn the_command_shows_the_same_as_a_table() {
    let federation = quiet().steered().start().await;
    federation.mute(0);
    federation.regions[0].faults().add(When::enqueue(), Fault::CutAfterRequest { store: false });
    let answer = federation.client.enqueue(job("a")).await;
    let id = answer.json()["error"]["details"]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(open(&federation.client).await, 1);
    let address = federation.address().to_string();
    let run = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        async move {
            let run = move || command(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
            tokio::task::spawn_blocking(run).await.unwrap()
        }
    };
    let table = run(&["outcomes", "--address", &address]).await;
    assert_eq!(table.code, Some(0), "{}", table.all());
    assert!(table.stdout.starts_with("1 unknown, 0 watched; kept in memory only\nID"), "{}", table.stdout);
    assert!(table.stdout.contains(&id) && table.stdout.contains("unknown"), "{}", table.stdout);
    let none = run(&["outcomes", "--address", &address, "--state", "doubled"]).await;
    assert!(none.code == Some(0) && !none.stdout.contains(&id), "{}", none.all());
    assert_eq!(run(&["outcomes", "--address", &address, "--state", "odd"]).await.code, Some(2));
}

async fn page(client: &Client, query: &str) -> (Vec<String>, Value) {
    let answer = client.get(&format!("/v1/federation/outcomes?{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut shown = answer.json();
    let ids = shown["outcomes"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    (ids, shown["next_cursor"].take())
}

/// All rows that a query chooses, two at a time, and how many pages that took.
async fn all_pages(client: &Client, query: &str) -> (Vec<String>, usize) {
    let (mut all, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let (rows, next) = page(client, &format!("{query}limit=2{cursor}")).await;
        assert!(rows.len() <= 2);
        (all, pages) = ([all, rows].concat(), pages + 1);
        let Some(next) = next.as_str() else { return (all, pages) };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn every_outcome_is_reached_by_pages_and_by_its_ids_and_region() {
    let federation = quiet().steered().yaml("limits: { call_timeout: 700ms }").start().await;
    let client = federation.client;
    for place in [0, 1] {
        federation.mute(place);
        let lost = Fault::CutAfterRequest { store: false };
        federation.regions[place].faults().add(When::enqueue(), lost);
    }
    let own = r#"{"id":"order/7 & \u00e4?","type":"a","args":[]}"#.to_owned();
    let bodies = [job("a"), pinned("eu-west-1", "b"), own, job("c"), pinned("eu-west-1", "d")];
    for body in bodies {
        assert_eq!(client.enqueue(body).await.reason(), "outcome_unknown");
    }
    let (all, none) = page(&client, "").await;
    assert_eq!((all.len(), none), (5, Value::Null));
    assert_eq!(all_pages(&client, "").await, (all.clone(), 3));
    let [ref newest, _, ref of_own, ref third, ref oldest] = all[..] else { panic!("{all:?}") };
    let rows = client.get("/v1/federation/outcomes").await.json()["outcomes"].take();
    let federation_id = rows[4]["federation_id"].as_str().unwrap();
    let job_id = rows[0]["job_id"].as_str().unwrap();
    for (query, expected) in [
        (format!("job_id={job_id}"), vec![newest]),
        (format!("federation_id={federation_id}"), vec![oldest]),
        ("region=eu-west-1".to_owned(), vec![newest, third]),
        ("job_id=order%2F7%20%26%20%C3%A4%3F".to_owned(), vec![of_own]),
        (format!("region=us-east-1&job_id={job_id}"), vec![]),
        ("region=eu-west-1&state=watched".to_owned(), vec![]),
    ] {
        let (found, _) = page(&client, &query).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        assert_eq!(all_pages(&client, &format!("{query}&")).await.0, found, "{query}");
    }
    // What comes between two pages is on neither, and nothing is left out for it.
    let (first, cursor) = page(&client, "limit=2").await;
    assert_eq!(client.enqueue(job("e")).await.reason(), "outcome_unknown");
    let (second, _) = page(&client, &format!("limit=3&cursor={}", cursor.as_str().unwrap())).await;
    assert_eq!([first, second].concat(), all);
    for wrong in ["job=1", "id=1", "Region=eu-west-1", "cursor=-1"] {
        let answer = client.get(&format!("/v1/federation/outcomes?{wrong}")).await;
        answer.check_error(400, "invalid_request", "outcomes_query");
    }
}

#[tokio::test]
async fn the_command_shows_more_rows_than_one_answer_has() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let stage = quiet().yaml(&format!("journal: {{ path: {path:?} }}")).yaml("limits: { call_timeout: 700ms }");
    let stage = stage.stage().await;
    let asked = When::path("/ojs/v1/jobs/").method(Method::GET);
    let mute = FaultAnswer::error_document(http::StatusCode::INTERNAL_SERVER_ERROR, "internal_error");
    stage.regions[0].faults().add(asked, Fault::Answer { answer: mute, store: false });
    stage.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
    let first = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    assert_eq!(first.client.enqueue(job("a")).await.reason(), "outcome_unknown");
    newest_in(&first.client, "unknown").await;
    drop(first);
    // As many more of the same.
    let many = "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 1500) INSERT INTO placement \
                SELECT number + k, run, json_set(document, '$.number', number + k) FROM placement, n";
    rusqlite::Connection::open(&path).unwrap().execute_batch(many).unwrap();
    let second = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    let address = second.client.address().to_string();
    let show = |arguments: &'static [&'static str]| {
        let address = address.clone();
        let run = move || command(&[&["outcomes", "--address", &address], arguments].concat(), &[], "");
        async move { tokio::task::spawn_blocking(run).await.unwrap() }
    };
    let table = show(&["--region", "us-east-1"]).await;
    assert!(table.stdout.starts_with("1501 unknown, 0 watched; kept in the journal's file\n"), "{}", table.all());
    let ids: HashSet<_> = table.stdout.lines().skip(2).filter_map(|line| line.split_once(' ')).map(|it| it.0).collect();
    assert_eq!((ids.len(), table.stdout.lines().count()), (1501, 1503));
    let none = show(&["--region", "eu-west-1"]).await;
    assert_eq!((none.code, none.stdout.lines().count()), (Some(0), 2), "{}", none.all());
}
