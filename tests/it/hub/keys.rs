//! Keys for all: an `Idempotency-Key` that every sidecar of a hub knows. Judged at the regions' stores.

use std::path::PathBuf;

use http::Request;
use ojs_testbed::{Fault, FaultAnswer, Gate, When};

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage};
use crate::support::{Answer, Client, Process, Scrape, Stage, eventually, job};

/// Breakers never open, so that each case stands for itself.
const QUIET: &str = "circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }
failover: { late_write_grace: 50ms }";

/// Two sidecars with journals of their own before one set of regions.
pub(super) struct Two {
    pub(super) hubs: HubStage,
    stage: Stage,
    on_loss: &'static str,
}

impl Two {
    /// `on_loss`: the answer to the loss of the hub, `local` or `refuse`. `more`: of the sidecars' configuration.
    pub(super) async fn before(hubs: HubStage, on_loss: &'static str, more: &str) -> (Self, Hub) {
        let hub = hubs.run().await;
        let keys = format!("idempotency: {{ scope: hub, on_hub_loss: {on_loss} }}\n{QUIET}\n{more}");
        let stage = hubs.federation("one", &keys).await;
        (Self { hubs, stage, on_loss }, hub)
    }

    pub(super) async fn with(on_loss: &'static str) -> (Self, Hub) {
        Self::before(HubStage::new(""), on_loss, "limits: { call_timeout: 5s }").await
    }

    fn journal(&self, name: &str) -> PathBuf {
        self.stage.files.path().join(format!("{name}.journal"))
    }

    /// Runs a sidecar; returns when it follows the hub.
    pub(super) async fn run(&self, name: &str) -> Process {
        let process = self.run_without_hub(name).await;
        self.hubs.follows(name).await;
        process
    }

    async fn run_without_hub(&self, name: &str) -> Process {
        let (name, journal) = (format!("hub.name={name}"), format!("journal.path={}", self.journal(name).display()));
        Process::run(&self.stage.config, &[&INFO[..], &["--set", &name, "--set", &journal]].concat()).await
    }

    /// All jobs of all regions: id, and how often it was stored.
    pub(super) fn jobs(&self) -> Vec<(String, u32)> {
        let of = |region: &ojs_testbed::DemoRegion| {
            region.jobs().iter().map(|job| (job.id.clone(), job.stored)).collect::<Vec<_>>()
        };
        self.stage.regions.iter().flat_map(of).collect()
    }

    /// How many enqueues have come to the regions.
    fn enqueues(&self) -> usize {
        let of = |region: &ojs_testbed::DemoRegion| {
            let requests = region.record().requests_to("/ojs/v1/jobs");
            requests.iter().filter(|it| it.method == http::Method::POST).count()
        };
        self.stage.regions.iter().map(of).sum()
    }

    fn is_one(&self, answer: &Answer) {
        assert_eq!(self.jobs(), [(answer.job_id(), 1)], "{}", self.on_loss);
    }
}

pub(super) async fn keyed(client: &Client, key: &str, body: String) -> Answer {
    client.send(Request::post("/ojs/v1/jobs").header("idempotency-key", key), body).await
}

pub(super) fn is_replay(answer: &Answer) -> bool {
    answer.header("ojs-federation-replayed") == Some("true")
}

pub(super) async fn counted(sidecar: &Process, result: &str) -> f64 {
    Scrape::of(&sidecar.admin).await.value(&format!("hub_keys_total{{result=\"{result}\"}}"))
}

/// The same key through both sidecars is one job, whose answer both give.
async fn is_known_to_both(two: &Two) {
    let (one, other) = (two.run("one").await, two.run("other").await);
    let first = keyed(&one.client, "k", job("a")).await;
    assert_eq!((first.status.as_u16(), is_replay(&first)), (201, false), "{first:?}");
    for sidecar in [&other, &one, &other] {
        let again = keyed(&sidecar.client, "k", job("a")).await;
        let said = (again.status.as_u16(), again.job_id(), again.region().to_owned(), is_replay(&again));
        assert_eq!(said, (201, first.job_id(), first.region().to_owned(), true), "{again:?}");
        assert_eq!(again.json(), first.json(), "the job as its region shows it");
    }
    two.is_one(&first);
    // A repetition at the first sidecar asks the hub nothing.
    assert_eq!((counted(&one, "claimed").await, counted(&other, "stored").await), (1.0, 2.0));
    for sidecar in [&one, &other] {
        let reused = keyed(&sidecar.client, "k", job("b")).await;
        assert_eq!((reused.status.as_u16(), reused.reason().as_str()), (409, "idempotency_key_reused"), "{reused:?}");
    }
    // A tenant's key is its own, and a job without a key is no concern of the hub.
    let tenant = Request::post("/ojs/v1/jobs").header("idempotency-key", "k").header("x-ojs-tenant", "t");
    assert!(!is_replay(&other.client.send(tenant, job("a")).await));
    assert_eq!(other.client.enqueue(job("a")).await.status, 201);
    assert_eq!((two.jobs().len(), counted(&other, "claimed").await), (3, 1.0));
}

