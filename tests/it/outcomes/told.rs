//! What operators see: `GET /v1/federation/outcomes` and `ojs-sidecar outcomes`.

use ojs_sidecar::demo::{Fault, When};

use super::{open, quiet};
use crate::support::{command, job};

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
