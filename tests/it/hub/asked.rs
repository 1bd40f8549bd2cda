//! A spoke with `hub.decide: ask`: its hub decides about flexible jobs, and gets nothing of them but the keys of routing.

use std::time::Duration;

use serde_json::{Value, json};

use super::INFO;
use super::later::LaterHub;
use super::stage::{HubStage, post};
use super::views::regions;
use crate::support::{Answer, Client, Federation, Process, Scrape, Setup, eventually, job, pinned};

const SPOKES: &str = "topology: hub-spoke\nhealth_check: { interval: 3s }\nload: { interval: 1s }\n";
/// The places of the local spoke and of the region of the hub.
const LOCAL: usize = 0;
const HUB: usize = 2;
/// An answer for the other spoke, which the sidecar has never seen well.
const OTHER_FIRST: &str = r#"{"target_region":"eu-west-1","strategy":"affinity","candidates":[
    {"id":"eu-west-1","score":1,"reason":"so"},{"id":"us-east-1","score":0.5,"reason":"so"}]}"#;

/// A spoke; `decide` are further keys of its section `hub`.
fn spoke(hubs: &HubStage, decide: &str, more: &str) -> Setup {
    let section = hubs.section("one").replace("name: one,", &format!("name: one, {decide},"));
    Setup::default().yaml(&section).yaml(SPOKES).yaml(more).region(HUB, "is_hub: true")
}

/// A spoke that hears a hub of the test, by steered time.
async fn scripted(more: &str) -> (HubStage, LaterHub, Federation) {
    let mut hubs = HubStage::new("");
    let hub = LaterHub::start(&mut hubs).await;
    let federation = spoke(&hubs, "decide: ask", more).steered().stage().await.launch();
    hub.asked(1).await;
    hear(&hub, &federation.client).await;
    federation.advance_until_health(LOCAL, "healthy").await;
    (hubs, hub, federation)
}

/// A sign of life of the hub, which ends a cut.
async fn hear(hub: &LaterHub, client: &Client) {
    hub.say(": live\n\n");
    let shown = async || client.get("/v1/federation/regions").await.json();
    eventually("the end of the cut", async || shown().await["cut_off"] == false).await;
}

fn went(answer: &Answer) -> (u16, &str) {
    (answer.status.as_u16(), answer.region())
}