/// Twenty calls with one key through both sidecars at once store one job.
async fn is_one_job_of_a_crowd(two: &Two) {
    let (one, other) = (two.run("one").await, two.run("other").await);
    let clients = [one.client, other.client];
    let calls: tokio::task::JoinSet<_> =
        (0..20).map(|number| async move { keyed(&clients[number % 2], "crowd", job("crowd")).await }).collect();
    let answers = calls.join_all().await;
    let ids: std::collections::HashSet<String> = answers.iter().map(Answer::job_id).collect();
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(ids.len(), 1);
    two.is_one(&answers[0]);
    assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
}

#[tokio::test]
async fn a_key_is_known_to_the_other_sidecar_with_its_answer() {
    let (two, _hub) = Two::with("refuse").await;
    is_known_to_both(&two).await;
}

#[tokio::test]
async fn calls_with_one_key_through_two_sidecars_at_once_are_one_job() {
    let (two, _hub) = Two::with("refuse").await;
    is_one_job_of_a_crowd(&two).await;
}

/// Enqueues with a key in a task, and waits until the region has the request, which it holds until the gate opens.
pub(super) async fn held(two: &Two, sidecar: &Process, key: &'static str) -> (Gate, tokio::task::JoinHandle<Answer>) {
    let (gate, client) = (Gate::new(), sidecar.client);
    let before = two.enqueues();
    two.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let call = tokio::spawn(async move { keyed(&client, key, job("a")).await });
    eventually("the job is sent", async || two.enqueues() > before).await;
    (gate, call)
}

/// A sidecar that is killed while its job is under way: the other one sends no second job, and has the answer once the first is back.
async fn outlives_a_sidecar(hubs: HubStage) {
    let (two, _hub) = Two::before(hubs, "refuse", "limits: { call_timeout: 2s }").await;
    let (one, other) = (two.run("one").await, two.run("other").await);
    let (gate, call) = held(&two, &one, "k").await;
    // kill -9.
    drop(one);
    assert!(call.await.is_err(), "the client gets no answer");
    gate.open();
    eventually("the region stores it", async || two.jobs().len() == 1).await;
    for _ in 0..2 {
        let unknown = keyed(&other.client, "k", job("a")).await;
        unknown.check_error(500, "backend_error", "outcome_unknown");
    }
    let reused = keyed(&other.client, "k", job("b")).await;
    assert_eq!(reused.reason(), "idempotency_key_reused");
    let one = two.run("one").await;
    eventually("the other sidecar has the answer", async || keyed(&other.client, "k", job("a")).await.status == 201)
        .await;
    let answers = [keyed(&one.client, "k", job("a")).await, keyed(&other.client, "k", job("a")).await];
    assert_eq!(answers[0].job_id(), answers[1].job_id());
    two.is_one(&answers[0]);
}

#[tokio::test]
async fn a_sidecar_that_is_killed_within_a_call_leaves_its_key_claimed_until_it_is_back() {
    outlives_a_sidecar(HubStage::new("")).await;
}

#[tokio::test]
async fn a_key_whose_job_was_refused_is_free_at_the_other_sidecar() {
    let (two, _hub) = Two::with("refuse").await;
    let (one, other) = (two.run("one").await, two.run("other").await);
    let limited = FaultAnswer::error_document(http::StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    two.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer: limited, store: false });
    assert_eq!(keyed(&one.client, "k", job("a")).await.status, 429);
    let answer = keyed(&other.client, "k", job("b")).await;
    assert_eq!((answer.status.as_u16(), is_replay(&answer)), (201, false), "{answer:?}");
    let again = keyed(&one.client, "k", job("b")).await;
    assert_eq!((again.job_id(), is_replay(&again)), (answer.job_id(), true));
    assert_eq!(keyed(&one.client, "k", job("a")).await.reason(), "idempotency_key_reused");
    two.is_one(&answer);
}

#[tokio::test]
async fn a_repetition_at_the_other_sidecar_waits_for_the_first_call() {
    let (two, _hub) = Two::with("refuse").await;
    let (one, other) = (two.run("one").await, two.run("other").await);
    let (gate, call) = held(&two, &one, "k").await;
    let client = other.client;
    let again = tokio::spawn(async move { keyed(&client, "k", job("a")).await });
    // Whether it has come by then or not.
    gate.open();
    let (first, again) = (call.await.unwrap(), again.await.unwrap());
    assert_eq!((first.status.as_u16(), again.status.as_u16(), is_replay(&again)), (201, 201, true));
    two.is_one(&first);
    assert_eq!(first.job_id(), again.job_id());
}

#[tokio::test]
async fn a_key_is_claimed_for_as_long_as_its_call_takes_also_where_keys_are_soon_forgotten() {
    let (two, _hub) = Two::before(HubStage::new(""), "refuse, ttl: 1s", "limits: { call_timeout: 2s }").await;
    let (one, other) = (two.run("one").await, two.run("other").await);
    let (gate, call) = held(&two, &one, "k").await;
    // It waits for longer than the key is remembered.
    let again = keyed(&other.client, "k", job("a")).await;
    again.check_error(500, "backend_error", "outcome_unknown");
    assert_eq!(two.enqueues(), 1, "nothing is sent meanwhile");
    gate.open();
    call.await.unwrap();
}

