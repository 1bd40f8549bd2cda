//! A client repeats its own tracking id: the job is refused in every region whose index knows it, and sent where no index can say so.

use http::{Method, Request};
use serde_json::{Value, json};

use super::INFO;
use super::index::{Two, hub_of, recorded, reporting};
use super::stage::HubStage;
use crate::support::{Answer, Client, Process, Scrape, Setup, Stage, eventually};

const TRACKED: &str = "01912e4a-7b3c-7def-8a12-abcdef123456";
const REFUSES: &str = "report_jobs: true, repeated_ids: refuse,";

/// A job with the client's own tracking id, and more in its meta.
fn tracked(more: Value) -> Value {
    let mut meta = json!({ "ojs.federation.federation_id": TRACKED });
    meta.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    json!({ "type": "t", "args": [], "meta": meta })
}

async fn enqueue(sidecar: &Process, job: &Value) -> Answer {
    sidecar.client.enqueue(job.to_string()).await
}

/// The jobs that all regions have got.
fn sent(federation: &Stage) -> usize {
    let posts = |all: Vec<ojs_testbed::Recorded>| all.iter().filter(|it| it.method == Method::POST).count();
    federation.regions.iter().map(|it| posts(it.record().requests_to("/ojs/v1/jobs"))).sum()
}

/// How often it is tried whether the hub answers in time: on a busy machine it may answer later than an enqueue waits for it.
const TRIES: usize = 3;

/// The jobs that are there with the tracking id.
struct Known {
    region: &'static str,
    ids: Vec<String>,
}

impl Known {
    /// The answers of a call, which sends an enqueue, end with a refusal that names one of these jobs.
    async fn refuse(&mut self, call: impl AsyncFn() -> Answer) {
        for _ in 1..TRIES {
            let answer = call().await;
            if answer.status != 201 {
                return self.check(&answer);
            }
            self.ids.push(answer.job_id());
        }
        self.check(&call().await);
    }

    fn check(&self, answer: &Answer) {
        let error = answer.check_error(409, "duplicate", "federation_id_repeated");
        let details = &error["details"];
        assert_eq!(details["region"], self.region, "{error}");
        assert!(self.ids.iter().any(|id| details["existing_job_id"] == **id), "{:?}: {error}", self.ids);
        assert_eq!((&error["retryable"], answer.header("retry-after")), (&json!(false), None), "{error}");
    }
}

/// The job that this answer shows, once the index has it.
async fn known(stage: &HubStage, answer: &Answer, region: &'static str) -> Known {
    assert_eq!((answer.status.as_u16(), answer.region()), (201, region), "{answer:?}");
    recorded(stage, &answer.job_id(), "available").await;
    Known { region, ids: vec![answer.job_id()] }
}

