//! Jobs that are set aside, and files that cannot be used: nothing is lost, and the others go on.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, Gate, When};

use super::{
    Files, OWN, arguments, eventually, held, job, launched, pinned, resume, run, setup, shown, stop, stored_once,
};
use crate::support::command;

#[tokio::test]
async fn a_job_that_its_region_refuses_is_set_aside_and_the_lane_goes_on_and_operators_decide() {
    let files = Files::new();
    let federation = launched(setup(&files, "")).await;
    stop(&federation.regions).await;
    let refused = held(&federation.client, job("refused")).await.job_id();
    held(&federation.client, job("next")).await;
    let answer = FaultAnswer::error_document(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request");
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
    federation.regions[0].resume().await.unwrap();
    eventually("the next one is there", async || arguments(&federation.regions[0]) == [r#"["next"]"#]).await;
    let list = shown(&federation.admin).await;
    let read = federation.client.get(&format!("/ojs/v1/jobs/{refused}")).await;
    assert_eq!((read.status.as_u16(), read.reason().as_str()), (409, "spool_aside"), "{read:?}");
    let row = &list["set_aside"][0];
    assert_eq!(
        (&row["job_id"], &row["state"], &row["reason"]),
        (&refused.clone().into(), &"refused".into(), &"region_422".into())
    );
    let outcomes = federation.client.get(&format!("/v1/federation/outcomes?job_id={refused}")).await.json();
    assert_eq!(outcomes["spool"][0]["state"], "refused", "{outcomes}");
    let text = federation.admin.get("/metrics").await;
    let text = String::from_utf8_lossy(&text.body).into_owned();
    assert!(text.contains(r#"ojs_federation_spool_jobs{state="refused"} 1"#), "{text}");
    let order = |path: String| async move { federation.admin.call(Method::POST, &path, "").await };
    assert_eq!(order(format!("/spool/{refused}/retry")).await.status, 400, "a reason is needed");
    assert_eq!(order("/spool/none/retry?reason=x".to_owned()).await.status, 404);
    assert_eq!(order(format!("/spool/{refused}/drop?reason=x")).await.status, 404);
    let admin = federation.admin.address().to_string();
    let cli = |words: Vec<String>| async {
        let words: Vec<String> = ["spool".to_owned()].into_iter().chain(words).collect();
        tokio::task::spawn_blocking(move || command(&words.iter().map(String::as_str).collect::<Vec<_>>(), &[], ""))
            .await
            .unwrap()
    };
    let listed = cli(vec!["--address".to_owned(), admin.clone()]).await;
    assert!(listed.code == Some(0) && listed.stdout.contains(&refused), "{listed:?}");
    let words = ["retry", &refused, "--reason", "mended, ana", "--address", &admin].map(str::to_owned);
    assert_eq!(cli(words.to_vec()).await.code, Some(0));
    eventually("it is there", async || federation.regions[0].jobs().len() == 2).await;
    assert!(stored_once(&federation.regions, 2));
    let words = ["discard", &refused, "--reason", "x", "--address", &admin].map(str::to_owned);
    assert_eq!(cli(words.to_vec()).await.code, Some(1), "nothing is set aside any more");
}

#[tokio::test]
async fn a_job_that_is_too_old_is_set_aside_unsent_and_stays_until_it_is_discarded() {
    let files = Files::new();
    let federation = launched(setup(&files, "max_age: 1s, ")).await;
    stop(&federation.regions).await;
    let old = held(&federation.client, job("too-old")).await.job_id();
    eventually("it is too old", async || shown(&federation.admin).await["expired"] == 1).await;
    resume(&federation.regions).await;
    let again = federation.client.enqueue(job("new")).await;
    eventually("a new one is there", async || {
        again.status == 202 || again.status == 201 || federation.client.enqueue(job("new")).await.status == 201
    })
    .await;
    eventually("no job waits", async || shown(&federation.admin).await["waiting"] == 0).await;
    assert!(federation.seen("too-old").is_empty(), "nothing of it was sent");
    let path = format!("/spool/{old}/discard?reason=too%20late");
    assert_eq!(federation.admin.call(Method::POST, &path, "").await.status, 200);
    assert_eq!(shown(&federation.admin).await["expired"], 0);
}

#[tokio::test]
async fn a_recorded_send_is_looked_up_also_days_later_and_before_any_age_is_judged() {
    for max_age in ["7d", "1h"] {
        let files = Files::new();
        let stage = setup(&files, &format!("max_age: {max_age}, ")).stage().await;
        stop(&stage.regions).await;
        let first = run(&stage).await;
        held(&first.client, pinned("us-east-1", "a")).await;
        let gate = Gate::new();
        stage.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
        resume(&stage.regions).await;
        let record = stage.regions[0].record();
        record.wait_for(|record| record.requests_to("/ojs/v1/jobs").iter().any(|it| it.complete)).await;
        drop(first);
        gate.open();
        eventually("it is stored", async || stage.regions[0].jobs().len() == 1).await;
        // Two days later.
        let file = rusqlite::Connection::open(files.path()).unwrap();
        let day = 24 * 60 * 60 * 1_000_i64;
        let copies: String = file.query_row("SELECT copies FROM job", [], |row| row.get(0)).unwrap();
        let mut copies: serde_json::Value = serde_json::from_str(&copies).unwrap();
        let sent = copies[0]["sent"].as_i64().unwrap_or(2 * day);
        copies[0]["sent"] = (sent - 2 * day).into();
        let aged = file.execute("UPDATE job SET since_ms = since_ms - ?1, copies = ?2", (2 * day, copies.to_string()));
        assert_eq!(aged, Ok(1));
        drop(file);
        let second = run(&stage).await;
        eventually("it is resolved", async || {
            let list = shown(&second.admin).await;
            list["state"] == "ready" && list["waiting"] == 0
        })
        .await;
        assert_eq!(shown(&second.admin).await["set_aside"], serde_json::json!([]), "{max_age}");
        assert!(stored_once(&stage.regions, 1), "{max_age}");
    }
}

#[tokio::test]
async fn a_pin_to_a_region_that_is_gone_is_set_aside_and_others_go_on() {
    let files = Files::new();
    let stage = setup(&files, "").stage().await;
    stop(&stage.regions).await;
    let first = run(&stage).await;
    held(&first.client, pinned("eu-west-1", "gone-region")).await;
    held(&first.client, job("b")).await;
    drop(first);
    let text = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, text.replace("- id: eu-west-1", "- id: eu-west-9")).unwrap();
    let second = run(&stage).await;
    resume(&stage.regions).await;
    eventually("it is set aside", async || shown(&second.admin).await["set_aside"][0]["reason"] == "region_unknown")
        .await;
    eventually("the other is there", async || stage.regions.iter().any(|region| region.jobs().len() == 1)).await;
    for region in &stage.regions {
        assert!(!region.record().contains(b"gone-region"));
    }
}

#[tokio::test]
async fn with_an_unusable_file_the_program_starts_and_refuses_and_the_file_stays() {
    let files = Files::new();
    let stage = setup(&files, "").stage().await;
    stop(&stage.regions).await;
    let first = run(&stage).await;
    let kept = held(&first.client, job("kept")).await.job_id();
    drop(first);
    files.set_key(&"11".repeat(32));
    let second = run(&stage).await;
    let list = shown(&second.admin).await;
    assert_eq!((&list["state"], &list["reason"]), (&"unusable".into(), &"wrong_key".into()), "{list}");
    let refused = second.client.enqueue(job("a")).await;
    assert_eq!((refused.status.as_u16(), refused.reason().as_str()), (503, "no_healthy_region"), "{refused:?}");
    let named = second.client.enqueue(format!(r#"{{"id":"{OWN}","type":"a","args":[]}}"#)).await;
    assert_eq!(named.check_error(503, "backend_error", "spool_behind")["details"]["why"], "not_read");
    stage.regions[0].resume().await.unwrap();
    stage.regions[1].resume().await.unwrap();
    let path = format!("/ojs/v1/jobs/{kept}");
    for method in [Method::GET, Method::DELETE] {
        eventually("it may be in the file", async || {
            second.client.call(method.clone(), &path, "").await.reason() == "spool_busy"
        })
        .await;
    }
    let begun = Instant::now();
    files.set_key(&"5a".repeat(32));
    eventually("the key is read again", async || {
        begun.elapsed() < Duration::from_secs(60) && shown(&second.admin).await["state"] == "ready"
    })
    .await;
    eventually("the job is there", async || stage.regions.iter().any(|region| arguments(region) == [r#"["kept"]"#]))
        .await;
}
