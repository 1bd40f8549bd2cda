//! Sidecars of the first region that are killed while jobs pass them, and the judge of those jobs: the records of a ledger against the region itself.
//! A killed sidecar loses its last reports, so that the hub reads the events of the region, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http::{Method, Request};
use ojs_testbed::{DemoRegion, JobState, StoredJob};
use serde_json::{Value, json};

use super::INFO;
use super::history::Draw;
use super::stage::HubStage;
use crate::support::{Client, Process};

pub const QUEUE: &str = "mail";
pub const CANARY: &str = "canary-of-the-arguments";
const TENANTS: usize = 50;
/// Between two jobs of a client, which goes on while faults last.
const PACE: Duration = Duration::from_millis(40);
/// Two sources have a lease by the clock of its region, and two leases of a job are a second apart. Units: milliseconds.
const NEAR_MS: u64 = 500;

/// The settings of the index by which a hub reads the events of the first region.
pub fn index() -> String {
    format!("index: {{ region: us-east-1, events: {{ queues: [{QUEUE}], unbound: [{QUEUE}] }} }}")
}

/// A sidecar of a region, which reports for the ledger.
pub async fn sidecar(hubs: &HubStage, config: &Path, (name, region): (&str, &str)) -> Process {
    let section = hubs.section(name).replace("hub: {", "hub: { report_jobs: true, ledger: metadata,");
    let overlay = hubs.path(&format!("{name}.yaml"));
    std::fs::write(&overlay, format!("local_region: {region}\n{section}\n")).unwrap();
    let sidecar = Process::run(config, &[&INFO[..], &["--config", overlay.to_str().unwrap()]].concat()).await;
    hubs.follows(name).await;
    sidecar
}

/// The answer to a call; none where its sidecar was killed.
async fn call(sidecar: &Client, (method, path): (Method, &str), body: String) -> Option<Value> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answer = sidecar.try_send(request, body).await.ok()?;
    assert!(answer.status.is_success() || answer.status.as_u16() == 503, "{answer:?}");
    serde_json::from_slice(&answer.body).ok()
}

/// A client and a worker until their sidecar is killed.
pub async fn flow(sidecar: Client, mut draw: Draw) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let call = async |path: &str, body: &Value| call(&sidecar, (Method::POST, path), body.to_string()).await;
    loop {
        pace.tick().await;
        let meta = json!({ "tenant_id": format!("t{}", draw.below(TENANTS)) });
        let job = json!({ "type": "t", "args": [CANARY], "options": { "queue": QUEUE }, "meta": meta });
        let Some(made) = call("/ojs/v1/jobs", &job).await else { return };
        // None of a call that was refused with 503.
        if let Some(id) = made["job"]["id"].as_str().filter(|_| draw.below(10) == 0) {
            let path = format!("/ojs/v1/jobs/{id}");
            let Some(_) = self::call(&sidecar, (Method::DELETE, &path), String::new()).await else { return };
        }
        let fetch = json!({ "queues": [QUEUE], "worker_id": "w", "count": 2 });
        let Some(leased) = call("/ojs/v1/workers/fetch", &fetch).await else { return };
        for job in leased["jobs"].as_array().into_iter().flatten() {
            let word = if draw.below(5) == 0 { "nack" } else { "ack" };
            let error = json!({ "code": "x", "message": CANARY });
            let said = json!({ "job_id": job["id"], "worker_id": "w", "error": error, "result": CANARY });
            let Some(_) = call(&format!("/ojs/v1/workers/{word}"), &said).await else { return };
        }
    }
}

