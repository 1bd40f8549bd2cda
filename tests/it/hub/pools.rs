//! Pools of workers over the fleet: all sidecars together never hold more jobs than the hub permits, whichever of them are killed. Judged by the active jobs
//! in the region. `POOLS_SIDECARS`, `POOLS_TOTAL`, `POOLS_FAULTS` and `POOLS_SEED` make the history another or a longer one.

use std::time::Duration;

use ojs_testbed::{DemoRegion, JobState};
use serde_json::Value;
use tokio::task::JoinSet;

use super::history::{Draw, number};
use super::postgres::Postgres;
use super::stage::{Hub, HubStage};
use crate::support::{Answer, Client, Process, Stage, eventually};

const FETCH: &str = "/ojs/v1/workers/fetch";
const ACK: &str = "/ojs/v1/workers/ack";
const BEAT: &str = "/ojs/v1/workers/heartbeat";
const QUEUE: &str = "payments";
/// Workers of each sidecar, and the jobs that it holds at most.
const WORKERS: usize = 4;
/// The longest lease that the pool permits, and that of a FETCH; in the history they end sooner. Units: milliseconds.
const LEASE_MS: u64 = 10_000;
const SHORT_LEASE_MS: u64 = 3_000;
/// Jobs that wait in the region while the history goes on.
const WAITING: usize = 60;

fn total(places: u64) -> String {
    format!("pools: [{{ name: pay, concurrency: {places}, ttl: 5s }}]")
}

/// A federation whose sidecars have the pool.
async fn federation(stage: &HubStage, lease_ms: u64, more: &str) -> Stage {
    let of_fleet = format!("concurrency: {WORKERS}, concurrency_of: fleet, longest_lease: {lease_ms}ms, {more}");
    let pools = format!("scheduling: {{ pool: pay, pools: [{{ name: pay, queues: [{QUEUE}], {of_fleet} }}] }}");
    stage.federation("one", &pools).await
}

/// A sidecar with a name and a journal of its own.
async fn sidecar(federation: &Stage, name: &str) -> Process {
    let journal = format!("journal.path={}", federation.files.path().join(format!("journal-{name}")).display());
    let name = format!("hub.name={name}");
    Process::run(&federation.config, &["--set", "log.level=info", "--set", &name, "--set", &journal]).await
}

