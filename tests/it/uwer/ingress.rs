//! Tasks on their way to a region: one job for one key, and none without the hub. Judged at the regions' stores.

use std::path::PathBuf;

use http::{Method, Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, Gate, When};
use serde_json::Value;

use super::{KEY, task};
use crate::hub::postgres::Postgres;
use crate::hub::stage::{Hub, HubStage};
use crate::support::{Answer, Client, Process, Stage, command, eventually, job};

/// Breakers never open and late probes say nothing, so that each case stands for itself.
const QUIET: &str = "circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }
health_check: { unhealthy_threshold: 100 }
failover: { late_write_grace: 50ms }";

/// A hub that keeps tasks, and a federation whose sidecars take them.
pub(super) struct Ingress {
    pub(super) hubs: HubStage,
    stage: Stage,
}

impl Ingress {
    /// `more`: of the sidecars' configuration.
    async fn with(mut hubs: HubStage, more: &str) -> (Self, Hub) {
        std::fs::write(hubs.path("uwer.key"), "5a".repeat(32)).unwrap();
        hubs.set_more(&format!("uwer: {{ key_file: {:?} }}", hubs.path("uwer.key")));
        let hub = hubs.run().await;
        let uwer = if more.contains("uwer: {") { "" } else { "uwer: { enabled: true }\n" };
        let stage = hubs.federation("one", &format!("{uwer}{QUIET}\n{more}")).await;
        (Self { hubs, stage }, hub)
    }

    pub(super) async fn new(more: &str) -> (Self, Hub) {
        Self::with(HubStage::new(""), more).await
    }

    fn journal(&self, name: &str) -> PathBuf {
        self.stage.files.path().join(format!("{name}.journal"))
    }

    /// Runs a sidecar; returns when it follows the hub.
    pub(super) async fn run(&self, name: &str) -> Process {
        let process = self.run_alone(name).await;
        self.hubs.follows(name).await;
        process
    }

    /// The same, whether it has heard the hub yet or not.
    pub(super) async fn run_alone(&self, name: &str) -> Process {
        let (set, journal) = (format!("hub.name={name}"), format!("journal.path={}", self.journal(name).display()));
        let all = ["--set", "log.level=info", "--set", &set, "--set", &journal];
        Process::run(&self.stage.config, &all).await
    }

    /// All jobs of all regions: id, and how often it was stored.
    pub(super) fn jobs(&self) -> Vec<(String, u32)> {
        let of = |region: &ojs_testbed::DemoRegion| {
            region.jobs().iter().map(|job| (job.id.clone(), job.stored)).collect::<Vec<_>>()
        };
        self.stage.regions.iter().flat_map(of).collect()
    }

    async fn letters(&self, who: &str, arguments: &[&str]) -> crate::support::Ended {
        self.hubs.command(who, &[&["uwer", "letters"], arguments].concat()).await
    }
}

async fn sent_as(client: &Client, media: &str, body: String) -> Answer {
    client.send(Request::post("/uwer/v4/tasks").header("content-type", media), body).await
}

pub(super) async fn try_sent(
    client: &Client,
    body: String,
) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    client.try_send(Request::post("/uwer/v4/tasks").header("content-type", "application/xml"), body).await
}

pub(super) async fn sent(client: &Client, body: String) -> Answer {
    sent_as(client, "application/xml", body).await
}

pub(super) fn key(number: usize) -> String {
    format!("{number:064x}")
}

