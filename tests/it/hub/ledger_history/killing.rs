//! The sidecars that are killed, one after the other, while hubs and their database fail.
//!
//! A killed sidecar loses the reports that no hub has yet; the events of its region make up for them while a hub reads them. So a kill comes once
//! a hub reads again behind a fault and has all earlier jobs, and the next fault once it has all jobs of the killed one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;

use super::super::history::{Database, Draw, say};
use super::super::ledger_killed::{CANARY, QUEUE, flow, judge_all, of_region, sidecar};
use super::super::postgres::Postgres;
use super::super::stage::{Hub, HubStage};
use super::REPORTED_WAIT;
use crate::support::{Process, Stage, eventually};

const REGION: &str = "us-east-1";
/// Between two looks at the record of the region, of which each reads all its jobs.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The sidecar that runs, with its client and worker.
pub struct Killing<'a> {
    federation: &'a Stage,
    seed: u64,
    killed: u64,
    running: Process,
    flow: JoinHandle<()>,
}

/// The records of all jobs of the queue, by the database of the ledger.
fn records(server: &Postgres) -> BTreeMap<String, Vec<Value>> {
    let rows = format!(
        "SELECT line FROM ojs_hub_job_history WHERE job_id IN
          (SELECT job_id FROM ojs_hub_job_history WHERE line::json->>'queue' = '{QUEUE}') ORDER BY number"
    );
    let mut records = BTreeMap::<String, Vec<Value>>::new();
    for line in server.query(&rows).lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        records.entry(record["jobId"].as_str().unwrap().to_owned()).or_default().push(record);
    }
    records
}

impl<'a> Killing<'a> {
    pub async fn begin(stage: &HubStage, federation: &'a Stage, seed: u64) -> Self {
        let (running, flow) = start(stage, federation, seed, 0).await;
        Self { federation, seed, killed: 0, running, flow }
    }

    /// Kills the running sidecar once so many further jobs have passed it, and runs another one. No fault is under way.
    pub async fn kill_one(&mut self, stage: &HubStage, hubs: &[Option<Hub>], database: &Database, jobs: usize) {
        let region = &self.federation.regions[0];
        eventually("a hub reads the events", async || reads(hubs).await).await;
        self.settles(database.serves()).await;
        let wanted = of_region(region).len() + jobs;
        let begun = Instant::now();
        while of_region(region).len() < wanted {
            assert!(!self.flow.is_finished(), "the client has ended");
            assert!(begun.elapsed() < 10 * REPORTED_WAIT, "jobs pass the sidecar");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.running.signal("KILL");
        (&mut self.flow).await.unwrap();
        assert!(self.running.log().iter().all(|line| !line.contains(CANARY)));
        self.settles(database.serves()).await;
        self.killed += 1;
        (self.running, self.flow) = start(stage, self.federation, self.seed, self.killed).await;
    }

    /// Waits until the ledger has all jobs that the region has by now, as they are then: some go on meanwhile. Returns how many there are.
    async fn settles(&self, server: &Postgres) -> usize {
        let (region, begun) = (&self.federation.regions[0], Instant::now());
        let known: BTreeSet<String> = of_region(region).into_iter().map(|(job, _)| job.id).collect();
        loop {
            let mut jobs = of_region(region);
            jobs.retain(|(job, _)| known.contains(&job.id));
            match judge_all(&jobs, &records(server)) {
                Ok(observed) => {
                    let took = begun.elapsed();
                    say(&format!(
                        "{} jobs are as the region has them after {took:?}; {observed} steps by events alone",
                        jobs.len()
                    ));
                    return jobs.len();
                }
                Err(why) => assert!(begun.elapsed() < REPORTED_WAIT, "{why}"),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Kills the last one, and judges all jobs of all of them. Returns how many there are.
    pub async fn end(self, server: &Postgres) -> usize {
        self.running.signal("KILL");
        let Self { federation, .. } = &self;
        eventually("the last flow ends", async || self.flow.is_finished()).await;
        assert!(!federation.regions[0].record().is_truncated());
        self.settles(server).await
    }
}

async fn start(stage: &HubStage, federation: &Stage, seed: u64, number: u64) -> (Process, JoinHandle<()>) {
    let running = sidecar(stage, &federation.config, (&format!("killed-{number}"), REGION)).await;
    let flow = tokio::spawn(flow(running.client, Draw(seed * 1_000 + number)));
    (running, flow)
}

/// Whether a hub has the stream of the queue open.
async fn reads(hubs: &[Option<Hub>]) -> bool {
    for hub in hubs.iter().flatten() {
        let metrics = hub.admin.get("/metrics").await;
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let has = |series: &str| text.lines().any(|line| line == series);
        if has("ojs_hub_events_reading 1") && has("ojs_hub_event_streams{state=\"open\"} 1") {
            return true;
        }
    }
    false
}
