//! One tracking id in two regions: the last writer runs, and the other copy is cancelled in its region or reported.

mod clocks;

use std::path::PathBuf;

use http::Method;
use ojs_testbed::{Fault, Gate, When};
use serde_json::{Value, json};

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, status};
use super::views::regions;
use crate::support::{Process, Setup, Stage, eventually};

const US: &str = "us-east-1";
const EU: &str = "eu-west-1";
const TRACKED: &str = "01912e4a-7b3c-7def-8a12-abcdef123456";
const US_PLACE: usize = 0;
const EU_PLACE: usize = 1;

/// Two regions, each with a hub that pulls from the other and a sidecar that reports to it.
struct World {
    us: HubStage,
    eu: HubStage,
    of_us: Hub,
    of_eu: Hub,
    in_us: Process,
    in_eu: Process,
    federation: Stage,
}

/// The settings of the hub of a region which pulls from that of another one.
fn settings(region: &str, other: &HubStage, reader: &str, conflicts: &str, regions: &str) -> String {
    let file = |name: &str| other.path(name);
    let (ca, cert, key) = (file("hub.ca.pem"), file("peer.cert.pem"), file("peer.key.pem"));
    format!(
        "  - {{ san: \"spiffe://test/hub\", role: hub, region: {reader} }}
index:
  region: {region}
  conflicts: {conflicts}
  conflicts_after: 5s
  from: [{{ region: {reader}, urls: [{:?}], tls: {{ ca: {ca:?}, cert: {cert:?}, key: {key:?} }} }}]
{regions}",
        other.url()
    )
}

/// The configuration of a sidecar in the second region.
fn second_config(federation: &Stage, own: &str, section: &str) -> PathBuf {
    let path = federation.files.path().join("eu.yaml");
    let text = std::fs::read_to_string(&federation.config).unwrap().replace(own, section);
    std::fs::write(&path, text.replace("local_region: us-east-1", "local_region: eu-west-1")).unwrap();
    path
}

impl World {
    async fn start(conflicts: &str) -> Self {
        Self::start_with(HubStage::new(""), conflicts).await
    }

    async fn start_with(mut us: HubStage, conflicts: &str) -> Self {
        let mut eu = HubStage::new("");
        for hub in [&mut us, &mut eu] {
            hub.client("peer", "spiffe://test/hub");
            hub.run().await.kill();
        }
        let section = |stage: &HubStage, name: &str| stage.section(name).replace("hub: {", "hub: { report_jobs: true,");
        let own = section(&us, "one");
        let federation = Setup::default().regions(2).yaml(&own).stage().await;
        let config_of_eu = second_config(&federation, &own, &section(&eu, "two"));
        let regions = regions(&federation, |_| None);
        us.set_more(&settings(US, &eu, EU, conflicts, &regions));
        eu.set_more(&settings(EU, &us, US, conflicts, &regions));
        let (of_us, of_eu) = (us.again(0).await, eu.again(0).await);
        let (in_us, in_eu) = (Process::run(&federation.config, &INFO).await, Process::run(&config_of_eu, &INFO).await);
        us.follows("one").await;
        eu.follows("two").await;
        Self { us, eu, of_us, of_eu, in_us, in_eu, federation }
    }

    /// Enqueues a job in each of the two regions, the one in the EU later. `ids`: of the jobs.
    async fn enqueue_both(&self, ids: [&str; 2], meta: Value) {
        enqueued(&self.in_us, ids[0], US, meta.clone()).await;
        let made = self.federation.regions[US_PLACE].jobs().job(ids[0]).unwrap().created_ms;
        eventually("the clock goes on", async || unix_ms() > made).await;
        enqueued(&self.in_eu, ids[1], EU, meta).await;
    }

    /// The copy of a job in the first region, as its hub shows it, once there is this result.
    async fn result(&self, id: &str, result: &str) -> Value {
        let mut copy = Value::Null;
        eventually(&format!("the result is {result}"), async || {
            copy = shown(&self.us, US, id).await;
            copy["conflict"]["result"] == result
        })
        .await;
        copy
    }

    /// The number of orders to cancel a job that have come to a region.
    fn cancels(&self, place: usize) -> usize {
        let requests = self.federation.regions[place].record().requests();
        requests.iter().filter(|it| it.method == Method::DELETE).count()
    }

    fn state(&self, place: usize, id: &str) -> String {
        format!("{:?}", self.federation.regions[place].jobs().job(id).unwrap().state).to_lowercase()
    }
}