pub(super) fn uwer_job(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["job_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_is_one_job_with_its_bytes_whichever_sidecar_and_form_it_comes_by() {
    let origins = "uwer: { enabled: true, origins: [{ origin: inventory-*, type: inventory.sync, queue: legacy }] }";
    let (ingress, _hub) = Ingress::new(origins).await;
    let (one, other) = (ingress.run("one").await, ingress.run("other").await);
    let first = sent(&one.client, task(KEY)).await;
    let id = uwer_job(&first);
    let json = command(&["uwer", "convert", "-", "--to", "json"], &[], &task(KEY)).stdout;
    for (sidecar, media, body) in [
        (&other, "text/xml; charset=utf-8", task(KEY)),
        (&one, "application/xml", task(&KEY.to_uppercase())),
        (&other, "application/json", json),
    ] {
        let again = sent_as(&sidecar.client, media, body).await;
        assert_eq!((again.status, again.json()), (first.status, first.json()), "the same answer");
    }
    assert_eq!(ingress.jobs(), [(id.clone(), 1)]);
    let stored = ingress.stage.regions[0].jobs().job(&id).unwrap().clone();
    assert_eq!((stored.kind.as_str(), stored.queue.as_str()), ("inventory.sync", "legacy"));
    assert_eq!(stored.args, r#"["AAECAwQFBgc="]"#);
    let envelope: Value = serde_json::from_slice(&stored.envelope).unwrap();
    assert_eq!(envelope["meta"]["uwer.workflow_id"], "1b4e28ba-2fa1-4ad2-883f-0016d3cca427");
    assert_eq!(
        (&envelope["options"]["priority"], &envelope["options"]["retry"]["max_attempts"]),
        (&10.into(), &6.into())
    );
    let shown = other.client.get("/uwer/v4/tasks/1B4E28BA-2fa1-4ad2-883f-0016d3cca427").await;
    let shown = shown.json()["tasks"][0].clone();
    assert_eq!(
        (&shown["job_id"], &shown["code"], &shown["state"]),
        (&id.into(), &"0x10".into(), &"PENDING_DISPATCH".into())
    );
    assert_eq!((&shown["region"], &shown["origin_service"]), (&"us-east-1".into(), &"inventory-sync-service".into()));
}

#[tokio::test]
async fn twenty_calls_with_one_key_at_two_sidecars_are_one_job() {
    let (ingress, _hub) = Ingress::new("").await;
    let (one, other) = (ingress.run("one").await, ingress.run("other").await);
    let clients = [one.client, other.client];
    let calls: tokio::task::JoinSet<_> =
        (0..20).map(|number| async move { sent(&clients[number % 2], task(KEY)).await }).collect();
    let answers = calls.join_all().await;
    let ids: std::collections::HashSet<String> = answers.iter().map(uwer_job).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(ingress.jobs(), [(ids.into_iter().next().unwrap(), 1)]);
}

#[tokio::test]
async fn a_pin_by_the_service_of_a_task_holds_at_the_sockets() {
    let rule = "routing: { rules: [{ match: { meta: { uwer.origin_service: inventory-sync-service } }, target: { region: eu-west-1 } }] }";
    let (ingress, _hub) = Ingress::new(rule).await;
    let one = ingress.run("one").await;
    let answer = sent(&one.client, task(KEY)).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["region"]), (201, &"eu-west-1".into()));
    for region in &ingress.stage.regions {
        assert_eq!(region.record().contains(b"AAECAwQFBgc="), region.id() == "eu-west-1", "{}", region.id());
    }
}

