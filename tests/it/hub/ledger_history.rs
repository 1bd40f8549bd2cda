//! A history of the ledger with faults, by a seed: two hubs on PostgreSQL with a standby are killed, paused and cut off, and lose their primary, while jobs
//! of fifty tenants go through the sidecars of three regions. After it the ledger has each step that a region has taken, once.
//! `LEDGER_HISTORY_SEED`, `LEDGER_HISTORY_JOBS` and `LEDGER_HISTORY_FAULTS` make it another or a longer one.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use http::Method;
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::INFO;
use super::history::{Database, Draw, Network, break_things, number, plan, say};
use super::postgres::Postgres;
use super::stage::HubStage;
use crate::support::{Client, Process, Setup, command};

const REGIONS: [&str; 3] = ["us-east-1", "eu-west-1", "ap-south-1"];
const TENANTS: usize = 50;
const CANARY: &str = "canary-of-the-arguments";
/// For the reports of a sidecar to reach a hub, after the longest fault.
const REPORTED_WAIT: Duration = Duration::from_secs(120);

/// The steps of a job, by the answers to its clients and workers, and its tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Life {
    tenant: String,
    steps: Vec<&'static str>,
}

type Lives = BTreeMap<String, Life>;

/// The client and the worker of one sidecar, one after the other.
async fn flow(sidecar: Client, place: usize, jobs: usize, seed: u64) -> Lives {
    let (mut draw, mut lives) = (Draw(seed * 31 + place as u64), Lives::new());
    // A queue of its own, so that each job is fetched where its steps are counted.
    let queue = format!("of-{}", REGIONS[place]);
    for number in 0..jobs {
        let tenant = format!("t{}", draw.below(TENANTS));
        let (is_cancelled, pin) = (draw.below(10) == 0, REGIONS[place]);
        let queue = if is_cancelled { "unread" } else { &queue };
        let meta = json!({ "tenant_id": tenant, "ojs.federation.region": pin });
        let job = json!({ "type": "t", "args": [CANARY], "options": { "queue": queue }, "meta": meta });
        let made = sidecar.enqueue(job.to_string()).await;
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.job_id();
        lives.insert(id.clone(), Life { tenant, steps: vec!["enqueued"] });
        if is_cancelled {
            let answer = sidecar.call(Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await;
            assert_eq!(answer.status, 200, "{answer:?}");
            lives.get_mut(&id).unwrap().steps.push("canceled");
        }
        if number % 4 == 3 {
            work(&sidecar, queue_of(place), &mut draw, &mut lives).await;
        }
    }
    lives
}

fn queue_of(place: usize) -> String {
    format!("of-{}", REGIONS[place])
}

async fn work(sidecar: &Client, queue: String, draw: &mut Draw, lives: &mut Lives) {
    let fetch = json!({ "queues": [queue], "worker_id": "w", "count": 4 }).to_string();
    let fetched = sidecar.post("/ojs/v1/workers/fetch", fetch).await.json();
    for job in fetched["jobs"].as_array().cloned().unwrap_or_default() {
        let id = job["id"].as_str().unwrap();
        let steps = &mut lives.get_mut(id).unwrap().steps;
        steps.push("leased");
        let word = draw.below(10);
        if word == 0 {
            let beat = json!({ "worker_id": "w", "active_jobs": [id] }).to_string();
            assert_eq!(sidecar.post("/ojs/v1/workers/heartbeat", beat).await.status, 200);
            steps.push("extended");
        }
        let (path, step) = match word {
            0..=7 => ("/ojs/v1/workers/ack", "succeeded"),
            8 => ("/ojs/v1/workers/nack", "retried"),
            // Its worker is slow.
            _ => continue,
        };
        let said = json!({ "job_id": id, "worker_id": "w", "error": { "code": "x", "message": "x" } });
        let answer = sidecar.post(path, said.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        // A region gives a job up that has failed too often.
        let shown = answer.json();
        let is_over = [&shown["state"], &shown["job"]["state"]].into_iter().any(|state| *state == "discarded");
        steps.push(if is_over { "dead_lettered" } else { step });
    }
}

/// The steps of each job in the order of their times, and the tenant, by the database of the ledger.
fn ledger(server: &Postgres) -> Lives {
    let rows = "SELECT h.job_id, h.line::json->>'event', j.tenant FROM ojs_hub_job_history h
        JOIN ojs_hub_ledger_job j ON (h.job_id, h.region) = (j.job_id, j.region)
        ORDER BY h.job_id, h.line::json->>'leaseId' NULLS FIRST, h.line::json->>'at', h.number";
    let mut lives = Lives::new();
    for row in server.query(rows).lines() {
        let [id, step, tenant] = row.split('|').collect::<Vec<_>>().try_into().unwrap();
        let known = ["enqueued", "leased", "extended", "succeeded", "retried", "dead_lettered", "canceled"];
        let step = known.into_iter().find(|it| *it == step).unwrap_or_else(|| panic!("{row}"));
        let life = lives.entry(id.to_owned()).or_default();
        tenant.clone_into(&mut life.tenant);
        life.steps.push(step);
    }
    lives
}

/// Waits until the ledger has all steps, and no other.
async fn equal(server: &Postgres, expected: &Lives) {
    let (begun, wanted) = (Instant::now(), expected.values().map(|it| it.steps.len()).sum::<usize>());
    loop {
        let count: usize = server.query("SELECT count(*) FROM ojs_hub_job_history").parse().unwrap();
        if count >= wanted || begun.elapsed() > REPORTED_WAIT {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let found = ledger(server);
    let sorted = |life: &Life| {
        let mut steps = life.steps.clone();
        steps.sort_unstable();
        (life.tenant.clone(), steps)
    };
    for (id, life) in expected {
        let of_ledger = found.get(id).unwrap_or_else(|| panic!("{id} is not in the ledger: {life:?}"));
        assert_eq!(sorted(of_ledger), sorted(life), "{id}: {of_ledger:?} {life:?}");
    }
    assert_eq!(found.len(), expected.len());
    say(&format!("the ledger has {wanted} steps of {} jobs after {:?}", expected.len(), begun.elapsed()));
}

/// Each region's own record of each of its jobs agrees with the ledger.
async fn check_regions(stage: &HubStage, sidecars: &[Process], lives: &Lives) {
    let step = (lives.len() / 100).max(1);
    for (id, life) in lives.iter().step_by(step) {
        let shown = sidecars[0].client.get(&format!("/ojs/v1/jobs/{id}")).await.json();
        let job = if shown["job"].is_object() { &shown["job"] } else { &shown };
        let (_, found) = super::ledger::get(stage, &format!("/api/jobs/{id}")).await;
        let copy = &found["copies"][0];
        // The time of a retry, or of a lease, may be over since the last step.
        let waits_again = job["state"] == "available" && life.steps.len() > 1;
        let status = match job["state"].as_str().unwrap() {
            "available" => "enqueued",
            "active" => "leased",
            "retryable" => "retrying",
            "completed" => "succeeded",
            "cancelled" => "canceled",
            "discarded" => "dead_lettered",
            other => panic!("{other}: {shown}"),
        };
        assert!(copy["status"] == status || waits_again, "{life:?} {found}\n{shown}");
        let leases = life.steps.iter().filter(|step| **step == "leased").count();
        assert_eq!(copy["attempts"], leases, "{found}");
    }
}

#[tokio::test]
async fn the_ledger_has_each_step_once_after_faults_of_hubs_and_their_database() {
    let (seed, jobs) = (number("LEDGER_HISTORY_SEED", 1), number("LEDGER_HISTORY_JOBS", 300));
    let faults = usize::try_from(number("LEDGER_HISTORY_FAULTS", 3)).unwrap();
    let mut stage = HubStage::new("");
    let Some(primary) = Postgres::start(&stage.authority).await else { return };
    let standby = primary.standby().await;
    let (private, public) = (stage.path("audit.key"), stage.path("audit.pub"));
    let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    fs::write(&private, pair.serialize_pem()).unwrap();
    fs::write(&public, pair.public_key_pem()).unwrap();
    stage.set_more(&format!(
        "index: {{ region: us-east-1 }}\nledger: {{}}\naudit: {{ key: {private:?}, log: hub.test }}"
    ));
    let section = Postgres::section(&[&primary, &standby], &stage.path(""), &stage.path("hub.ca.pem"));
    let mut stage = stage.on_record(section);
    let (network, mut hubs) = Network::between(&mut stage, [&primary, &standby]).await;
    let mut database = Database { primary, standby, is_lost: false };
    let record = usize::try_from(jobs).unwrap() * (16 << 10) + (64 << 20);
    let federation = Setup::default().demo(move |options| options.record_bytes_max = record).stage().await;
    let mut sidecars = Vec::new();
    for region in REGIONS {
        let section = stage.section(region).replace("hub: {", "hub: { report_jobs: true, ledger: metadata,");
        let overlay = stage.path(&format!("{region}.yaml"));
        fs::write(&overlay, format!("local_region: {region}\n{section}\n")).unwrap();
        let more = ["--config", overlay.to_str().unwrap()];
        sidecars.push(Process::run(&federation.config, &[&INFO[..], &more].concat()).await);
        stage.follows(region).await;
    }
    let each = usize::try_from(jobs).unwrap() / REGIONS.len();
    let load: Vec<_> = sidecars.iter().enumerate().map(|(place, it)| flow(it.client, place, each, seed)).collect();
    let load: Vec<_> = load.into_iter().map(tokio::spawn).collect();
    let mut draw = Draw(seed);
    break_things(&stage, &mut hubs, &mut database, &network, &plan(&mut draw, faults)).await;
    let mut lives = Lives::new();
    for task in load {
        lives.extend(task.await.unwrap());
    }
    let server = if database.is_lost { &database.standby } else { &database.primary };
    equal(server, &lives).await;
    check_regions(&stage, &sidecars, &lives).await;
    let rows = "SELECT count(*) FROM ojs_hub_job_history WHERE line LIKE '%canary%'";
    assert_eq!(server.query(rows), "0");
    for sidecar in &sidecars {
        assert!(sidecar.log().iter().all(|line| !line.contains(CANARY)));
    }
    let folder = stage.path("bundle");
    let words = ["audit", "export", "--bundle", folder.to_str().unwrap(), "--from", "2020-01-01", "--to", "2999-01-01"];
    let exported = stage.command("ann", &words).await;
    assert_eq!(exported.code, Some(0), "{}", exported.all());
    let words = ["audit", "verify", folder.to_str().unwrap(), "--key", public.to_str().unwrap()];
    let verified = command(&words, &[], "");
    assert_eq!(verified.code, Some(0), "{}", verified.all());
    say(&verified.stdout);
    let history = fs::read_to_string(folder.join("history.jsonl")).unwrap();
    assert!(!history.contains(CANARY));
    let steps: usize = lives.values().map(|it| it.steps.len()).sum();
    let numbers = history.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["number"].clone());
    assert_eq!(numbers.count(), steps);
}