fn unix_ms() -> u64 {
    ojs_sidecar::base::Clock::system().unix_ms()
}

fn id(number: u32) -> String {
    format!("00000000-0000-7000-8000-{number:012}")
}

fn tracked() -> Value {
    json!({ "ojs.federation.federation_id": TRACKED })
}

/// The copy of a job in a region, as the hub of `stage` shows it.
async fn shown(stage: &HubStage, region: &str, id: &str) -> Value {
    let (_, record) = status(stage, "eve", &Method::GET, &format!("/v1/federation/jobs/{TRACKED}")).await;
    let copies = record["copies"].as_array().cloned().unwrap_or_default();
    copies.into_iter().find(|it| it["region"] == region && it["job_id"] == id).unwrap_or_default()
}

async fn enqueued(sidecar: &Process, id: &str, region: &str, meta: Value) {
    let job = json!({ "id": id, "type": "t", "args": [], "options": { "queue": "q" }, "meta": meta });
    let answer = sidecar.client.enqueue(job.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, region), "{answer:?}");
}

async fn fetched(sidecar: &Process) -> Value {
    let body = json!({ "queues": ["q"], "worker_id": "w" }).to_string();
    sidecar.client.post("/ojs/v1/workers/fetch", body).await.json()["jobs"][0]["id"].clone()
}

async fn figure(hub: &Hub, line: &str) -> Option<String> {
    let metrics = hub.admin.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    text.lines().find_map(|it| Some(it.strip_prefix(line)?.trim().to_owned()))
}

/// Waits until a hub has counted one result of this kind: its row comes before.
async fn counts_one(hub: &Hub, result: &str) {
    let line = format!("ojs_hub_conflicts_total{{result=\"{result}\"}}");
    eventually("the result is counted", async || figure(hub, &line).await.as_deref() == Some("1")).await;
}

/// The regions are cut off from each other while two clients enqueue; afterwards the later job is the only one that runs.
async fn the_later_one_runs(mut world: World) {
    let (first, second) = (id(1), id(2));
    world.of_eu.kill();
    world.enqueue_both([&first, &second], tracked()).await;
    world.of_eu = world.eu.again(0).await;
    let copy = world.result(&first, "cancelled").await;
    assert_eq!(copy["conflict"]["winner"], json!({ "region": EU, "job_id": second }), "{copy}");
    assert_eq!((&copy["counts"], &copy["winner"]), (&json!(false), &json!(false)));
    assert_eq!(
        (world.state(US_PLACE, &first), world.state(EU_PLACE, &second)),
        ("cancelled".to_owned(), "available".to_owned())
    );
    assert_eq!((fetched(&world.in_us).await, fetched(&world.in_eu).await), (Value::Null, json!(second)));
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (1, 0));
    eventually("the other hub knows it", async || {
        let copy = shown(&world.eu, US, &first).await;
        copy["state"] == "cancelled" && copy["counts"] == false
    })
    .await;
    let winner = shown(&world.eu, EU, &second).await;
    assert_eq!((&winner["counts"], &winner["winner"]), (&json!(true), &json!(true)), "{winner}");
    counts_one(&world.of_us, "cancelled").await;
    for hub in [&world.of_us, &world.of_eu] {
        eventually("each hub counts the tracking id", async || {
            figure(hub, "ojs_hub_tracking_ids_repeated_total").await.as_deref() == Some("1")
        })
        .await;
        eventually("each hub logs it", async || hub.log_has(&["hub_job_repeated"])).await;
    }
    let words = ["hub_conflict", &first, "cancelled", &second];
    eventually("the result is logged", async || world.of_us.log_has(&words)).await;
    let trail = world.us.command("ann", &["audit", "export"]).await;
    assert!(
        trail.stdout.contains("\"action\":\"copies_cancelled\"") && trail.stdout.contains(&first),
        "{}",
        trail.all()
    );
}

#[tokio::test]
async fn of_one_tracking_id_in_two_regions_the_later_job_is_the_only_one_that_runs() {
    the_later_one_runs(World::start("cancel").await).await;
}

#[tokio::test]
async fn of_one_tracking_id_the_later_job_is_the_only_one_that_runs_by_postgresql_too() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    the_later_one_runs(World::start_with(stage.with_record(record), "cancel").await).await;
}