#[tokio::test]
async fn a_document_that_is_no_task_is_a_dead_letter_that_an_operator_mends() {
    let (ingress, _hub) = Ingress::new("").await;
    let one = ingress.run("one").await;
    let wrong = task(KEY).replace("HIGH", "URGENT");
    for _ in 0..2 {
        let answer = sent(&one.client, wrong.clone()).await;
        let error = answer.check_error(422, "invalid_payload", "uwer_dead_letter");
        let details = &error["details"];
        assert_eq!(
            (&details["code"], &details["field"], &details["line"]),
            (&"0xFF".into(), &"Priority".into(), &5.into())
        );
    }
    let keyless = task(KEY).replace(&format!("<IdempotencyKey>{KEY}</IdempotencyKey>"), "");
    let answer = sent(&one.client, keyless).await;
    assert_eq!(answer.json()["error"]["details"]["why"], "key_missing");
    assert!(ingress.jobs().is_empty());
    let listed = ingress.letters("eve", &["--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let letters = listed["letters"].as_array().unwrap();
    assert_eq!((letters.len(), &letters[1]["count"], &letters[1]["why"]), (2, &2.into(), &"value".into()));
    assert_eq!(letters[1]["origin"], "inventory-sync-service");
    let id = letters[1]["id"].as_str().unwrap();
    let table = ingress.letters("eve", &[]).await;
    assert!(table.stdout.contains(id) && table.stdout.contains("key_missing"), "{}", table.all());
    let refused = ingress.letters("eve", &[id]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("403"), "the bytes need a right: {}", refused.all());
    let raw = ingress.letters("ann", &[id, "--raw"]).await;
    assert_eq!((raw.code, raw.stdout.as_str()), (Some(0), wrong.as_str()), "{}", raw.stderr);
    uwer_job(&sent(&one.client, raw.stdout.replace("URGENT", "HIGH")).await);
    let file = std::fs::read(ingress.hubs.path("hub.db")).unwrap();
    assert!(!file.windows(6).any(|it| it == b"URGENT"), "the record has the bytes sealed");
}

#[tokio::test]
async fn a_key_that_comes_with_another_task_is_a_dead_letter() {
    let (ingress, _hub) = Ingress::new("").await;
    let (one, other) = (ingress.run("one").await, ingress.run("other").await);
    uwer_job(&sent(&one.client, task(KEY)).await);
    let changed = sent(&other.client, task(KEY).replace("AAEC", "BBEC")).await;
    assert_eq!(changed.check_error(422, "invalid_payload", "uwer_dead_letter")["details"]["why"], "other_task");
    assert_eq!(ingress.jobs().len(), 1);
}

#[tokio::test]
async fn the_bytes_of_a_service_that_is_bound_to_another_region_do_not_reach_the_hub() {
    let rule = "routing: { rules: [{ match: { meta: { uwer.origin_service: inventory-sync-service } }, target: { region: eu-west-1 } }] }";
    let (ingress, _hub) = Ingress::new(rule).await;
    let one = ingress.run("one").await;
    for body in [task(KEY).replace("HIGH", "URGENT"), "<UWER_Task>".to_owned()] {
        let answer = sent(&one.client, body.clone()).await;
        let letter = answer.json()["error"]["details"]["letter"].as_str().unwrap().to_owned();
        let raw = ingress.letters("ann", &[&letter, "--raw"]).await;
        assert!(raw.code == Some(1) && raw.stderr.contains("may not be in its region"), "{}", raw.all());
    }
    let free = sent(&one.client, task(KEY).replace("HIGH", "URGENT").replace("inventory-sync-service", "mail")).await;
    let letter = free.json()["error"]["details"]["letter"].as_str().unwrap().to_owned();
    assert_eq!(ingress.letters("ann", &[&letter, "--raw"]).await.code, Some(0));
}

#[tokio::test]
async fn without_the_hub_no_task_is_accepted_and_ordinary_jobs_go_on() {
    let (ingress, mut hub) = Ingress::new("").await;
    let one = ingress.run("one").await;
    hub.kill();
    one.wait_for_line("ojs.federation.hub_lost").await;
    for body in [task(KEY), task(KEY).replace("HIGH", "URGENT")] {
        let answer = sent(&one.client, body).await;
        assert_eq!(answer.check_error(503, "backend_error", "uwer_store")["details"]["why"], "unreachable");
        answer.check_retry_after(2);
    }
    assert_eq!(one.client.get("/uwer/v4/tasks/x").await.status, 503);
    assert_eq!(one.client.enqueue(job("a")).await.status, 201);
    let _hub = ingress.hubs.run().await;
    ingress.hubs.follows("one").await;
    uwer_job(&sent(&one.client, task(KEY)).await);
    assert_eq!(ingress.jobs().len(), 2);
}

#[tokio::test]
async fn a_refusal_of_the_region_is_passed_on_and_the_task_can_be_sent_again() {
    let (ingress, _hub) = Ingress::new("").await;
    let (one, other) = (ingress.run("one").await, ingress.run("other").await);
    let limited = FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited").header("retry-after", "7");
    ingress.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer: limited, store: false });
    let refused = sent(&one.client, task(KEY)).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("7")), "{refused:?}");
    uwer_job(&sent(&other.client, task(KEY)).await);
    assert_eq!(ingress.jobs().len(), 1);
}

#[tokio::test]
async fn a_job_that_the_region_finds_invalid_is_a_dead_letter() {
    let (ingress, _hub) = Ingress::new("").await;
    let one = ingress.run("one").await;
    let invalid = FaultAnswer::error_document(StatusCode::UNPROCESSABLE_ENTITY, "invalid_payload");
    ingress.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer: invalid, store: false });
    let refused = sent(&one.client, task(KEY)).await;
    assert_eq!(refused.check_error(422, "invalid_payload", "uwer_dead_letter")["details"]["why"], "refused");
    // The key is free for the mended task.
    uwer_job(&sent(&one.client, task(KEY).replace("AAEC", "BBEC")).await);
    assert_eq!(ingress.jobs().len(), 1);
}

/// A sidecar that is killed while its job is under way: the other one waits until the claim is over, finds the job, and sends no second one.
async fn outlives_a_sidecar(hubs: HubStage) {
    let (ingress, _hub) = Ingress::with(hubs, "limits: { call_timeout: 1s }").await;
    let (one, other) = (ingress.run("one").await, ingress.run("other").await);
    let (gate, client) = (Gate::new(), one.client);
    ingress.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let call = tokio::spawn(async move {
        client.try_send(Request::post("/uwer/v4/tasks").header("content-type", "text/xml"), task(KEY)).await
    });
    let is_sent = || {
        let requests = ingress.stage.regions[0].record().requests_to("/ojs/v1/jobs");
        requests.iter().any(|it| it.method == Method::POST)
    };
    eventually("the job is sent", async || is_sent()).await;
    // kill -9.
    drop(one);
    assert!(call.await.unwrap().is_err(), "the sender gets no answer");
    gate.open();
    eventually("the region stores it", async || ingress.jobs().len() == 1).await;
    let waiting = sent(&other.client, task(KEY)).await;
    waiting.check_error(503, "backend_error", "uwer_unsettled");
    eventually("the claim is over", async || sent(&other.client, task(KEY)).await.status == 201).await;
    let answer = sent(&other.client, task(KEY)).await;
    assert_eq!(ingress.jobs(), [(uwer_job(&answer), 1)]);
}

