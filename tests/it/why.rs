//! How a job was routed, asked afterwards: by the API and by `ojs-sidecar why`.

use http::Request;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Federation, Process, Setup, Stage, command, eventually, job, pinned};

async fn decisions(client: &Client, query: &str) -> Vec<Value> {
    let answer = client.get(&format!("/v1/federation/decisions?{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["decisions"].as_array().unwrap().clone()
}

async fn decision(client: &Client, query: &str) -> Value {
    let mut all = decisions(client, query).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[tokio::test]
async fn a_stored_job_is_explained_by_each_of_its_ids_without_anything_of_its_content() {
    let federation = Federation::start().await;
    let body = r#"{"type":"email.send","queue":"mail","args":["secret-argument"],"meta":{"k":"secret-meta"}}"#;
    let answer = federation.client.enqueue(body).await;
    let (id, tracking) = (answer.job_id(), answer.header("ojs-federation-id").unwrap().to_owned());
    let request = answer.header("x-request-id").unwrap().to_owned();
    let shown = decision(&federation.client, &format!("job_id={id}")).await;
    for query in [format!("federation_id={tracking}"), format!("request_id={request}")] {
        assert_eq!(decision(&federation.client, &query).await, shown, "{query}");
    }
    assert_eq!(
        (&shown["job_id"], &shown["federation_id"], &shown["request_id"]),
        (&id.into(), &tracking.into(), &request.into())
    );
    assert_eq!(
        (&shown["strategy"], &shown["strategy_from"], &shown["pin"]),
        (&"affinity".into(), &"default".into(), &Value::Null)
    );
    assert_eq!(
        (&shown["queue"], &shown["type"], &shown["durable"]),
        (&"mail".into(), &"email.send".into(), &false.into())
    );
    assert_eq!((&shown["candidates"][0], &shown["call"]), (&"us-east-1".into(), &Value::Null));
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1);
    let tried = &shown["attempts"][0];
    assert_eq!(
        (&tried["region"], &tried["outcome"], &tried["status"]),
        (&"us-east-1".into(), &"answered".into(), &201.into())
    );
    assert_eq!(shown["answer"]["status"], 201);
    assert!(!shown.to_string().contains("secret-"), "{shown}");
}

#[tokio::test]
async fn a_job_is_explained_with_its_pin_its_rule_who_fell_out_and_each_attempt() {
    let federation = Setup::default()
        .yaml("routing: { rules: [{ match: { queue: bulk }, target: { strategy: overflow } }] }\nhealth_check: { interval: 20ms }")
        .start()
        .await;
    let asked = async |body: String| {
        let answer = federation.client.enqueue(body).await;
        decision(&federation.client, &format!("request_id={}", answer.header("x-request-id").unwrap())).await
    };
    let by_rule = asked(r#"{"type":"t","queue":"bulk","args":[]}"#.to_owned()).await;
    assert_eq!((&by_rule["strategy_from"], &by_rule["rule"]), (&"rule".into(), &0.into()), "{by_rule}");
    let own = r#"{"type":"t","args":[],"meta":{"ojs.federation.region_affinity":"round-robin"}}"#;
    assert_eq!(asked(own.to_owned()).await["strategy_from"], "job");

    // The local region answers that it is unavailable: the job is tried in two regions.
    let answer = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
    let moved = asked(job("a")).await;
    let tries: Vec<_> = moved["attempts"].as_array().unwrap().iter().map(|it| (&it["region"], &it["status"])).collect();
    assert_eq!(tries[0], (&"us-east-1".into(), &503.into()), "{moved}");
    assert_eq!((tries.len(), tries[1].1), (2, &201.into()), "{moved}");
    assert_eq!((&moved["moved"]["from"], &moved["moved"]["to"]), (&"us-east-1".into(), tries[1].0), "{moved}");

    // It is down: a pinned job is refused, another one is decided elsewhere.
    federation.regions[0].stop().await;
    eventually("the region is known to be down", async || federation.health(0) == "unhealthy").await;
    let refused = asked(pinned("us-east-1", "p")).await;
    assert_eq!((&refused["pin"], &refused["strategy_from"]), (&"us-east-1".into(), &"pin".into()), "{refused}");
    assert_eq!(
        (&refused["answer"]["status"], &refused["answer"]["refusal"]),
        (&503.into(), &"region_unavailable".into())
    );
    assert_eq!(
        (refused["candidates"].as_array().unwrap().len(), &refused["refused"][0]["region"]),
        (0, &"us-east-1".into())
    );
    let elsewhere = asked(job("b")).await;
    assert_eq!(elsewhere["refused"][0]["region"], "us-east-1", "{elsewhere}");
    assert!(
        ["unhealthy", "breaker_open"].contains(&elsewhere["refused"][0]["reason"].as_str().unwrap()),
        "{elsewhere}"
    );
    assert_eq!(elsewhere["moved"]["from"], "us-east-1", "{elsewhere}");
}

/// A job with a type of its own, pinned if it names a region.
fn member(kind: &str, pin: Option<&str>) -> Value {
    match pin {
        Some(pin) => json!({ "type": kind, "queue": "mail", "args": [], "meta": { "ojs.federation.region": pin } }),
        None => json!({ "type": kind, "queue": "mail", "args": [] }),
    }
}

async fn post(federation: &Federation, path: &str, body: &Value) -> Answer {
    federation.client.post(path, body.to_string()).await
}

#[tokio::test]
async fn the_first_jobs_of_a_batch_are_explained_each_by_its_own_ids() {
    let federation = Setup::default().by_the_documents().start().await;
    for (path, kind) in [("/ojs/v1/jobs/batch", "batch"), ("/ojs/v1/jobs/bulk", "bulk")] {
        let jobs: Vec<Value> = (0..20).map(|number| member(&format!("t.job{number}"), None)).collect();
        let answer = post(&federation, path, &json!({ "jobs": jobs })).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let request = answer.header("x-request-id").unwrap().to_owned();
        let sent: Value =
            serde_json::from_slice(&federation.regions[0].record().requests_to(path).pop().unwrap().body).unwrap();
        for (place, job) in sent["jobs"].as_array().unwrap().iter().enumerate() {
            let [id, tracking] = [&job["id"], &job["meta"]["ojs.federation.federation_id"]];
            let found = decisions(&federation.client, &format!("job_id={}", id.as_str().unwrap())).await;
            if place >= 16 {
                assert!(found.is_empty(), "{found:?}");
                continue;
            }
            let shown = &found[0];
            let by_tracking = format!("federation_id={}", tracking.as_str().unwrap());
            assert_eq!(&decision(&federation.client, &by_tracking).await, shown);
            assert_eq!(shown["call"], json!({ "kind": kind, "jobs": 20, "unnoted": 4 }));
            assert_eq!((&shown["type"], &shown["queue"]), (&job["type"], &"mail".into()));
            assert_eq!((&shown["request_id"], &shown["answer"]["status"]), (&json!(request), &201.into()));
            assert_eq!((&shown["strategy"], &shown["candidates"][0]), (&"affinity".into(), &"us-east-1".into()));
            let origin = if place == 0 { "default" } else { "together" };
            assert_eq!((&shown["strategy_from"], &shown["pin"]), (&origin.into(), &Value::Null));
            let tries = shown["attempts"].as_array().unwrap();
            assert_eq!((tries.len(), &tries[0]["region"], &tries[0]["status"]), (1, &"us-east-1".into(), &201.into()));
        }
        assert_eq!(decisions(&federation.client, &format!("request_id={request}")).await.len(), 16);
    }
}

#[tokio::test]
async fn each_part_of_a_mixed_batch_is_explained_with_its_own_region_also_where_it_failed() {
    let federation = Federation::start().await;
    let mut jobs: Vec<Value> = (0..20).map(|number| member(&format!("t.job{number}"), Some("us-east-1"))).collect();
    jobs.push(member("t.flexible", None));
    jobs.push(member("t.far", Some("eu-west-1")));
    for (place, job) in jobs.iter_mut().enumerate() {
        job["id"] = json!(format!("01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e{place:02}"));
    }
    let unavailable = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    federation.regions[1].faults().add(When::enqueue().next(1), Fault::Answer { answer: unavailable, store: false });
    let answer = post(&federation, "/ojs/v1/jobs/batch", &json!({ "jobs": jobs })).await;
    assert!(answer.status.is_server_error(), "{answer:?}");
    for (place, region, status, pin) in [
        (0, "us-east-1", 201, json!("us-east-1")),
        (14, "us-east-1", 201, json!("us-east-1")),
        (21, "eu-west-1", 503, json!("eu-west-1")),
    ] {
        let shown = decision(&federation.client, &format!("job_id={}", jobs[place]["id"].as_str().unwrap())).await;
        let tried = &shown["attempts"][0];
        assert_eq!((&tried["region"], &tried["status"]), (&json!(region), &json!(status)), "{shown}");
        assert_eq!((&shown["pin"], &shown["strategy_from"]), (&pin, &json!("pin")), "{shown}");
        assert_eq!(shown["call"], json!({ "kind": "batch", "jobs": 22, "unnoted": 6 }));
        assert_eq!(shown["answer"]["status"], answer.status.as_u16(), "what the client was answered for all of it");
    }
}

#[tokio::test]
async fn a_batch_that_no_region_can_take_is_explained_with_who_fell_out() {
    let federation = Setup::default().yaml("health_check: { interval: 20ms }").start().await;
    federation.regions[1].stop().await;
    eventually("the region is known to be down", async || federation.health(1) == "unhealthy").await;
    for (number, (path, pins)) in [
        ("/ojs/v1/jobs/batch", &[Some("eu-west-1"), None][..]),
        ("/ojs/v1/jobs/batch", &[Some("us-east-1"), Some("eu-west-1")]),
        ("/ojs/v1/jobs/bulk", &[Some("us-east-1"), Some("eu-west-1")]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut jobs: Vec<Value> = pins.iter().map(|pin| member("t", *pin)).collect();
        let id = format!("01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e0{number}");
        let bound = pins.iter().position(|pin| *pin == Some("eu-west-1")).unwrap();
        jobs[bound]["id"] = json!(id);
        let answer = post(&federation, path, &json!({ "jobs": jobs })).await;
        let shown = decision(&federation.client, &format!("job_id={id}")).await;
        assert_eq!(shown["answer"]["status"], answer.status.as_u16(), "{shown}");
        assert_eq!(
            (&shown["pin"], &shown["refused"][0]["region"]),
            (&"eu-west-1".into(), &"eu-west-1".into()),
            "{shown}"
        );
        assert!(shown["candidates"].as_array().unwrap().is_empty(), "{shown}");
    }
    // What its own keys contradict, too.
    let id = "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e99";
    let job = json!({ "id": id, "type": "t", "args": [], "meta": { "ojs.federation.region": "nowhere" } });
    assert_eq!(post(&federation, "/ojs/v1/jobs/batch", &json!({ "jobs": [job] })).await.status, 400);
    let shown = decision(&federation.client, &format!("job_id={id}")).await;
    assert_eq!(shown["answer"], json!({ "status": 400, "refusal": "unknown_region" }));
}

#[tokio::test]
async fn workflows_and_cron_jobs_are_explained_by_their_names_and_by_the_tracking_ids_of_their_jobs() {
    let federation = Federation::start().await;
    let steps = [member("t.first", None), member("t.second", Some("eu-west-1"))];
    let answer = post(&federation, "/ojs/v1/workflows", &json!({ "type": "chain", "name": "w", "steps": steps })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["workflow"]["id"].as_str().or(answer.json()["id"].as_str()).unwrap().to_owned();
    let shown = decision(&federation.client, &format!("job_id={id}")).await;
    assert_eq!(shown["call"], json!({ "kind": "workflow", "jobs": 2, "unnoted": 0 }));
    assert_eq!((&shown["type"], &shown["attempts"][0]["region"]), (&"t.first".into(), &"eu-west-1".into()), "{shown}");
    let sent: Value =
        serde_json::from_slice(&federation.regions[1].record().requests_to("/ojs/v1/workflows").pop().unwrap().body)
            .unwrap();
    for (place, pin) in [(0, Value::Null), (1, json!("eu-west-1"))] {
        let tracking = sent["steps"][place]["meta"]["ojs.federation.federation_id"].as_str().unwrap();
        let shown = decision(&federation.client, &format!("federation_id={tracking}")).await;
        assert_eq!((&shown["type"], &shown["pin"]), (&sent["steps"][place]["type"], &pin), "{shown}");
    }
    let cron = |pin: Option<&str>| json!({ "name": "nightly", "expression": "0 3 * * *", "job_template": member("t.cron", pin) });
    assert_eq!(post(&federation, "/ojs/v1/cron", &cron(None)).await.status, 201);
    let shown = decision(&federation.client, "job_id=nightly").await;
    assert_eq!(shown["call"], json!({ "kind": "cron", "jobs": 1, "unnoted": 0 }));
    assert_eq!(
        (&shown["candidates"], &shown["attempts"][0]["status"]),
        (&json!(["us-east-1"]), &201.into()),
        "{shown}"
    );
    // One that lives elsewhere is refused, and that is told.
    assert_eq!(post(&federation, "/ojs/v1/cron", &cron(Some("eu-west-1"))).await.status, 409);
    let all = decisions(&federation.client, "job_id=nightly").await;
    assert_eq!(
        (all.len(), &all[0]["answer"]["status"], &all[0]["pin"]),
        (2, &409.into(), &"eu-west-1".into()),
        "{all:?}"
    );
}

#[tokio::test]
async fn a_question_about_decisions_names_one_job_and_nothing_else() {
    let federation = Federation::start().await;
    for query in ["", "?", "?id=a", "?job_id=", "?job_id=a&limit=3", "?job_id=a&request_id=b", "?job_id", "?job_id=%FF"]
    {
        let answer = federation.client.get(&format!("/v1/federation/decisions{query}")).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (400, "decisions_query"), "{query}: {answer:?}");
    }
    assert!(decisions(&federation.client, "job_id=unheard-of").await.is_empty());
}

#[tokio::test]
async fn no_decision_is_noted_where_none_may_be() {
    let federation = Setup::default().yaml("decisions: { rows_max: 0 }").start().await;
    let id = federation.client.enqueue(job("a")).await.job_id();
    assert!(decisions(&federation.client, &format!("job_id={id}")).await.is_empty());
}

async fn stage_with_journal(more: &str) -> Stage {
    let stage = Setup::default().yaml("journal: { path: \"{dir}/journal\" }").yaml(more).stage().await;
    // Where the folder of the test is known only now.
    let text = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, text.replace("{dir}", stage.files.path().to_str().unwrap())).unwrap();
    stage
}

async fn run(stage: &Stage) -> Process {
    Process::run(&stage.config, &["--set", "log.level=info"]).await
}

/// Waits until the file has what is known of a job.
async fn wait_until_durable(sidecar: &Process, id: &str) {
    let query = format!("job_id={id}");
    eventually("it is in the file", async || decisions(&sidecar.client, &query).await[0]["durable"] == true).await;
}

#[tokio::test]
async fn a_failover_an_hour_ago_is_explained_by_the_next_process_after_a_kill() {
    let stage = stage_with_journal("health_check: { interval: 1h }").await;
    let first = run(&stage).await;
    // Before there is a kept connection, which the job would find closed.
    stage.regions[0].stop().await;
    let answer = first.client.enqueue(r#"{"type":"email.send","queue":"mail","args":["a"]}"#).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let (id, tracking) = (answer.job_id(), answer.header("ojs-federation-id").unwrap().to_owned());
    let went_to = answer.region().to_owned();
    wait_until_durable(&first, &id).await;
    // kill -9.
    drop(first);
    age_by_an_hour(&stage);
    stage.regions[0].resume().await.unwrap();
    let second = run(&stage).await;
    let later = second.client.enqueue(job("later")).await;
    assert_eq!(later.status, 201);
    for asked in [&id, &tracking, answer.header("x-request-id").unwrap()] {
        let ended = command(&["why", asked, "--address", &second.client_address], &[], "");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for words in [
            format!("job {id}"),
            "queue mail".to_owned(),
            "strategy    affinity (the default)".to_owned(),
            format!("moved       from us-east-1 to {went_to}: connect"),
            "tried       us-east-1: not_sent (connect)".to_owned(),
            format!("tried       {went_to}: answered with 201"),
            "answered    201".to_owned(),
        ] {
            assert!(ended.stdout.contains(&words), "no {words} in\n{}", ended.stdout);
        }
    }
    let unknown = command(&["why", "unheard-of", "--address", &second.client_address], &[], "");
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""), "{unknown:?}");
    assert!(unknown.stderr.contains("no decision about unheard-of is known"), "{unknown:?}");
    let json = command(&["why", &id, "--json", "--address", &second.client_address], &[], "");
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["decisions"][0]["durable"], &json["decisions"][0]["job_id"]), (&true.into(), &id.into()));
}