/// The jobs of the queue as their region has them, each with the number of its failures that a worker has reported.
pub fn of_region(region: &DemoRegion) -> Vec<(StoredJob, usize)> {
    let mut failures = BTreeMap::<String, usize>::new();
    for request in region.record().requests_to("/ojs/v1/workers/nack").into_iter().filter(|it| it.complete) {
        let said: Value = serde_json::from_slice(&request.body).unwrap();
        *failures.entry(said["job_id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let jobs = region.jobs().iter().filter(|it| it.queue == QUEUE).cloned().collect::<Vec<_>>();
    jobs.into_iter().map(|job| (failures.remove(&job.id).unwrap_or_default(), job)).map(|(n, job)| (job, n)).collect()
}

/// One step by the records of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    /// The begin of its lease by the region's clock; 0 before the first one.
    lease_ms: u64,
    event: String,
    is_reported: bool,
    is_observed: bool,
}

/// The begins of the leases of a job, in order.
fn leases(records: &[Value]) -> Vec<u64> {
    let begins = records.iter().filter(|it| it["event"] == "leased").map(|it| lease_ms(it).unwrap());
    let mut begins: Vec<u64> = begins.collect();
    begins.sort_unstable();
    begins.dedup_by(|next, first| *next - *first < NEAR_MS);
    begins
}

fn lease_ms(record: &Value) -> Option<u64> {
    record["leaseId"].as_str().map(|text| text.parse().unwrap())
}

/// The steps of a job in their order, of which each source has each once. An end that says nothing of its lease is of the last one before it: a
/// busy sidecar reports an end later than its region has it.
///
/// Errors: one source has a step twice.
fn steps(records: &[Value]) -> Result<Vec<Step>, String> {
    let (leases, mut steps) = (leases(records), Vec::<Step>::new());
    for record in records {
        let event = record["event"].as_str().unwrap();
        let is_reported = record["reportedBy"].is_string();
        let at_ms = || ojs_sidecar::base::text::read_rfc3339(record["at"].as_str().unwrap()).unwrap();
        let by_ms = if event == "enqueued" { 0 } else { lease_ms(record).unwrap_or_else(at_ms) + NEAR_MS };
        let lease_ms = leases.iter().rev().find(|it| **it <= by_ms).copied().unwrap_or_default();
        match steps.iter_mut().find(|it| it.event == event && it.lease_ms == lease_ms) {
            Some(it) if (is_reported && it.is_reported) || (!is_reported && it.is_observed) => {
                return Err(format!("a source has {event} twice"));
            }
            Some(it) => (it.is_reported, it.is_observed) = (true, true),
            None => steps.push(Step { lease_ms, event: event.to_owned(), is_reported, is_observed: !is_reported }),
        }
    }
    let rank = |event: &str| ["enqueued", "leased"].iter().position(|it| *it == event).unwrap_or(2);
    steps.sort_by_key(|it| (it.lease_ms, rank(&it.event)));
    Ok(steps)
}

/// Whether the records of a job are its steps, once each, and in their order. Returns how many of the steps only events have shown.
///
/// Errors: the first difference.
pub fn judge((job, failures): &(StoredJob, usize), records: &[Value]) -> Result<usize, String> {
    let steps = steps(records)?;
    let events: Vec<&str> = steps.iter().map(|it| it.event.as_str()).collect();
    let wrong = |word: &str| Err(format!("{word}: {events:?}"));
    let count = |word: &str| events.iter().filter(|it| **it == word).count();
    if events.first() != Some(&"enqueued") || count("enqueued") != 1 {
        return wrong("it is enqueued once, at first");
    }
    if count("leased") != job.attempt as usize {
        return wrong(&format!("it has {} attempts", job.attempt));
    }
    let failed = count("retried") + count("dead_lettered");
    // The last attempt may end with its lease.
    let most = failures + usize::from(job.state == JobState::Discarded);
    if !(*failures..=most).contains(&failed) {
        return wrong(&format!("{failures} attempts have failed"));
    }
    if events.windows(2).any(|pair| ["retried", "succeeded", "dead_lettered"].contains(&pair[1]) && pair[0] != "leased")
    {
        return wrong("an attempt ends behind its begin");
    }
    let last = match job.state {
        JobState::Completed => Some("succeeded"),
        JobState::Discarded => Some("dead_lettered"),
        JobState::Cancelled => Some("canceled"),
        _ => None,
    };
    let ends = ["succeeded", "dead_lettered", "canceled"].map(count).iter().sum::<usize>();
    if ends != usize::from(last.is_some()) || last.is_some_and(|last| events.last() != Some(&last)) {
        return wrong(&format!("it is {:?}", job.state));
    }
    Ok(steps.iter().filter(|it| !it.is_reported).count())
}

/// Judges all jobs of the queue. Returns how many steps only events have shown.
///
/// Errors: how many jobs differ, and the first of them.
pub fn judge_all(jobs: &[(StoredJob, usize)], records: &BTreeMap<String, Vec<Value>>) -> Result<usize, String> {
    let judged = jobs.iter().map(|it| {
        let of_job = records.get(&it.0.id).map_or(&[][..], Vec::as_slice);
        judge(it, of_job).map_err(|why| format!("{}: {why}; {:?}; {of_job:?}", it.0.id, it.0.state))
    });
    let (mut observed, mut wrong) = (0, Vec::new());
    judged.for_each(|it| it.map_or_else(|why| wrong.push(why), |count| observed += count));
    wrong.first().map_or(Ok(observed), |first| Err(format!("{} of {} jobs: {first}", wrong.len(), jobs.len())))
}