#[tokio::test]
async fn a_call_that_came_by_another_sidecar_is_claimed_there_only() {
    let (two, _hub) = Two::with("refuse").await;
    let one = two.run("one").await;
    let forwarded = Request::post("/ojs/v1/jobs").header("idempotency-key", "k").header("ojs-federation-hops", "1");
    assert_eq!(one.client.send(forwarded, job("a")).await.status, 201);
    assert_eq!(counted(&one, "claimed").await, 0.0);
}

/// Two hubs on one database with these servers.
fn on(hubs: HubStage, servers: &[&Postgres]) -> HubStage {
    let record = Postgres::section(servers, &hubs.path(""), &hubs.path("hub.ca.pem"));
    hubs.on_record(record)
}

#[tokio::test]
async fn a_key_is_known_at_every_hub_of_a_database() {
    let hubs = HubStage::new("");
    let Some(server) = Postgres::start(&hubs.authority).await else { return };
    let hubs = on(hubs, &[&server]);
    let _second = hubs.again(1).await;
    let (two, _hub) = Two::before(hubs, "refuse", "limits: { call_timeout: 5s }").await;
    is_known_to_both(&two).await;
}

#[tokio::test]
async fn keys_end_by_the_clock_of_the_database_whatever_those_of_the_hubs_say() {
    let hubs = HubStage::new("");
    let Some(server) = Postgres::start(&hubs.authority).await else { return };
    // Statements find this clock before the one of the server.
    let is_set_back = |by: &str| {
        server.query(&format!(
            "CREATE OR REPLACE FUNCTION behind.clock_timestamp() RETURNS timestamptz LANGUAGE sql
             AS 'SELECT pg_catalog.clock_timestamp() - interval ''{by}'''"
        ));
    };
    server.query("CREATE SCHEMA behind");
    server.query("ALTER ROLE hub SET search_path = behind, pg_catalog, public");
    is_set_back("3 days");
    let record = Postgres::section(&[&server], &hubs.path(""), &hubs.path("hub.ca.pem"));
    let (two, _hub) = Two::before(hubs.with_record(record), "refuse", "limits: { call_timeout: 5s }").await;
    let (one, other) = (two.run("one").await, two.run("other").await);
    let first = keyed(&one.client, "k", job("a")).await;
    let again = keyed(&other.client, "k", job("a")).await;
    assert_eq!((again.job_id(), is_replay(&again)), (first.job_id(), true), "{again:?}");
    is_set_back("1 day");
    let later = keyed(&other.client, "k", job("a")).await;
    assert_eq!((later.status.as_u16(), is_replay(&later)), (201, false), "a key lasts for a day: {later:?}");
}

#[tokio::test]
async fn calls_with_one_key_through_two_hubs_of_a_database_are_one_job() {
    let hubs = HubStage::new("");
    let Some(server) = Postgres::start(&hubs.authority).await else { return };
    let hubs = on(hubs, &[&server]);
    let _second = hubs.again(1).await;
    let (two, _hub) = Two::before(hubs, "refuse", "limits: { call_timeout: 5s }").await;
    is_one_job_of_a_crowd(&two).await;
}

#[tokio::test]
async fn a_sidecar_that_is_killed_within_a_call_leaves_its_key_claimed_in_a_database() {
    let hubs = HubStage::new("");
    let Some(server) = Postgres::start(&hubs.authority).await else { return };
    let record = Postgres::section(&[&server], &hubs.path(""), &hubs.path("hub.ca.pem"));
    outlives_a_sidecar(hubs.with_record(record)).await;
}

#[tokio::test]
async fn a_job_with_an_own_id_that_was_refused_without_its_key_claims_the_key_when_it_comes_with_one() {
    let (two, _hub) = Two::with("refuse").await;
    let (one, other) = (two.run("one").await, two.run("other").await);
    let id = "019539a4-b68c-7def-8000-1a2b3c4d5e6f";
    let body = serde_json::json!({ "type": "email.send", "args": ["a"], "id": id }).to_string();
    let faults = |change: &dyn Fn(&ojs_testbed::Faults)| two.stage.regions.iter().for_each(|it| change(it.faults()));
    // Nothing was stored, and the journal keeps that for a while.
    faults(&|it| it.add(When::enqueue(), Fault::CutAfterRequest { store: false }));
    let lost = one.client.enqueue(body.clone()).await;
    assert_ne!(lost.status, 201, "{lost:?}");
    faults(&ojs_testbed::Faults::clear);
    let mut first = None;
    eventually("the job is stored under its key", async || {
        let answer = keyed(&one.client, "k", body.clone()).await;
        first = (answer.status == 201).then_some(answer);
        first.is_some()
    })
    .await;
    let again = keyed(&other.client, "k", body).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true), "{again:?}");
    two.is_one(&first.unwrap());
}