async fn questions(federation: &Federation, result: &str) -> f64 {
    Scrape::of(&federation.admin).await.value(&format!(r#"hub_questions_total{{result="{result}"}}"#))
}

async fn dry_run(client: &Client, body: &str) -> Value {
    client.post("/v1/federation/route", body.to_owned()).await.json()
}

#[tokio::test]
async fn a_job_goes_where_the_hub_says_and_not_where_the_view_of_the_spoke_would_send_it() {
    let mut hubs = HubStage::new("");
    hubs.run().await.kill();
    let stage = spoke(&hubs, "decide: ask", "").stage().await;
    // The hub does not reach the region that the spoke finds well.
    hubs.set_more(&regions(&stage, |place| (place == LOCAL).then_some("https://127.0.0.1:1")));
    let _hub = hubs.run().await;
    let sidecar = Process::run(&stage.config, &["--set", "log.level=info", "--set", "log.access=all"]).await;
    let client = &sidecar.client;
    let mut run = Value::Null;
    eventually("the hub decides", async || {
        run = dry_run(client, &job("dry")).await;
        run["decided_by"] == "hub" && run["target_region"] != "us-east-1" && run["target_region"].is_string()
    })
    .await;
    let candidates = run["candidates"].as_array().unwrap();
    let local = candidates.iter().find(|it| it["id"] == "us-east-1").unwrap();
    assert_eq!((&local["reason"], &local["score"]), (&json!("unhealthy"), &json!(0.0)), "{run}");
    let shown = client.get("/v1/federation/regions").await.json();
    assert_eq!(shown["regions"][LOCAL]["status"], "healthy", "by the spoke's own view: {shown}");
    let stored = client.enqueue(job("a")).await;
    assert_eq!(went(&stored), (201, run["target_region"].as_str().unwrap()), "{stored:?}");
    let decisions = client.get(&format!("/v1/federation/decisions?job_id={}", stored.job_id())).await.json();
    let decision = &decisions["decisions"][0];
    assert_eq!((&decision["decided_by"], &decision["candidates"][0]), (&json!("hub"), &run["target_region"]));
    assert_eq!(decision["refused"][0]["region"], "us-east-1", "{decision}");
    sidecar.wait_for_line(r#"decided_by="hub""#).await;
    // So do jobs of a batch, steps of a workflow and a long job; a pinned one goes where it must.
    for (path, body) in [
        ("/ojs/v1/jobs/batch", r#"{"jobs":[{"type":"a","args":[]},{"type":"b","args":[]}]}"#.to_owned()),
        ("/ojs/v1/workflows", r#"{"type":"chain","steps":[{"type":"a","args":[]}]}"#.to_owned()),
        ("/ojs/v1/jobs", job(&"long ".repeat(60_000))),
    ] {
        let stored = client.post(path, body).await;
        assert!(stored.status.is_success() && stored.region() != "us-east-1", "{path}: {stored:?}");
    }
    assert_eq!(went(&client.enqueue(pinned("us-east-1", "pinned")).await), (201, "us-east-1"));
    // The same spoke by its view stays at home.
    let text = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, text.replace("decide: ask", "decide: view")).unwrap();
    sidecar.signal("HUP");
    sidecar.wait_for_line("configuration_reloaded").await;
    eventually("its view decides", async || client.enqueue(job("b")).await.region() == "us-east-1").await;
    assert_eq!(dry_run(client, &job("dry")).await["decided_by"], Value::Null);
}

#[tokio::test]
async fn the_hub_gets_one_question_for_equal_jobs_nothing_of_their_content_and_none_about_pinned_jobs() {
    let rules = "routing: { rules: [{ match: { meta: { plan: canary-plan } }, target: { strategy: weighted } }] }";
    let (_hubs, hub, federation) = scripted(rules).await;
    hub.answer_with(OTHER_FIRST);
    let (client, canary) = (&federation.client, "canary");
    let body = |args: usize, meta: &str| {
        format!(
            r#"{{"type":"canary.type","args":["canary-{args}"],"queue":"mail","tags":["canary-tag"],
                "options":{{"queue":"mail","tags":["canary-tag"]}},"meta":{{{meta}"note":"canary-meta"}}}}"#
        )
    };
    // Pins, by the job, leave no byte at the hub.
    for region in ["us-east-1", "eu-west-1", "ap-south-1"] {
        let pin = format!(r#""ojs.federation.region":"{region}","#);
        assert_eq!(went(&client.enqueue(body(0, &pin)).await), (201, region));
    }
    assert_eq!(hub.questions(), [""; 0]);
    for number in 0..40 {
        assert_eq!(went(&client.enqueue(body(number, "")).await), (201, "eu-west-1"));
    }
    assert_eq!(hub.questions().len(), 1, "{:?}", hub.questions());
    assert_eq!((questions(&federation, "answered").await, questions(&federation, "cached").await), (1.0, 39.0));
    let question: Value = serde_json::from_str(&hub.questions()[0]).unwrap();
    let members: Vec<&String> = question.as_object().unwrap().keys().collect();
    assert_eq!(members, ["frame", "meta", "moment", "queue", "region"]);
    assert_eq!((&question["region"], &question["queue"]), (&json!("us-east-1"), &json!("mail")));
    assert_eq!(question["meta"], json!({ "ojs.federation.region_affinity": "affinity" }));
    // Another kind of job is another question, by the strategy of the spoke's own rule.
    assert_eq!(went(&client.enqueue(body(41, r#""plan":"canary-plan","#)).await), (201, "eu-west-1"));
    let question: Value = serde_json::from_str(&hub.questions()[1]).unwrap();
    assert_eq!(question["meta"], json!({ "ojs.federation.region_affinity": "weighted" }));
    // Time ends the answer.
    federation.advance(Duration::from_millis(2_900));
    client.enqueue(body(42, "")).await;
    assert_eq!(hub.questions().len(), 2);
    federation.advance(Duration::from_millis(200));
    client.enqueue(body(43, "")).await;
    assert_eq!(hub.questions().len(), 3);
    // The dry run asks as a live call does.
    let run = dry_run(client, &body(44, "")).await;
    assert_eq!((&run["target_region"], &run["decided_by"]), (&json!("eu-west-1"), &json!("hub")), "{run}");
    assert_eq!(hub.questions().len(), 3);
    assert!(!hub.received().contains(canary), "{}", hub.received());
}

#[tokio::test]
async fn equal_jobs_at_once_wait_for_one_question() {
    let (_hubs, hub, federation) = scripted("").await;
    let waiting: Vec<_> = (0..8).map(|_| tokio::spawn(enqueue(federation.client, job("a")))).collect();
    eventually("the question", async || hub.questions().len() == 1).await;
    federation.settle().await;
    assert_eq!(hub.questions().len(), 1);
    // The calls go on alone, and the next question is answered.
    federation.advance(Duration::from_secs(2));
    for call in waiting {
        assert_eq!(went(&call.await.unwrap()), (201, "us-east-1"));
    }
}

async fn enqueue(client: Client, body: String) -> Answer {
    client.enqueue(body).await
}

#[tokio::test]
async fn a_hub_that_accepts_and_never_answers_costs_one_wait_and_is_then_as_a_cut() {
    let rules = "routing: { rules: [{ match: { queue: away }, target: { regions: [eu-west-1, ap-south-1] } }] }";
    let (_hubs, hub, federation) = scripted(rules).await;
    let client = &federation.client;
    let first = tokio::spawn(enqueue(*client, job("a")));
    eventually("the question", async || hub.questions().len() == 1).await;
    federation.advance(Duration::from_millis(1_999));
    federation.settle().await;
    assert!(!first.is_finished(), "the wait is not over");
    federation.advance(Duration::from_millis(1));
    let stored = first.await.unwrap();
    assert_eq!(went(&stored), (201, "us-east-1"));
    let decisions = client.get(&format!("/v1/federation/decisions?job_id={}", stored.job_id())).await.json();
    assert_eq!(decisions["decisions"][0]["decided_by"], "no_answer");
    // No further job waits: none asks until the hub is tried again.
    assert_eq!(went(&client.enqueue(job("b")).await), (201, "us-east-1"));
    let away = r#"{"type":"a","args":["away"],"options":{"queue":"away"}}"#;
    let refused = client.enqueue(away).await;
    refused.check_error(503, "backend_error", "hub_unavailable");
    assert!((1..=8).contains(&refused.retry_after()), "{refused:?}");
    assert_eq!(hub.questions().len(), 1);
    assert!(federation.seen("away").is_empty());
    assert_eq!((questions(&federation, "no_answer").await, questions(&federation, "left_alone").await), (1.0, 2.0));
    // A pin is decided here, as long as the feed goes on.
    assert_eq!(went(&client.enqueue(pinned("eu-west-1", "c")).await), (201, "eu-west-1"));
    // One answer ends that.
    hub.answer_with(OTHER_FIRST);
    federation.advance(Duration::from_secs(1));
    assert_eq!(went(&client.enqueue(away).await), (201, "eu-west-1"));
    assert_eq!(went(&client.enqueue(job("d")).await).0, 201);
}

#[tokio::test]
async fn operators_and_sidecars_ask_the_hub_in_the_form_of_the_rfc_and_no_question_has_arguments() {
    const ROUTE: &str = "/v1/federation/route";
    let mut hubs = HubStage::new("");
    let mut hub = hubs.run().await;
    let rfc = json!({ "type": "email.send", "meta": { "ojs.federation.region_affinity": "affinity" } });
    let (status, document) = post(&hubs, "ann", ROUTE, &rfc).await;
    assert_eq!((status, &document["error"]["code"]), (409, &json!("no_view")));
    // A spoke of a hub that cannot answer stays at home, and says why.
    let stage = spoke(&hubs, "decide: ask", "").stage().await;
    let sidecar = Process::run(&stage.config, &INFO).await;
    hubs.follows("one").await;
    eventually("the refusal", async || {
        assert_eq!(went(&sidecar.client.enqueue(job("a")).await), (201, "us-east-1"));
        sidecar.log().iter().any(|it| it.contains("hub_questions_refused") && it.contains("set `regions`"))
    })
    .await;
    hub.kill();
    hubs.set_more(&regions(&stage, |_| None));
    let _hub = hubs.run().await;
    let mut document = Value::Null;
    eventually("the view of the hub", async || {
        document = post(&hubs, "ann", ROUTE, &rfc).await.1;
        document["candidates"]
            .as_array()
            .is_some_and(|all| all.iter().all(|it| it["reason"].as_str().is_some_and(|it| it.contains("healthy"))))
    })
    .await;
    assert_eq!((&document["target_region"], &document["strategy"]), (&json!("us-east-1"), &json!("affinity")));
    assert_eq!(document["candidates"].as_array().unwrap().len(), 3, "{document}");
    let mut here = rfc.clone();
    here["region"] = "eu-west-1".into();
    for client in ["eve", "pod"] {
        let (status, document) = post(&hubs, client, ROUTE, &here).await;
        assert_eq!((status, &document["target_region"]), (200, &json!("eu-west-1")), "{document}");
    }
    let mut pin = rfc.clone();
    pin["meta"]["ojs.federation.region"] = "ap-south-1".into();
    assert_eq!(post(&hubs, "ann", ROUTE, &pin).await.1["target_region"], "ap-south-1");
    for (member, value) in [("args", json!(["canary"])), ("options", json!({})), ("queue", json!(7))] {
        let mut wrong = rfc.clone();
        wrong[member] = value;
        let (status, document) = post(&hubs, "ann", ROUTE, &wrong).await;
        assert_eq!((status, &document["error"]["code"]), (400, &json!("invalid_request")), "{member}");
        assert!(!document.to_string().contains("canary"), "{document}");
    }
    let mut noted = rfc.clone();
    noted["meta"]["note"] = "canary".into();
    assert_eq!(post(&hubs, "pod", ROUTE, &noted).await.0, 400);
}