#[tokio::test]
async fn a_task_of_a_sidecar_that_was_killed_is_found_by_another_one() {
    outlives_a_sidecar(HubStage::new("")).await;
}

#[tokio::test]
async fn a_task_of_a_killed_sidecar_is_found_by_another_one_with_a_database() {
    let hubs = HubStage::new("");
    let Some(server) = Postgres::start(&hubs.authority).await else { return };
    let record = Postgres::section(&[&server], &hubs.path(""), &hubs.path("hub.ca.pem"));
    outlives_a_sidecar(hubs.with_record(record)).await;
}

#[tokio::test]
async fn tasks_are_known_at_every_hub_of_a_database() {
    let hubs = HubStage::new("");
    let Some(server) = Postgres::start(&hubs.authority).await else { return };
    let record = Postgres::section(&[&server], &hubs.path(""), &hubs.path("hub.ca.pem"));
    let (ingress, mut first) = Ingress::with(hubs.on_record(record), "").await;
    let mut second = ingress.hubs.again(1).await;
    let one = ingress.run("one").await;
    let id = uwer_job(&sent(&one.client, task(KEY)).await);
    sent(&one.client, task(&key(1)).replace("HIGH", "URGENT")).await.check_error(
        422,
        "invalid_payload",
        "uwer_dead_letter",
    );
    // Whichever of the two it follows.
    first.kill();
    eventually("the other hub has the task", async || {
        let again = sent(&one.client, task(KEY)).await;
        again.status == 201 && uwer_job(&again) == id
    })
    .await;
    // A refusal of the region leaves the key to the next call, and one of the job to another task.
    let refuse = |status, code| {
        let answer = FaultAnswer::error_document(status, code);
        ingress.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
    };
    refuse(StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    assert_eq!(sent(&one.client, task(&key(2))).await.status, 429);
    refuse(StatusCode::UNPROCESSABLE_ENTITY, "invalid_payload");
    let invalid = sent(&one.client, task(&key(2))).await;
    let requests = ingress.stage.regions[0].record().requests();
    let shown: Vec<String> =
        requests.iter().map(|it| format!("{} {} {}", it.method, it.path, String::from_utf8_lossy(&it.body))).collect();
    assert_eq!(invalid.status, 422, "{invalid:?} {shown:#?}");
    let mended = uwer_job(&sent(&one.client, task(&key(2)).replace("AAEC", "BBEC")).await);
    let other = sent(&one.client, task(&key(2))).await;
    assert_eq!(other.check_error(422, "invalid_payload", "uwer_dead_letter")["details"]["why"], "other_task");
    let listed = ingress.hubs.command_at(1, "ann", &["uwer", "letters", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let why: Vec<_> = listed["letters"].as_array().unwrap().iter().map(|it| it["why"].clone()).collect();
    assert_eq!((why.len(), why.contains(&"refused".into())), (2, true), "the same bytes are one letter: {why:?}");
    assert_eq!(ingress.jobs(), [(id, 1), (mended, 1)]);
    second.kill();
}

#[tokio::test]
async fn a_wrong_media_type_or_method_is_named_and_without_the_setting_there_is_no_such_path() {
    let (ingress, _hub) = Ingress::new("").await;
    let one = ingress.run("one").await;
    for media in ["text/plain", "application/xml; charset=utf-16"] {
        sent_as(&one.client, media, task(KEY)).await.check_error(415, "unsupported", "uwer_media_type");
    }
    let listed = one.client.get("/uwer/v4/tasks").await;
    listed.check_error(405, "invalid_request", "method_not_allowed");
    assert_eq!(listed.header("allow"), Some("POST"));
    one.client.get("/uwer/v4/tasks/none").await.check_error(404, "not_found", "uwer_no_task");
    one.client.get("/uwer/v4/other").await.check_error(404, "not_found", "no_such_path");
    let off = crate::support::Federation::start().await;
    for (method, path) in [(Method::POST, "/uwer/v4/tasks"), (Method::GET, "/uwer/v4/tasks/x")] {
        let answer = off.client.call(method, path, "").await;
        answer.check_error(404, "not_found", "no_such_path");
    }
}