fn asked(count: usize, lease_ms: u64) -> String {
    format!(r#"{{"queues":["{QUEUE}"],"count":{count},"worker_id":"w","visibility_timeout_ms":{lease_ms}}}"#)
}

fn ids(answer: &Answer) -> Vec<String> {
    let document = answer.json();
    let jobs = document["jobs"].as_array().into_iter().flatten();
    jobs.map(|job: &Value| job["id"].as_str().unwrap().to_owned()).collect()
}

async fn fetch(sidecar: &Process, count: usize) -> Vec<String> {
    let answer = sidecar.client.post(FETCH, asked(count, LEASE_MS)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    ids(&answer)
}

async fn ack(sidecar: &Process, id: &str) {
    let answer = sidecar.client.post(ACK, format!(r#"{{"job_id":"{id}","worker_id":"w"}}"#)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Fetches until so many jobs have come.
async fn fetch_all(sidecar: &Process, count: usize) -> Vec<String> {
    let mut came = Vec::new();
    eventually("the jobs come", async || {
        came.extend(fetch(sidecar, count - came.len()).await);
        came.len() == count
    })
    .await;
    came
}

/// The places that the hub has granted of the only pool, by sidecar.
async fn granted(stage: &HubStage, sidecar: &str) -> u64 {
    let shown = super::status(stage, "eve", &http::Method::GET, "/v1/hub/limits").await;
    let holders = shown.1["pools"][0]["holders"].as_array().cloned().unwrap_or_default();
    holders.iter().filter(|it| it["sidecar"] == sidecar).filter_map(|it| it["places"].as_u64()).sum()
}

#[tokio::test]
async fn a_busy_sidecar_gets_the_places_that_idle_ones_leave_and_those_of_a_killed_one_after_its_leases() {
    let stage = HubStage::new(&total(4));
    let _hub = stage.run().await;
    let federation = federation(&stage, LEASE_MS, "on_hub_loss: hold").await;
    let region = &federation.regions[0];
    let [one, two] = [sidecar(&federation, "one").await, sidecar(&federation, "two").await];
    // Workers at an empty queue.
    for _ in 0..3 {
        assert_eq!(fetch(&one, 1).await, [""; 0]);
    }
    region.fill(QUEUE, 20);
    let first = fetch_all(&two, 4).await;
    assert_eq!(fetch(&one, 4).await, [""; 0], "all places are taken");
    assert_eq!(region.jobs().count_in(JobState::Active), 4);
    for id in &first[..2] {
        ack(&two, id).await;
    }
    // The other one gets a place that is given back, one of them at least.
    let own = fetch_all(&one, 1).await;
    ack(&one, &own[0]).await;
    // kill -9: two jobs are left to their leases.
    drop(two);
    eventually("all places are the other one's", async || {
        for id in fetch(&one, 4).await {
            ack(&one, &id).await;
        }
        region.fill(QUEUE, 4);
        granted(&stage, "one").await == 4
    })
    .await;
    assert_eq!(fetch_all(&one, 4).await.len(), 4);
    assert_eq!(region.most_active(QUEUE), 4);
    let shown = stage.command("eve", &["fleet", "--limits"]).await;
    assert!(shown.stdout.contains("pay: ") && shown.stdout.contains(" of 4 places are granted"), "{}", shown.all());
}

#[tokio::test]
async fn leases_beyond_the_longest_are_refused_and_heartbeats_keep_a_place() {
    let stage = HubStage::new(&total(1));
    let _hub = stage.run().await;
    let federation = federation(&stage, LEASE_MS, "on_hub_loss: hold").await;
    federation.regions[0].fill(QUEUE, 9);
    let one = sidecar(&federation, "one").await;
    let long = one.client.post(FETCH, asked(1, LEASE_MS + 1)).await;
    assert_eq!(long.check_error(400, "invalid_request", "pool_lease")["details"]["field"], "visibility_timeout_ms");
    let unsaid = format!(r#"{{"queues":["{QUEUE}"],"worker_id":"w"}}"#);
    one.client.post(FETCH, unsaid).await.check_error(400, "invalid_request", "pool_lease");
    let odd = asked(1, LEASE_MS).replace("10000", "\"10000\"");
    one.client.post(FETCH, odd).await.check_error(400, "invalid_request", "pool_lease");
    assert_eq!(federation.regions[0].record().requests_to(FETCH).len(), 0);
    let id = fetch_all(&one, 1).await.remove(0);
    let beat = |more: &str| format!(r#"{{"worker_id":"w","active_jobs":["{id}"]{more}}}"#);
    let long = one.client.post(BEAT, beat(r#","visibility_timeout_ms":60000"#)).await;
    long.check_error(400, "invalid_request", "pool_lease");
    assert_eq!(federation.regions[0].record().requests_to(BEAT).len(), 0);
    assert_eq!(one.client.post(BEAT, beat("")).await.status, 200);
    assert_eq!(fetch(&one, 1).await, [""; 0]);
    ack(&one, &id).await;
    assert_eq!(fetch_all(&one, 1).await.len(), 1);
    assert_eq!(federation.regions[0].most_active(QUEUE), 1);
}

#[tokio::test]
async fn without_the_hub_a_sidecar_does_as_its_pool_says() {
    let stage = HubStage::new(&total(4));
    let mut hub = stage.run().await;
    let federation = federation(&stage, LEASE_MS, "on_hub_loss: local, local_concurrency: 1").await;
    let region = &federation.regions[0];
    region.fill(QUEUE, 50);
    let local = sidecar(&federation, "one").await;
    let ids = fetch_all(&local, 4).await;
    for id in ids {
        ack(&local, &id).await;
    }
    hub.kill();
    local.wait_for_line("ojs.federation.hub_lost").await;
    eventually("the grant ends, and one place is left", async || {
        region.fill(QUEUE, 4);
        let came = fetch(&local, 4).await;
        for id in &came {
            ack(&local, id).await;
        }
        came.len() == 1
    })
    .await;
    let hold = self::federation(&stage, LEASE_MS, "on_hub_loss: hold").await;
    hold.regions[0].fill(QUEUE, 50);
    let without = sidecar(&hold, "two").await;
    assert_eq!(fetch(&without, 4).await, [""; 0], "no grant, no jobs");
    let _hub = stage.run().await;
    assert_eq!(fetch_all(&without, 2).await.len(), 2);
}

#[tokio::test]
async fn a_pool_that_the_hub_lacks_hands_out_nothing_and_says_so() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = federation(&stage, LEASE_MS, "on_hub_loss: hold").await;
    federation.regions[0].fill(QUEUE, 9);
    let one = sidecar(&federation, "one").await;
    one.wait_for_line("ojs.federation.hub_grants_refused").await;
    assert_eq!(fetch(&one, 1).await, [""; 0]);
    let notes = one.admin.get("/readyz").await.json()["notes"].to_string();
    assert!(notes.contains("the hub has no pool pay"), "{notes}");
}

/// A sidecar with its workers, which end with it.
struct Member {
    name: String,
    process: Option<Process>,
    workers: JoinSet<()>,
}

impl Member {
    async fn begin(federation: &Stage, name: String) -> Self {
        let mut member = Self { name, process: None, workers: JoinSet::new() };
        member.again(federation).await;
        member
    }

    async fn again(&mut self, federation: &Stage) {
        let process = sidecar(federation, &self.name).await;
        for number in 0..WORKERS {
            self.workers.spawn(work(process.client, number));
        }
        self.process = Some(process);
    }

    /// kill -9, of the sidecar and of its workers.
    async fn kill(&mut self) {
        self.workers.shutdown().await;
        self.process = None;
    }
}

/// Fetches a job, works on it for some time, and acknowledges it; one of the four keeps its jobs longer than a lease by heartbeats.
async fn work(client: Client, number: usize) {
    let mut draw = Draw(u64::from(client.address().port()) * 10 + number as u64);
    loop {
        let post = async |path: &str, body: String| {
            let answer = client.post(path, body).await;
            assert!(answer.status.is_success() || answer.status == 404 || answer.status == 409, "{path}: {answer:?}");
            answer
        };
        let came = ids(&post(FETCH, asked(1, SHORT_LEASE_MS)).await);
        let beats = if number == 0 && draw.below(20) == 0 { 4 } else { 0 };
        for id in &came {
            for _ in 0..beats {
                tokio::time::sleep(Duration::from_millis(SHORT_LEASE_MS / 3)).await;
                post(BEAT, format!(r#"{{"worker_id":"w","active_jobs":["{id}"]}}"#)).await;
            }
            tokio::time::sleep(Duration::from_millis(20 + draw.below(80) as u64)).await;
            post(ACK, format!(r#"{{"job_id":"{id}","worker_id":"w"}}"#)).await;
        }
        // A worker that got nothing asks again after a moment.
        if came.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn done(region: &DemoRegion) -> usize {
    region.jobs().count_in(JobState::Completed)
}

/// Keeps jobs waiting until so many more are done.
async fn go_on(region: &DemoRegion, jobs: usize) {
    let target = done(region) + jobs;
    crate::support::rises("jobs are done", target, async || {
        if region.jobs().count_in(JobState::Available) < WAITING {
            region.fill(QUEUE, WAITING);
        }
        done(region)
    })
    .await;
}

/// Sidecars and hubs are killed and run again while workers work; at the end every job is done once.
async fn hold_to_the_total(stage: HubStage, mut hubs: Vec<Option<Hub>>) {
    let (seed, faults) = (number("POOLS_SEED", 1), number("POOLS_FAULTS", 6));
    let (sidecars, total) = (number("POOLS_SIDECARS", 6), number("POOLS_TOTAL", 10) as usize);
    let federation = federation(&stage, SHORT_LEASE_MS, "on_hub_loss: hold").await;
    let (region, mut draw) = (&federation.regions[0], Draw(seed));
    region.fill(QUEUE, WAITING);
    let mut members = Vec::new();
    for number in 0..sidecars {
        members.push(Member::begin(&federation, format!("s{number}")).await);
    }
    eventually("the pool is used up", async || {
        if region.jobs().count_in(JobState::Available) < WAITING {
            region.fill(QUEUE, WAITING);
        }
        region.most_active(QUEUE) == total
    })
    .await;
    for fault in 0..faults {
        if fault % 3 == 2 {
            let place = draw.below(hubs.len());
            if let Some(hub) = &mut hubs[place] {
                hub.kill();
            }
            // Grants end in seconds: without another hub nothing need go on.
            if hubs.len() > 1 {
                go_on(region, 2 * total).await;
            }
            hubs[place] = Some(stage.again(place).await);
        } else {
            let place = draw.below(members.len());
            members[place].kill().await;
            // Now and then the others go on without it.
            if draw.below(2) == 0 {
                go_on(region, 2 * total).await;
            }
            members[place].again(&federation).await;
        }
        go_on(region, 4 * total).await;
        assert!(region.most_active(QUEUE) <= total, "{} jobs; seed {seed}", region.most_active(QUEUE));
    }
    let stored = region.jobs().iter().count();
    crate::support::rises("all jobs are done", stored, async || done(region)).await;
    let once = region.jobs().iter().filter(|job| job.acknowledged == 1).count();
    assert_eq!((once, region.most_active(QUEUE)), (stored, total), "seed {seed}");
    for member in &mut members {
        let ended = member.workers.try_join_next();
        assert!(ended.is_none(), "a worker had another answer: {ended:?}");
        member.kill().await;
    }
    // With all of them dead a new one has all places that it can hold, once their time is over.
    region.fill(QUEUE, WAITING);
    let last = sidecar(&federation, "last").await;
    eventually("a new sidecar has places", async || {
        last.client.post(FETCH, asked(1, SHORT_LEASE_MS)).await;
        granted(&stage, "last").await == WORKERS as u64
    })
    .await;
}

#[tokio::test]
async fn sidecars_never_hold_more_jobs_than_the_pool_through_kills_of_sidecars_and_hub() {
    let stage = HubStage::new(&total(number("POOLS_TOTAL", 10)));
    let hubs = vec![Some(stage.run().await)];
    hold_to_the_total(stage, hubs).await;
}

#[tokio::test]
async fn hubs_on_one_database_grant_places_of_one_pool() {
    let stage = HubStage::new(&total(number("POOLS_TOTAL", 10)));
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    let stage = stage.on_record(record);
    let hubs = vec![Some(stage.again(0).await), Some(stage.again(1).await)];
    hold_to_the_total(stage, hubs).await;
}