#[tokio::test]
async fn a_copy_that_a_worker_has_is_doubled_and_not_cancelled() {
    let world = World::start("cancel").await;
    let (first, second) = (id(1), id(2));
    enqueued(&world.in_us, &first, US, tracked()).await;
    assert_eq!(fetched(&world.in_us).await, json!(first));
    enqueued(&world.in_eu, &second, EU, tracked()).await;
    let copy = world.result(&first, "doubled").await;
    assert_eq!(copy["conflict"]["winner"]["job_id"], json!(second), "{copy}");
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (0, 0));
    assert_eq!(world.state(US_PLACE, &first), "active");
}

#[tokio::test]
async fn a_worker_that_the_index_does_not_know_is_found_before_a_copy_is_cancelled() {
    let world = World::start("cancel").await;
    let (first, second) = (id(1), id(2));
    enqueued(&world.in_us, &first, US, tracked()).await;
    // A worker without a sidecar: no fact says that it has the job.
    let other = Setup::default().stage().await;
    let text = std::fs::read_to_string(&world.federation.config).unwrap();
    let path = other.files.path().join("silent.yaml");
    std::fs::write(&path, text.replace("report_jobs: true", "report_jobs: false").replace("name: one", "name: silent"))
        .unwrap();
    let silent = Process::run(&path, &INFO).await;
    assert_eq!(fetched(&silent).await, json!(first));
    enqueued(&world.in_eu, &second, EU, tracked()).await;
    let copy = world.result(&first, "doubled").await;
    assert_eq!(copy["state"], "available", "as far as the index knows: {copy}");
    assert_eq!(world.cancels(US_PLACE), 0);
}

#[tokio::test]
async fn a_copy_with_the_job_id_of_the_winner_is_reported_and_not_cancelled() {
    let world = World::start("cancel").await;
    world.enqueue_both([&id(1), &id(1)], tracked()).await;
    let copy = world.result(&id(1), "reported").await;
    assert_eq!((&copy["conflict"]["why"], &copy["counts"]), (&json!("same_job"), &json!(false)), "{copy}");
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (0, 0));
}

#[tokio::test]
async fn a_copy_stays_where_the_later_one_was_cancelled_before_it_ran() {
    let mut world = World::start("cancel").await;
    let (first, second, other) = (id(1), id(2), id(3));
    world.of_us.kill();
    world.enqueue_both([&first, &second], tracked()).await;
    let ended = world.in_eu.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{second}"), "").await;
    assert_eq!(ended.status, 200, "{ended:?}");
    eventually("its hub knows it", async || shown(&world.eu, EU, &second).await["state"] == "cancelled").await;
    world.of_us = world.us.again(0).await;
    eventually("the first one counts", async || shown(&world.us, US, &first).await["counts"] == true).await;
    eventually("it is looked at and dropped", async || {
        let seen = figure(&world.of_us, "ojs_hub_tracking_ids_repeated_total").await.as_deref() == Some("1");
        seen && shown(&world.us, US, &first).await["conflict"].is_null()
    })
    .await;
    assert_eq!((world.cancels(US_PLACE), world.state(US_PLACE, &first)), (0, "available".to_owned()));
    // A later one than both replaces it after all.
    let made = world.federation.regions[US_PLACE].jobs().job(&first).unwrap().created_ms;
    eventually("the clock goes on", async || unix_ms() > made).await;
    enqueued(&world.in_eu, &other, EU, tracked()).await;
    world.result(&first, "cancelled").await;
    assert_eq!(world.cancels(US_PLACE), 1);
}

#[tokio::test]
async fn reports_cancel_nothing_and_pinned_copies_count_as_others_do() {
    let world = World::start("report").await;
    let pinned = |region: &str| json!({ "ojs.federation.federation_id": TRACKED, "ojs.federation.region": region });
    enqueued(&world.in_us, &id(1), US, pinned(US)).await;
    let made = world.federation.regions[US_PLACE].jobs().job(&id(1)).unwrap().created_ms;
    eventually("the clock goes on", async || unix_ms() > made).await;
    enqueued(&world.in_eu, &id(2), EU, pinned(EU)).await;
    let copy = world.result(&id(1), "reported").await;
    assert_eq!(copy["conflict"]["why"], "report_only", "{copy}");
    assert_eq!(shown(&world.us, EU, &id(2)).await["queue"], Value::Null, "the hub knows nothing else of the winner");
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (0, 0));
    counts_one(&world.of_us, "reported").await;
    eventually("it is logged", async || world.of_us.log_has(&["hub_conflict", &id(1), "report_only"])).await;
    assert_eq!(
        (world.state(US_PLACE, &id(1)), world.state(EU_PLACE, &id(2))),
        ("available".to_owned(), "available".to_owned())
    );
}

