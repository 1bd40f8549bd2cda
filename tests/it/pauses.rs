//! Paused queues, job types and tenants of one sidecar: `pause` and `resume`.

use http::{Method, Request};
use serde_json::{Value, json};

use crate::support::{Answer, Federation, Process, Setup, command, eventually};
use crate::switches::{listed, order};

/// A job in a queue; the type tells it apart.
fn queued(queue: &str, job_type: &str) -> String {
    json!({ "type": job_type, "args": [], "options": { "queue": queue } }).to_string()
}

async fn paused(federation: &Federation, what: &str, name: &str) {
    let done = order(&federation.admin, &["pause", what, name, "--for", "30m"]).await;
    let line = format!("pause {what} {name} until ");
    assert!(done.code == Some(0) && done.stdout.contains(&line), "{}", done.all());
}

async fn resumed(federation: &Federation, what: &str, name: &str) {
    let done = order(&federation.admin, &["resume", what, name]).await;
    let line = format!("ended: pause {what} {name}");
    assert!(done.code == Some(0) && done.stdout.contains(&line), "{}", done.all());
}

async fn fetch(federation: &Federation, queues: &Value) -> Vec<String> {
    let body = json!({ "queues": queues, "count": 10, "worker_id": "w" });
    let answer = federation.client.post("/ojs/v1/workers/fetch", body.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let jobs = answer.json()["jobs"].as_array().unwrap().clone();
    jobs.iter().map(|job| job["type"].as_str().unwrap().to_owned()).collect()
}

/// The bodies of FETCHes that the regions got, in the order of regions.
fn asked(federation: &Federation) -> Vec<Value> {
    let records = federation.regions.iter().flat_map(|region| region.record().requests_to("/ojs/v1/workers/fetch"));
    records.map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

fn check_paused(answer: &Answer, subject: &str) {
    let error = answer.check_error(503, "backend_error", "source_paused");
    assert_eq!((&error["retryable"], &error["details"]["switch"]), (&true.into(), &format!("pause {subject}").into()));
    answer.check_retry_after(30);
    let text = String::from_utf8_lossy(&answer.body);
    assert!(!["storm", "OPS-7", "ana"].iter().any(|word| text.contains(word)), "the reason is the operator's: {text}");
}

#[tokio::test]
async fn a_paused_queue_takes_jobs_and_hands_out_none_and_its_workers_get_those_of_other_queues() {
    let federation = Setup::default().steered().start().await;
    for (queue, job_type) in [("email", "a.email"), ("other", "a.other")] {
        assert_eq!(federation.client.enqueue(queued(queue, job_type)).await.status, 201);
    }
    let leased = federation.client.post("/ojs/v1/workers/fetch", r#"{"queues":["email"],"worker_id":"w"}"#).await;
    let leased = leased.json()["jobs"][0]["id"].as_str().unwrap().to_owned();
    let before = asked(&federation).len();
    paused(&federation, "queue", "email").await;
    assert_eq!(federation.metric(r#"switches{switch="pause"}"#).await, 1.0);
    assert_eq!(federation.client.enqueue(queued("email", "b.email")).await.status, 201, "jobs are put into it");
    assert_eq!(fetch(&federation, &json!(["email"])).await, [""; 0]);
    assert_eq!(fetch(&federation, &json!(["\u{65}mail"])).await, [""; 0], "however its name is written");
    let escaped = r#"{"queues":["\u0065mail"],"worker_id":"w"}"#;
    let answer = federation.client.post("/ojs/v1/workers/fetch", escaped).await;
    assert_eq!(answer.json(), json!({ "jobs": [] }));
    for unclear in [r#"{"queues":["email"],"queues":["other"]}"#, r#"{"queues":["email",5]}"#] {
        let answer = federation.client.post("/ojs/v1/workers/fetch", unclear).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({ "jobs": [] })), "{unclear}");
    }
    assert_eq!(asked(&federation).len(), before, "no region was asked");
    assert_eq!(fetch(&federation, &json!(["email", "other"])).await, ["a.other"]);
    let last = asked(&federation).pop().unwrap();
    assert_eq!((&last["queues"], &last["count"]), (&json!(["other"]), &json!(10)));
    // The job that a worker had goes on, and so do reads.
    let beat = json!({ "worker_id": "w", "active_jobs": [leased], "state": "running" });
    assert_eq!(federation.client.post("/ojs/v1/workers/heartbeat", beat.to_string()).await.status, 200);
    let ack = json!({ "job_id": leased, "result": {} });
    assert_eq!(federation.client.post("/ojs/v1/workers/ack", ack.to_string()).await.status, 200);
    assert_eq!(federation.client.get(&format!("/ojs/v1/jobs/{leased}")).await.status, 200);
    resumed(&federation, "queue", "email").await;
    assert_eq!(fetch(&federation, &json!(["email", "other"])).await, ["b.email"]);
}

#[tokio::test]
async fn no_region_hands_out_jobs_of_a_paused_queue_that_it_shares() {
    let federation = Setup::default().steered().yaml("workers: { remote_fetch: [email, other] }").start().await;
    for queue in ["email", "other"] {
        let body = json!({ "type": queue, "args": [], "options": { "queue": queue },
                           "meta": { "ojs.federation.region": "eu-west-1" } });
        assert_eq!(federation.client.enqueue(body.to_string()).await.status, 201);
    }
    paused(&federation, "queue", "email").await;
    for _ in 0..2 {
        fetch(&federation, &json!(["email", "other"])).await;
    }
    assert!(asked(&federation).iter().all(|it| it["queues"] == json!(["other"])), "{:?}", asked(&federation));
    assert!(asked(&federation).len() > 2, "another region was asked, too");
}

#[tokio::test]
async fn a_paused_type_makes_no_new_jobs_by_any_call_and_those_that_exist_go_on() {
    let federation = Setup::default().steered().start().await;
    assert_eq!(federation.client.enqueue(queued("q", "mail.send")).await.status, 201);
    paused(&federation, "type", "mail.send").await;
    let before: Vec<usize> =
        (0..3).map(|place| federation.regions[place].record().requests_to("/ojs/v1").len()).collect();
    let job = |job_type: &str| json!({ "type": job_type, "args": [] });
    let template = |job_type: &str| json!({ "name": "n", "expression": "0 3 * * *", "job_template": job(job_type) });
    let step = json!({ "id": "s", "type": "mail.send", "args": [] });
    let other = json!({ "id": "o", "type": "other", "args": [] });
    for (method, path, body) in [
        (Method::POST, "/ojs/v1/jobs", job("mail.send")),
        (Method::PUT, "/ojs/v2/jobs", job("mail.send")),
        (Method::PUT, "/ojs/v1/jobs", job("mail.send")),
        (Method::POST, "/ojs/v1/jobs/batch", json!({ "jobs": [job("other"), job("mail.send")] })),
        (Method::POST, "/ojs/v1/jobs/bulk", json!({ "jobs": [job("mail.send"), job("other")] })),
        (Method::POST, "/ojs/v1/cron", template("mail.send")),
        (Method::POST, "/ojs/v1/workflows", json!({ "name": "w", "type": "chain", "steps": [other, step] })),
    ] {
        let answer = federation.client.call(method, path, body.to_string()).await;
        check_paused(&answer, "type mail.send");
    }
    // Some servers make jobs of these, too.
    let bare = json!({ "type": "mail.send" });
    let folded = json!({ "type": "mail.send", "Args": [] });
    let holding = json!({ "type": "mail.send", "steps": [] });
    for (path, body) in [
        ("/ojs/v1/jobs/batch", json!({ "jobs": [folded] })),
        ("/ojs/v1/jobs/bulk", json!({ "jobs": [bare] })),
        ("/ojs/v1/jobs/batch", json!({ "jobs": [holding] })),
        ("/ojs/v1/cron", json!({ "name": "n", "expression": "0 3 * * *", "job_template": bare })),
        ("/ojs/v1/cron", json!({ "name": "n", "expression": "0 3 * * *", "job_template": holding })),
        ("/ojs/v1/workflows", json!({ "name": "w", "type": "chain", "steps": [bare] })),
    ] {
        check_paused(&federation.client.post(path, body.to_string()).await, "type mail.send");
    }
    let after: Vec<usize> =
        (0..3).map(|place| federation.regions[place].record().requests_to("/ojs/v1").len()).collect();
    assert_eq!(after, before, "no region got anything");
    let asked = federation.client.post("/v1/federation/route", job("mail.send").to_string()).await;
    assert!(String::from_utf8_lossy(&asked.body).contains("source_paused"), "the dry run says the same: {asked:?}");
    assert_eq!(federation.client.enqueue(job("mail.send.now").to_string()).await.status, 201, "names are exact");
    let chain = json!({ "name": "w", "type": "mail.send", "steps": [other] }).to_string();
    assert_ne!(federation.client.post("/ojs/v1/workflows", chain).await.status, 503, "no job is of this type");
    let policy =
        json!({ "type": "other", "args": [], "options": {}, "retry": { "backoff" : { "type": "mail.send" } } });
    let batch = json!({ "jobs": [policy] }).to_string();
    assert_eq!(federation.client.post("/ojs/v1/jobs/batch", batch).await.status, 201, "nor one of its backoff");
    assert_eq!(fetch(&federation, &json!(["q"])).await, ["mail.send"], "the job that exists goes on");
    assert!(federation.metric(r#"refusals_total{reason="source_paused",region="none"}"#).await >= 6.0);
    resumed(&federation, "type", "mail.send").await;
    assert_eq!(federation.client.enqueue(job("mail.send").to_string()).await.status, 201);
}

#[tokio::test]
async fn a_paused_tenant_is_known_by_the_job_and_by_the_head_of_its_call() {
    let federation = Setup::default().steered().start().await;
    paused(&federation, "tenant", "acme").await;
    let of = |tenant: &str| json!({ "type": "t", "args": [], "meta": { "tenant_id": tenant } });
    let by_head = async |name: &str, tenant: &str, body: &Value| {
        let request = Request::builder().method(Method::POST).uri("/ojs/v1/jobs").header(name, tenant);
        federation.client.send(request, body.to_string()).await
    };
    check_paused(&federation.client.enqueue(of("acme").to_string()).await, "tenant acme");
    let plain = json!({ "type": "t", "args": [] });
    check_paused(&by_head("x-ojs-tenant", "acme", &plain).await, "tenant acme");
    check_paused(&by_head("x-ojs-tenant-id", "acme", &plain).await, "tenant acme");
    let long = json!({ "type": "t", "args": ["x".repeat(300_000)], "meta": { "tenant_id": "acme" } });
    check_paused(&federation.client.enqueue(long.to_string()).await, "tenant acme");
    let flow = json!({ "name": "w", "type": "chain", "meta": { "tenant_id": "acme" },
                       "steps": [{ "id": "s", "type": "t", "args": [] }] });
    check_paused(&federation.client.post("/ojs/v1/workflows", flow.to_string()).await, "tenant acme");
    assert_eq!(federation.seen("tenant_id"), [] as [usize; 0]);
    let unclear = r#"{"type":"t","args":[],"meta":{"tenant_id":5}}"#;
    federation.client.enqueue(unclear).await.check_error(400, "invalid_request", "ambiguous_member");
    assert_eq!(federation.client.enqueue(of("acme2").to_string()).await.status, 201);
    assert_eq!(by_head("x-ojs-tenant", "other", &plain).await.status, 201);
}

#[tokio::test]
async fn a_pause_outlives_a_kill_and_a_reload_and_ends_in_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let journal = format!("journal: {{ path: {:?} }}", dir.path().join("journal"));
    let stage = Setup::default().yaml(&journal).stage().await;
    let first = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    for [what, name] in [["queue", "a b"], ["type", "mail"], ["tenant", "acme"]] {
        let done = order(&first.admin, &["pause", what, name, "--for", "1h"]).await;
        assert!(done.code == Some(0) && !done.stdout.contains("not on disk"), "{}", done.all());
    }
    first.wait_for_line("ojs.federation.switch_set").await;
    assert!(first.log().iter().any(|line| line.contains("paused=\"queue a b\"")), "{:?}", first.log());
    // Killed.
    drop(first);
    let second = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    let all = listed(&second.admin).await;
    assert_eq!(
        (all.len(), &all[0]["queue"], &all[1]["type"], &all[2]["tenant"]),
        (3, &json!("a b"), &json!("mail"), &json!("acme"))
    );
    let enqueue = async || second.client.enqueue(r#"{"type":"mail","args":[]}"#).await;
    check_paused(&enqueue().await, "type mail");
    let text = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, text + "\nidempotency: { ttl: 2h }\n").unwrap();
    second.signal("HUP");
    second.wait_for_line("configuration_reloaded").await;
    check_paused(&enqueue().await, "type mail");
    let address = second.admin.address().to_string();
    let shown = command(&["switches", "--address", &address], &[], "");
    assert!(
        shown.stdout.contains("pause queue a b until ") && shown.stdout.contains("pause tenant acme"),
        "{}",
        shown.all()
    );
    // A later order takes the place of the earlier one, and ends by itself.
    assert_eq!(order(&second.admin, &["pause", "type", "mail", "--for", "1s"]).await.code, Some(0));
    assert_eq!(listed(&second.admin).await.len(), 3);
    second.wait_for_line("ojs.federation.switch_ended").await;
    eventually("new jobs are accepted again", async || enqueue().await.status == 201).await;
    assert_eq!(listed(&second.admin).await.len(), 2);
}

#[tokio::test]
async fn a_pause_that_cannot_be_set_says_what_is_wrong_and_there_are_not_too_many() {
    let federation = Setup::default().steered().start().await;
    let why = "reason=x&ticket=t&author=a";
    let call = async |method: Method, query: &str| {
        federation.admin.call(method, &format!("/switches?{query}&{why}"), "").await
    };
    for (method, query, status, words) in [
        (Method::PUT, "switch=pause&for=1h", 400, "`queue`"),
        (Method::PUT, "switch=pause&region=us-east-1&for=1h", 400, "`queue`"),
        (Method::PUT, "switch=pause&queue=a&type=b&for=1h", 400, "`type`"),
        (Method::PUT, "switch=pause&queue=a", 400, "`for`"),
        (Method::DELETE, "switch=pause&queue=a", 404, "no such switch"),
    ] {
        let answer = call(method, query).await;
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(answer.status == status && message.contains(words), "{query}: {answer:?}");
    }
    for wrong in [&["pause", "queue"][..], &["pause", "queue", "a"], &["pause", "origin", "a", "--for", "1h"]] {
        assert_eq!(order(&federation.admin, wrong).await.code, Some(2), "{wrong:?}");
    }
    for at in 0..257 {
        assert_eq!(call(Method::PUT, &format!("switch=pause&queue=q{at}&for=1h")).await.status, 200, "{at}");
    }
    let answer = call(Method::PUT, "switch=pause&queue=more&for=1h").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (409, &json!("too_many")));
    assert_eq!(call(Method::PUT, "switch=pause&queue=q7&for=2h").await.status, 200, "in place of an earlier one");
    assert_eq!(call(Method::DELETE, "switch=pause&queue=q8").await.status, 200);
    assert_eq!(call(Method::PUT, "switch=pause&queue=more&for=1h").await.status, 200);
}
