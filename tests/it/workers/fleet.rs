//! Ten thousand jobs over three regions, done by the workers of five SDKs beside each of them while regions fail and recover.

mod worker;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use ojs_sidecar::base::SteeredTime;
use ojs_testbed::{Fault, FaultAnswer, JobState, When};
use tokio::task::JoinSet;

use super::sdk::Sdk;
use super::{ACK, FETCH, NACK};
use crate::support::{Federation, IDS, Setup, Sidecar, eventually};
use worker::{KeepAlive, work};

/// A queue of jobs that must stay where they are, and one of jobs that any region's workers may do.
const BOUND: &str = "bound";
const SHARED: &str = "shared";

/// What all workers share.
#[derive(Default)]
pub struct Run {
    time: Option<Arc<SteeredTime>>,
    /// FETCH calls so far, whatever they brought: by them the test keeps its time.
    fetches: AtomicUsize,
    over: AtomicBool,
}

impl Run {
    fn fetched(&self) {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        if let Some(time) = &self.time {
            time.advance(Duration::from_millis(20));
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Waits until the workers have fetched so many times more.
    async fn go_on(&self, fetches: usize) {
        let until = self.fetches.load(Ordering::Relaxed) + fetches;
        eventually("the workers go on", async || self.fetches.load(Ordering::Relaxed) >= until).await;
    }

    /// Lets the workers go on until all jobs are done, and ends them then.
    async fn until_done(&self, fleet: &Fleet, jobs: usize) {
        // Leases that were lost come back within half a minute of the workers' own time.
        let mut patience = 1_000;
        while fleet.completed() < jobs {
            assert!(patience > 0, "{} of {jobs} jobs are done", fleet.completed());
            self.go_on(100).await;
            patience -= 1;
        }
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A federation with a sidecar beside each region.
struct Fleet {
    federation: Federation,
    sidecars: Vec<Sidecar>,
}

impl Fleet {
    async fn start() -> Self {
        let federation = Setup::default()
            .steered()
            .steered_leases()
            // A job that fails once or whose worker is cut off is tried again, whatever the chances.
            .demo(|options| options.attempts_max = 1_000)
            .yaml(&format!("workers: {{ remote_fetch: [{SHARED}] }}"))
            .start()
            .await;
        let mut sidecars = Vec::new();
        for place in 0..IDS.len() {
            sidecars.push(federation.beside(place).await);
        }
        Self { federation, sidecars }
    }

    /// Has clients beside all regions enqueue jobs: some pinned, some for whichever region has room, the rest at home.
    async fn enqueue(&self, count: usize) {
        let mut clients = JoinSet::new();
        for (place, sidecar) in self.sidecars.iter().enumerate() {
            let mut client = KeepAlive::new(sidecar.client);
            let (routed, home): (Vec<usize>, Vec<usize>) =
                (place..count).step_by(IDS.len()).partition(|number| number % 10 < 4);
            clients.spawn(async move {
                for number in routed {
                    let answer = client.post("/ojs/v1/jobs", job(number)).await.unwrap();
                    assert_eq!(answer.status, 201, "{answer:?}");
                }
                for numbers in home.chunks(200) {
                    let jobs: Vec<String> = numbers.iter().map(|number| job(*number)).collect();
                    let body = format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
                    let answer = client.post("/ojs/v1/jobs/batch", body).await.unwrap();
                    assert_eq!(answer.status, 201, "{answer:?}");
                }
            });
        }
        clients.join_all().await;
    }

    /// Starts a worker of each SDK beside each region. Beside the last one they leave the shared jobs to others.
    fn workers(&self, run: &Arc<Run>) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        for (place, sidecar) in self.sidecars.iter().enumerate() {
            let queues: &'static [&'static str] = if place == 2 { &[BOUND] } else { &[BOUND, SHARED] };
            for sdk in Sdk::ALL {
                workers.spawn(work(sdk, sidecar.client, format!("{sdk:?}-{place}"), queues, Arc::clone(run)));
            }
        }
        workers
    }

    fn completed(&self) -> usize {
        self.federation.regions.iter().map(|region| region.jobs().count_in(JobState::Completed)).sum()
    }

    /// Which region has each job, by id; every job once, completed, and acknowledged once with effect.
    fn check_all_done(&self, count: usize) -> HashMap<String, usize> {
        let (mut owners, mut args) = (HashMap::new(), HashSet::new());
        for (place, region) in self.federation.regions.iter().enumerate() {
            for job in region.jobs().iter() {
                assert_eq!((job.state, job.acknowledged, job.stored), (JobState::Completed, 1, 1), "{}", job.id);
                assert!(args.insert(job.args.clone()), "{} is in two regions", job.args);
                assert_eq!(owners.insert(job.id.clone(), place), None);
            }
        }
        assert_eq!(owners.len(), count);
        owners
    }

    /// How often each job was acknowledged, with effect or without; no word about a job has reached any region but its own.
    fn check_owners_only(&self, owners: &HashMap<String, usize>) -> HashMap<String, usize> {
        let mut acknowledged = HashMap::new();
        for (place, region) in self.federation.regions.iter().enumerate() {
            assert!(!region.record().is_truncated(), "the record is whole");
            for call in [ACK, NACK].into_iter().flat_map(|path| region.record().requests_to(path)) {
                let said: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
                let id = said["job_id"].as_str().unwrap();
                assert_eq!(owners.get(id), Some(&place), "{id} was settled in {}", region.id());
                *acknowledged.entry(id.to_owned()).or_insert(0) += usize::from(call.path == ACK);
            }
        }
        acknowledged
    }

    /// No byte of a pinned job has reached any region but its own.
    fn check_pins(&self) {
        for (place, id) in IDS.iter().enumerate() {
            let seen = self.federation.seen(&format!("pinned to {id}"));
            assert_eq!(seen, [place], "{id}");
        }
    }

    async fn remote(&self) -> f64 {
        let mut given = 0.0;
        for sidecar in &self.sidecars {
            let text = String::from_utf8(sidecar.admin.get("/metrics").await.body.to_vec()).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("ojs_federation_remote_fetch_jobs_total"));
            for line in lines {
                let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
                assert!(line.contains("\"given\"") || value == 0.0, "{line}");
                given += value;
            }
        }
        given
    }
}

/// Of ten jobs two are pinned, two go where there is room, and six stay at home.
fn job(number: usize) -> String {
    let (queue, text, meta) = match number % 10 {
        0 | 1 => {
            let region = IDS[number / 10 % IDS.len()];
            (BOUND, format!("pinned to {region}"), format!(r#""ojs.federation.region":"{region}""#))
        }
        2 | 3 => (SHARED, "overflow".to_owned(), r#""ojs.federation.region_affinity":"overflow""#.to_owned()),
        _ => (SHARED, "home".to_owned(), String::new()),
    };
    format!(r#"{{"type":"a","args":[{number},"{text}"],"meta":{{{meta}}},"options":{{"queue":"{queue}"}}}}"#)
}

/// Answers that never come although the region has acted, and regions that say that they cannot.
fn trouble(federation: &Federation) {
    let unavailable = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    for (seed, region) in (0..).zip(&federation.regions) {
        for path in [ACK, NACK, FETCH] {
            let lost = Fault::CutAfterRequest { store: true };
            region.faults().add(When::path(path).chance(0.01, seed), lost);
            let refused = Fault::Answer { answer: unavailable.clone(), store: false };
            region.faults().add(When::path(path).chance(0.01, seed + 10), refused);
        }
    }
}

#[tokio::test]
async fn ten_thousand_jobs_are_acknowledged_once_at_their_owners_while_regions_fail_and_recover() {
    const JOBS: usize = 10_000;
    let fleet = Fleet::start().await;
    fleet.enqueue(JOBS).await;
    trouble(&fleet.federation);
    let run = Arc::new(Run { time: fleet.federation.time.clone(), ..Run::default() });
    let workers = fleet.workers(&run);
    for round in 0..9 {
        let region = &fleet.federation.regions[round % 3];
        run.go_on(100).await;
        region.stop().await;
        run.go_on(100).await;
        region.resume().await.unwrap();
    }
    fleet.federation.regions.iter().for_each(|region| region.faults().clear());
    run.until_done(&fleet, JOBS).await;
    workers.join_all().await;
    let owners = fleet.check_all_done(JOBS);
    let acknowledged = fleet.check_owners_only(&owners);
    assert_eq!(acknowledged.len(), JOBS);
    fleet.check_pins();
    assert!(fleet.remote().await > 0.0, "workers have done jobs of other regions");
}

#[tokio::test]
async fn while_all_is_well_each_job_is_acknowledged_by_one_call() {
    const JOBS: usize = 600;
    let fleet = Fleet::start().await;
    fleet.enqueue(JOBS).await;
    let run = Arc::new(Run { time: fleet.federation.time.clone(), ..Run::default() });
    let workers = fleet.workers(&run);
    run.until_done(&fleet, JOBS).await;
    workers.join_all().await;
    let owners = fleet.check_all_done(JOBS);
    let acknowledged = fleet.check_owners_only(&owners);
    assert!(acknowledged.values().all(|count| *count == 1) && acknowledged.len() == JOBS);
    assert!(fleet.federation.regions.iter().all(|region| region.jobs().iter().all(|job| job.attempt <= 2)));
}