#[tokio::test]
async fn a_hub_that_is_killed_while_it_cancels_a_copy_does_so_once_in_the_end() {
    let mut world = World::start("cancel").await;
    let (first, second) = (id(1), id(2));
    let gate = Gate::new();
    let faults = world.federation.regions[US_PLACE].faults();
    faults.add(When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1), Fault::Hold { gate: gate.clone() });
    world.enqueue_both([&first, &second], tracked()).await;
    eventually("the order is held back", async || faults.struck() == 1).await;
    world.of_us.kill();
    assert_eq!(world.state(US_PLACE, &first), "available");
    world.of_us = world.us.again(0).await;
    world.result(&first, "cancelled").await;
    gate.open();
    assert_eq!(
        (world.state(US_PLACE, &first), world.state(EU_PLACE, &second)),
        ("cancelled".to_owned(), "available".to_owned())
    );
    counts_one(&world.of_us, "cancelled").await;
    assert_eq!((fetched(&world.in_us).await, fetched(&world.in_eu).await), (Value::Null, json!(second)));
}

#[tokio::test]
async fn an_order_whose_answer_was_lost_is_not_given_again() {
    let world = World::start("cancel").await;
    let faults = world.federation.regions[US_PLACE].faults();
    let lost = Fault::CutAfterRequest { store: true };
    faults.add(When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1), lost);
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    world.result(&id(1), "cancelled").await;
    assert_eq!((world.cancels(US_PLACE), faults.struck()), (1, 1));
}

/// A copy is known to be in conflict, and nothing is done about it although its time has come.
async fn is_left_open(world: &World, id: &str) {
    eventually("its time has come and gone", async || {
        let copy = shown(&world.us, US, id).await;
        assert_eq!((&copy["conflict"]["result"], world.cancels(US_PLACE)), (&json!("open"), 0), "{copy}");
        let known_ms = world.federation.regions[EU_PLACE].jobs().iter().map(|it| it.created_ms).max().unwrap();
        // Twice `conflicts_after`.
        unix_ms() > known_ms + 10_000
    })
    .await;
}

#[tokio::test]
async fn a_hub_whose_view_of_the_other_is_stale_cancels_nothing_until_it_is_heard_again() {
    let mut world = World::start("cancel").await;
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    world.result(&id(1), "open").await;
    world.of_eu.kill();
    is_left_open(&world, &id(1)).await;
    world.of_eu = world.eu.again(0).await;
    world.result(&id(1), "cancelled").await;
}

#[tokio::test]
async fn nothing_is_cancelled_in_a_region_that_is_isolated_as_a_promotion_does() {
    let world = World::start("cancel").await;
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    world.result(&id(1), "open").await;
    let done = world.eu.order("ann", &["drain", US, "--isolate", "--for", "1h"]).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
    is_left_open(&world, &id(1)).await;
    assert_eq!(world.eu.order("ann", &["undrain", US]).await.code, Some(0));
    world.result(&id(1), "cancelled").await;
}

/// A sidecar in the second region that reports no facts, as a client without one.
async fn silent_in_eu(world: &World) -> Process {
    let folder = world.federation.files.path();
    let text = std::fs::read_to_string(folder.join("eu.yaml")).unwrap();
    let path = folder.join("silent.yaml");
    std::fs::write(&path, text.replace("report_jobs: true", "report_jobs: false").replace("name: two", "name: silent"))
        .unwrap();
    Process::run(&path, &INFO).await
}

#[tokio::test]
async fn a_copy_stays_where_the_index_does_not_know_that_the_later_one_was_cancelled() {
    let mut world = World::start("cancel").await;
    let (first, second) = (id(1), id(2));
    let silent = silent_in_eu(&world).await;
    world.of_us.kill();
    world.enqueue_both([&first, &second], tracked()).await;
    let ended = silent.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{second}"), "").await;
    assert_eq!(ended.status, 200, "{ended:?}");
    assert_eq!(shown(&world.eu, EU, &second).await["state"], "available", "as far as the index knows");
    world.of_us = world.us.again(0).await;
    eventually("the first one counts after all", async || {
        let copy = shown(&world.us, US, &first).await;
        copy["counts"] == true && copy["conflict"].is_null()
    })
    .await;
    assert_eq!((world.cancels(US_PLACE), world.state(US_PLACE, &first)), (0, "available".to_owned()));
    assert_eq!(shown(&world.us, EU, &second).await["state"], "cancelled", "its hub has asked its region");
}