/// The enqueues by the answer of the index: new, refused, without an answer.
async fn counts(admin: &Client) -> [f64; 3] {
    let scrape = Scrape::of(admin).await;
    ["new", "refused", "no_answer"].map(|it| scrape.value(&format!(r#"hub_repeated_ids_total{{result="{it}"}}"#)))
}

/// A sidecar that refuses repeated ids, and its federation.
async fn refusing(stage: &HubStage, more: &str) -> (Stage, Process) {
    let section = stage.section("one").replace("hub: {", &format!("hub: {{ {REFUSES}"));
    let federation = Setup::default().yaml(&section).yaml(more).stage().await;
    let sidecar = Process::run(&federation.config, &INFO).await;
    stage.follows("one").await;
    (federation, sidecar)
}

/// A sidecar in eu-west-1, with the hub there, of the regions that the sidecar in us-east-1 has.
async fn in_the_same_federation(two: &Two) -> Process {
    let dir = |stage: &HubStage| stage.path("").display().to_string();
    let yaml = std::fs::read_to_string(&two.federations[0].config).unwrap();
    let yaml = yaml.replace(&two.us.url_of(0), &two.eu.url_of(0)).replace(&dir(&two.us), &dir(&two.eu));
    let config = two.federations[0].config.with_file_name("eu-west-1.yaml");
    std::fs::write(&config, yaml).unwrap();
    let own = ["local_region=eu-west-1", "hub.name=three"].map(|it| ["--set", it]);
    let sidecar = Process::run(&config, &[&INFO[..], own.as_flattened()].concat()).await;
    two.eu.follows("three").await;
    sidecar
}

#[tokio::test]
async fn a_repeated_tracking_id_is_refused_in_every_region_that_has_the_index() {
    let mut two = Two::start_with(hub_of("us-east-1", "eu-west-1"), "topology: active-active").await;
    two.in_eu = in_the_same_federation(&two).await;
    let pinned = tracked(json!({ "ojs.federation.region": "us-east-1" }));
    let made = enqueue(&two.in_us, &pinned).await;
    let mut known = known(&two.us, &made, "us-east-1").await;
    recorded(&two.eu, &made.job_id(), "available").await;
    let before: usize = two.federations.iter().map(sent).sum();
    for sidecar in [&two.in_eu, &two.in_us, &two.in_eu] {
        known.refuse(async || enqueue(sidecar, &pinned).await).await;
    }
    let after: usize = two.federations.iter().map(sent).sum();
    assert_eq!(after - before, known.ids.len() - 1, "a refused job is not sent");
    // Other jobs, with an id that is minted or another one, are those of before.
    let other = json!({ "type": "t", "args": [], "meta": { "ojs.federation.federation_id": "another" } });
    for job in [json!({ "type": "t", "args": [] }), other] {
        assert_eq!(enqueue(&two.in_eu, &job).await.status, 201);
    }
    // A job that was cancelled may be enqueued anew, in the other region.
    for id in &known.ids {
        let _ = two.in_us.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await;
        let _ = two.in_eu.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await;
        recorded(&two.us, id, "cancelled").await;
        recorded(&two.eu, id, "cancelled").await;
    }
    let again = enqueue(&two.in_eu, &tracked(json!({ "ojs.federation.region": "eu-west-1" }))).await;
    assert_eq!(again.status, 201, "{again:?}");
}

#[tokio::test]
async fn a_hub_that_is_away_or_silent_holds_no_job_up_and_without_the_setting_none_is_asked() {
    let stage = hub_of("us-east-1", "eu-west-1");
    let mut hub = stage.run().await;
    let (_federation, sidecar) = refusing(&stage, "").await;
    let job = tracked(json!({}));
    let mut known = known(&stage, &enqueue(&sidecar, &job).await, "us-east-1").await;
    known.refuse(async || enqueue(&sidecar, &job).await).await;
    let admin = &sidecar.admin;
    let [new, refused, unanswered] = counts(admin).await;
    assert_eq!((new + unanswered, refused), (known.ids.len() as f64, 1.0));
    hub.pause(true);
    let silent = enqueue(&sidecar, &job).await;
    hub.pause(false);
    assert_eq!((silent.status.as_u16(), counts(admin).await), (201, [new, 1.0, unanswered + 1.0]), "{silent:?}");
    hub.kill();
    eventually("the hub is lost", async || Scrape::of(admin).await.value("hub_connected") < 1.0).await;
    let away = enqueue(&sidecar, &job).await;
    assert_eq!((away.status.as_u16(), counts(admin).await), (201, [new, 1.0, unanswered + 2.0]), "{away:?}");
    let _hub = stage.again(0).await;
    let (_plain, passing) = reporting(&stage, "two", "us-east-1", "").await;
    recorded(&stage, &away.job_id(), "available").await;
    let passed = enqueue(&passing, &job).await;
    assert_eq!((passed.status.as_u16(), counts(&passing.admin).await), (201, [0.0; 3]), "{passed:?}");
}

#[tokio::test]
async fn a_tracking_id_is_that_of_its_tenant_and_a_replica_is_no_repetition() {
    let stage = hub_of("us-east-1", "eu-west-1");
    let _hub = stage.run().await;
    let (_federation, sidecar) = refusing(&stage, "").await;
    let job = tracked(json!({ "tenant_id": "acme" }));
    let mut known = known(&stage, &enqueue(&sidecar, &job).await, "us-east-1").await;
    let by_head = async |tenant: &str| {
        let request = Request::post("/ojs/v1/jobs").header("x-ojs-tenant", tenant);
        let request = request.header("content-type", "application/json");
        sidecar.client.send(request, tracked(json!({})).to_string()).await
    };
    known.refuse(async || by_head("acme").await).await;
    assert_eq!(by_head("other").await.status, 201);
    let replica = tracked(json!({ "tenant_id": "acme", "ojs.federation.replicated_from": "ap-south-1" }));
    assert_eq!(enqueue(&sidecar, &replica).await.status, 201);
}

#[tokio::test]
async fn a_refused_enqueue_leaves_nothing_of_its_id_or_key_and_an_answered_one_is_replayed() {
    let stage = hub_of("us-east-1", "eu-west-1");
    let _hub = stage.run().await;
    let (federation, sidecar) = refusing(&stage, "idempotency: { scope: hub, on_hub_loss: refuse }").await;
    let keyed = async |key: &str, job: &Value| {
        let request = Request::post("/ojs/v1/jobs").header("idempotency-key", key);
        sidecar.client.send(request.header("content-type", "application/json"), job.to_string()).await
    };
    let job = tracked(json!({}));
    let made = keyed("first", &job).await;
    let mut known = known(&stage, &made, "us-east-1").await;
    // The record of the key is asked before the index.
    let replayed = keyed("first", &job).await;
    assert_eq!((replayed.status.as_u16(), replayed.job_id()), (201, made.job_id()), "{replayed:?}");
    assert_eq!(replayed.header("ojs-federation-replayed"), Some("true"));
    let tries = std::cell::Cell::new(0);
    let own = || {
        tries.set(tries.get() + 1);
        let mut own = job.clone();
        own["id"] = json!(format!("01912e4a-0000-7def-8a12-{:012}", tries.get()));
        own
    };
    known.refuse(async || keyed(&format!("key-{}", tries.get() + 1), &own()).await).await;
    let last = tries.get();
    known.refuse(async || enqueue(&sidecar, &own()).await).await;
    let outcomes = sidecar.client.get("/v1/federation/outcomes").await.json();
    assert_eq!(outcomes["outcomes"], json!([]), "{outcomes}");
    // The key of the refused call is free for another job.
    assert_eq!(keyed(&format!("key-{last}"), &json!({ "type": "other", "args": [] })).await.status, 201);
    assert_eq!(sent(&federation), known.ids.len() + 1);
}

#[tokio::test]
async fn a_job_that_may_not_be_read_here_is_refused_without_its_name() {
    let stage = hub_of("us-east-1", "eu-west-1");
    let _hub = stage.run().await;
    let (federation, sidecar) = refusing(&stage, "").await;
    let pinned = tracked(json!({ "ojs.federation.region": "eu-west-1" }));
    let mut known = known(&stage, &enqueue(&sidecar, &pinned).await, "eu-west-1").await;
    // By default the whole job may be read, and so its name.
    known.refuse(async || enqueue(&sidecar, &pinned).await).await;
    let run = async |name: &str, mode: &str| {
        let set = [format!("residency.read={mode}"), format!("hub.name={name}")];
        let other =
            Process::run(&federation.config, &[&INFO[..], &["--set", &set[0], "--set", &set[1]]].concat()).await;
        stage.follows(name).await;
        other
    };
    let redacting = run("two", "redact").await;
    known.refuse(async || enqueue(&redacting, &pinned).await).await;
    let denying = run("three", "deny").await;
    let mut refused = enqueue(&denying, &pinned).await;
    for _ in 1..TRIES {
        if refused.status == 201 {
            known.ids.push(refused.job_id());
            refused = enqueue(&denying, &pinned).await;
        }
    }
    refused.check_error(409, "duplicate", "federation_id_repeated");
    assert_eq!(refused.header("ojs-federation-region"), Some("none"));
    let all = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(!all.contains("eu-west-1") && !known.ids.iter().any(|id| all.contains(id)), "{all}");
}

#[tokio::test]
async fn a_job_that_its_region_does_not_have_any_more_may_be_enqueued_again() {
    let stage = hub_of("us-east-1", "eu-west-1");
    let _hub = stage.run().await;
    let (federation, sidecar) = refusing(&stage, "").await;
    let job = tracked(json!({}));
    let mut known = known(&stage, &enqueue(&sidecar, &job).await, "us-east-1").await;
    known.refuse(async || enqueue(&sidecar, &job).await).await;
    // The index does not hear of what passes a sidecar that does not report.
    let silent = ["hub.report_jobs=false", "hub.repeated_ids=pass", "hub.name=silent"].map(|it| ["--set", it]);
    let other = Process::run(&federation.config, &[&INFO[..], silent.as_flattened()].concat()).await;
    for id in &known.ids {
        let cancelled = other.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await;
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
    }
    let again = enqueue(&sidecar, &job).await;
    assert_eq!(again.status, 201, "{again:?}");
}
