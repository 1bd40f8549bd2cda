//! A history of the ledger with faults, by a seed: two hubs on PostgreSQL with a standby are killed, paused and cut off, and lose their primary, while jobs
//! of fifty tenants go through the sidecars of three regions, and through further ones of the first region, which are killed. After it the ledger has each
//! step that a region has taken, once. `LEDGER_HISTORY_SEED`, `LEDGER_HISTORY_JOBS` and `LEDGER_HISTORY_FAULTS` make it another or a longer one; behind
//! each fault a sidecar is killed.

mod killing;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use http::Method;
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::history::{Database, Draw, Network, break_things, number, plan, say};
use super::ledger_killed::{CANARY, index, sidecar};
use super::postgres::Postgres;
use super::stage::HubStage;
use super::views::regions;
use crate::support::{Client, Process, Setup, command};
use killing::Killing;

const REGIONS: [&str; 3] = ["us-east-1", "eu-west-1", "ap-south-1"];
const TENANTS: usize = 50;
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

/// The steps of each of these jobs in the order of their times, and the tenant, by the database of the ledger; and how many other jobs it has.
fn ledger(server: &Postgres, of: &Lives) -> (Lives, usize) {
    let rows = "SELECT h.job_id, h.line::json->>'event', j.tenant FROM ojs_hub_job_history h
        JOIN ojs_hub_ledger_job j ON (h.job_id, h.region) = (j.job_id, j.region)
        ORDER BY h.job_id, h.line::json->>'at', h.number";
    let (mut lives, mut others) = (Lives::new(), BTreeSet::new());
    for row in server.query(rows).lines() {
        let [id, step, tenant] = row.split('|').collect::<Vec<_>>().try_into().unwrap();
        if !of.contains_key(id) {
            others.insert(id.to_owned());
            continue;
        }
        let known = ["enqueued", "leased", "extended", "succeeded", "retried", "dead_lettered", "canceled"];
        let step = known.into_iter().find(|it| *it == step).unwrap_or_else(|| panic!("{row}"));
        let life = lives.entry(id.to_owned()).or_default();
        tenant.clone_into(&mut life.tenant);
        life.steps.push(step);
    }
    (lives, others.len())
}

/// Waits until the ledger has all steps, once each and in their order, and none of another job than these and the `others`.
async fn equal(server: &Postgres, expected: &Lives, others: usize) {
    let (begun, wanted) = (Instant::now(), expected.values().map(|it| it.steps.len()).sum::<usize>());
    let (mut found, mut further) = ledger(server, expected);
    while found.values().map(|it| it.steps.len()).sum::<usize>() < wanted && begun.elapsed() < REPORTED_WAIT {
        tokio::time::sleep(Duration::from_secs(1)).await;
        (found, further) = ledger(server, expected);
    }
    for (id, life) in expected {
        let of_ledger = found.get(id).unwrap_or_else(|| panic!("{id} is not in the ledger: {life:?}"));
        assert_eq!(of_ledger, life, "{id}");
    }
    assert_eq!((found.len(), further), (expected.len(), others));
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

/// No table of the database has the canary, as text or in bytes.
fn check_tables(server: &Postgres) {
    let tables = server.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
    assert!(tables.lines().count() > 5, "{tables}");
    for table in tables.lines() {
        let of = format!("SELECT count(*) FROM {table} AS it WHERE it::text ~ 'canary|{}'", HEXLOWER.encode(b"canary"));
        assert_eq!(server.query(&of), "0", "{table}");
    }
}

/// No file below a folder has the canary.
fn check_folder(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_folder(&path);
        } else {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains(CANARY), "{path:?}");
        }
    }
}

/// A bundle of the whole ledger is as it was signed, has each record, and no canary.
async fn check_bundle(stage: &HubStage, public: &Path, records: usize) {
    let folder = stage.path("bundle");
    let words = ["audit", "export", "--bundle", folder.to_str().unwrap(), "--from", "2020-01-01", "--to", "2999-01-01"];
    let exported = stage.command("ann", &words).await;
    assert_eq!(exported.code, Some(0), "{}", exported.all());
    let words = ["audit", "verify", folder.to_str().unwrap(), "--key", public.to_str().unwrap()];
    let verified = command(&words, &[], "");
    assert_eq!(verified.code, Some(0), "{}", verified.all());
    say(&verified.stdout);
    check_folder(&folder);
    let history = fs::read_to_string(folder.join("history.jsonl")).unwrap();
    let numbers = history.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["number"].clone());
    assert_eq!(numbers.count(), records);
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
    let kept = usize::try_from(jobs).unwrap();
    let federation = Setup::default().demo(move |options| {
        options.record_bytes_max = kept * (16 << 10) + (64 << 20);
        (options.finished_max, options.retry_jitter) = (2 * kept + 1_000, false);
    });
    let federation = federation.stage().await;
    let (index, regions) = (index(), regions(&federation, |_| None));
    stage.set_more(&format!("{index}\nledger: {{}}\naudit: {{ key: {private:?}, log: hub.test }}\n{regions}"));
    let section = Postgres::section(&[&primary, &standby], &stage.path(""), &stage.path("hub.ca.pem"));
    let mut stage = stage.on_record(section);
    let (network, mut hubs) = Network::between(&mut stage, [&primary, &standby]).await;
    let mut database = Database { primary, standby, is_lost: false };
    let mut sidecars = Vec::new();
    for region in REGIONS {
        sidecars.push(sidecar(&stage, &federation.config, (region, region)).await);
    }
    // The fourth part of the jobs goes through sidecars that are killed.
    let each = kept / (REGIONS.len() + 1);
    let load: Vec<_> = sidecars.iter().enumerate().map(|(place, it)| flow(it.client, place, each, seed)).collect();
    let load: Vec<_> = load.into_iter().map(tokio::spawn).collect();
    let mut draw = Draw(seed);
    let mut killing = Killing::begin(&stage, &federation, seed).await;
    for fault in plan(&mut draw, faults) {
        break_things(&stage, &mut hubs, &mut database, &network, &[fault]).await;
        killing.kill_one(&stage, &hubs, &database, each / faults.max(1)).await;
        assert!(hubs.iter().flatten().all(|hub| !hub.log_has(&[CANARY])));
    }
    let mut lives = Lives::new();
    for task in load {
        lives.extend(task.await.unwrap());
    }
    let server = database.serves();
    let others = killing.end(server).await;
    equal(server, &lives, others).await;
    check_regions(&stage, &sidecars, &lives).await;
    check_tables(server);
    for sidecar in &sidecars {
        assert!(sidecar.log().iter().all(|line| !line.contains(CANARY)));
    }
    check_bundle(&stage, &public, server.query("SELECT count(*) FROM ojs_hub_job_history").parse().unwrap()).await;
}