#[tokio::test]
async fn a_region_that_does_not_say_that_the_later_copy_lives_keeps_the_other_one() {
    let world = World::start("cancel").await;
    let faults = world.federation.regions[EU_PLACE].faults();
    faults.add(When::path("/ojs/v1/jobs/").method(Method::GET), Fault::CutBeforeBody);
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    world.result(&id(1), "open").await;
    is_left_open(&world, &id(1)).await;
    faults.clear();
    world.result(&id(1), "cancelled").await;
}

#[tokio::test]
async fn an_order_that_a_killed_hub_has_given_is_noted_also_where_copies_are_reported_from_then_on() {
    let mut world = World::start("cancel").await;
    let faults = world.federation.regions[US_PLACE].faults();
    let lost = Fault::CutAfterRequest { store: true };
    faults.add(When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1), lost);
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    eventually("the order is carried out", async || faults.struck() == 1).await;
    world.of_us.kill();
    world.us.set_more(&settings(US, &world.eu, EU, "report", &regions(&world.federation, |_| None)));
    world.of_us = world.us.again(0).await;
    world.result(&id(1), "cancelled").await;
    assert_eq!(world.cancels(US_PLACE), 1);
    let trail = world.us.command("ann", &["audit", "export"]).await;
    assert!(trail.stdout.contains("copies_cancelled") && trail.stdout.contains(&id(1)), "{}", trail.all());
}

/// A tracking id that very many jobs have is reported once, and others are found behind it.
async fn a_crowd_is_reported_once(world: World) {
    let jobs = 1_200;
    for batch in 0..jobs / 100 {
        let job = |number: u32| json!({ "id": id(1_000 + batch * 100 + number), "type": "t", "args": [], "options": { "queue": "q" }, "meta": tracked() });
        let body = json!({ "jobs": (0..100).map(job).collect::<Vec<_>>() });
        let answer = world.in_eu.client.post("/ojs/v1/jobs/batch", body.to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    enqueued(&world.in_us, &id(1), US, tracked()).await;
    let reported = "ojs_hub_conflicts_total{result=\"reported\"}";
    for hub in [&world.of_us, &world.of_eu] {
        eventually("each hub reports it", async || figure(hub, reported).await.as_deref() == Some("1")).await;
    }
    let copy = shown(&world.us, US, &id(1)).await;
    if copy["counts"] == false {
        assert_eq!((&copy["conflict"]["result"], &copy["conflict"]["why"]), (&json!("reported"), &json!("group")));
    }
    let other = json!({ "ojs.federation.federation_id": "another one" });
    world.enqueue_both([&id(2), &id(3)], other).await;
    eventually("the next one is found", async || figure(&world.of_us, reported).await.as_deref() == Some("2")).await;
    assert_eq!(figure(&world.of_us, "ojs_hub_tracking_ids_repeated_total").await.as_deref(), Some("2"));
    assert_eq!(figure(&world.of_eu, reported).await.as_deref(), Some("1"));
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (0, 0));
}

#[tokio::test]
async fn a_tracking_id_of_very_many_jobs_is_reported_once() {
    a_crowd_is_reported_once(World::start("report").await).await;
}

#[tokio::test]
async fn a_tracking_id_of_very_many_jobs_is_reported_once_by_postgresql_too() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    a_crowd_is_reported_once(World::start_with(stage.with_record(record), "report").await).await;
}

#[tokio::test]
async fn a_worker_that_goes_on_does_not_keep_a_copy_from_its_result() {
    let world = World::start("report").await;
    let (first, second) = (id(1), id(2));
    enqueued(&world.in_us, &first, US, tracked()).await;
    assert_eq!(fetched(&world.in_us).await, json!(first));
    enqueued(&world.in_eu, &second, EU, tracked()).await;
    let beat = json!({ "worker_id": "w", "active_jobs": [first] }).to_string();
    eventually("it is doubled", async || {
        world.in_us.client.post("/ojs/v1/workers/heartbeat", beat.clone()).await;
        shown(&world.us, US, &first).await["conflict"]["result"] == "doubled"
    })
    .await;
}