/// As if an hour had gone by since the rows of the file were written.
fn age_by_an_hour(stage: &Stage) {
    const HOUR_MS: i64 = 3_600_000;
    let file = rusqlite::Connection::open(stage.files.path().join("journal")).unwrap();
    let aged = file.execute("UPDATE decision SET number = number - (?1 << 22)", [HOUR_MS]).unwrap();
    assert_eq!(aged, 1, "the job that failed over, and no other");
}

#[tokio::test]
async fn a_batch_that_failed_over_is_explained_by_the_next_process_after_a_kill() {
    let stage = stage_with_journal("health_check: { interval: 1h }").await;
    let first = run(&stage).await;
    stage.regions[0].stop().await;
    let body = json!({ "jobs": [member("email.send", None), member("email.send", None)] });
    let answer = first.client.post("/ojs/v1/jobs/batch", body.to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let ids: Vec<String> =
        (0..2).map(|place| answer.json()["jobs"][place]["id"].as_str().unwrap().to_owned()).collect();
    for id in &ids {
        wait_until_durable(&first, id).await;
    }
    // kill -9.
    drop(first);
    stage.regions[0].resume().await.unwrap();
    let second = run(&stage).await;
    for id in &ids {
        let ended = command(&["why", id, "--address", &second.client_address], &[], "");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for words in [
            format!("job {id}"),
            "call        batch of 2 jobs, of which 0 have no note".to_owned(),
            format!("moved       from us-east-1 to {}: connect", answer.region()),
            "tried       us-east-1: not_sent (connect)".to_owned(),
            format!("tried       {}: answered with 201", answer.region()),
        ] {
            assert!(ended.stdout.contains(&words), "no {words} in\n{}", ended.stdout);
        }
        assert!(!ended.stdout.contains("email.send"), "the file holds no job type");
    }
}

#[tokio::test]
async fn the_file_holds_so_many_decisions_and_forgets_the_oldest() {
    let stage = stage_with_journal("decisions: { rows_max: 3 }\nhealth_check: { interval: 1h }").await;
    let sidecar = run(&stage).await;
    let mut ids = Vec::new();
    for number in 0..5 {
        // Refused, each of them.
        let own = format!("01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e0{number}");
        let body = format!(r#"{{"id":"{own}","type":"t","args":[],"meta":{{"ojs.federation.region":"us-east-1"}}}}"#);
        let answer = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "backend_error");
        stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
        assert_eq!(sidecar.client.send(Request::post("/ojs/v1/jobs"), body).await.status, 503);
        wait_until_durable(&sidecar, &own).await;
        ids.push(own);
    }
    drop(sidecar);
    let sidecar = run(&stage).await;
    let mut known = Vec::new();
    for id in &ids {
        known.push(decisions(&sidecar.client, &format!("job_id={id}")).await.len());
    }
    assert_eq!(known, [0, 0, 1, 1, 1]);
}
