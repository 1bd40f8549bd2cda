//! A queue that gets shards and loses them again, with the real program as a process that is killed on the way: no job is lost or completed twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use ojs_sidecar::base::{Clock, SteeredTime};
use ojs_testbed::{DemoRegion, Fault, Gate, JobState, When};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet};

use super::{ACK, FETCH, ids};
use crate::support::{Answer, Client, Process, Setup, Stage, eventually};

/// Of the jobs; the last one stands for none.
const TENANTS: [&str; 4] = ["acme", "globex", "initech", ""];
const WORKERS: usize = 3;
/// The jobs of each tenant that are enqueued one after the other.
const EACH: usize = 10;
const SHARD: &str = ".ojs-";

/// The end of an enqueue as its client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Taken,
    Unknown,
}

/// Clients and workers. They outlive sidecars, and call the one that runs.
#[derive(Clone)]
struct Application {
    sidecar: watch::Receiver<Client>,
    known: Arc<Mutex<BTreeMap<String, Known>>>,
}

impl Application {
    /// One call; none when its connection broke, once the next sidecar runs.
    async fn call(&mut self, path: &str, tenant: &str, body: &str) -> Option<Answer> {
        let client = *self.sidecar.borrow_and_update();
        let mut request = Request::post(path).header("content-type", "application/json");
        if !tenant.is_empty() {
            request = request.header("x-ojs-tenant", tenant);
        }
        let answer = client.try_send(request, body.to_owned()).await.ok();
        if answer.is_none() {
            self.sidecar.changed().await.unwrap();
        }
        answer
    }

    /// Enqueues a job, and repeats that with the same id until there is an answer; a client that gives up does not.
    async fn enqueue(mut self, tenant: &'static str, id: String, gives_up: bool) {
        let job = json!({ "id": id, "type": "email.send", "args": [tenant], "options": { "queue": "email" } });
        let mut known = Known::Unknown;
        loop {
            match self.call("/ojs/v1/jobs", tenant, &job.to_string()).await {
                Some(answer) if answer.status.is_server_error() => tokio::task::yield_now().await,
                Some(answer) => {
                    // A region has the job of a broken call already.
                    assert!([201, 409].contains(&answer.status.as_u16()), "{answer:?}");
                    known = Known::Taken;
                    break;
                }
                None if gives_up => break,
                None => {}
            }
        }
        assert_eq!(self.known.lock().unwrap().insert(id, known), None);
    }

    /// Fetches jobs of `email` for ever, and acknowledges each until there is an answer.
    async fn work(mut self, worker: String) {
        let fetch = json!({ "queues": ["email"], "count": 2, "worker_id": worker }).to_string();
        loop {
            let mut jobs = Vec::new();
            eventually("jobs come", async || {
                let answer = self.call(FETCH, "", &fetch).await;
                jobs = answer.filter(|it| it.status == 200).map_or_else(Vec::new, |it| ids(&it.json()["jobs"]));
                !jobs.is_empty()
            })
            .await;
            for id in jobs {
                let ack = json!({ "job_id": id, "result": {} }).to_string();
                while self.call(ACK, "", &ack).await.is_none_or(|answer| answer.status.is_server_error()) {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// A region whose leases go by a steered clock, and the sidecar before it.
struct Migration {
    stage: Stage,
    time: Arc<SteeredTime>,
    /// The configuration without shards.
    plain: String,
    process: Process,
    sidecar: watch::Sender<Client>,
    application: Application,
    workers: Vec<JoinHandle<()>>,
    jobs: usize,
}

impl Migration {
    async fn begin() -> Self {
        let now = u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let time = SteeredTime::starting_at(now);
        let clock = Clock::new(Arc::new(Arc::clone(&time)));
        let setup = Setup::default().regions(1).by_the_documents().demo(move |options| {
            options.clock = clock.clone();
            options.attempts_max = 1_000;
        });
        let stage = setup.stage().await;
        let plain = std::fs::read_to_string(&stage.config).unwrap();
        let process = Process::run(&stage.config, &["--set", "log.level=info"]).await;
        let (sidecar, receiver) = watch::channel(process.client);
        let application = Application { sidecar: receiver, known: Arc::default() };
        let work = |number| tokio::task::spawn_local(application.clone().work(format!("w{number}")));
        let workers = (0..WORKERS).map(work).collect();
        Self { stage, time, plain, process, sidecar, application, workers, jobs: 0 }
    }

    fn region(&self) -> &DemoRegion {
        &self.stage.regions[0]
    }

    /// Begins the enqueue of a further job.
    fn enqueue(&mut self, tenant: &'static str, gives_up: bool) -> JoinHandle<()> {
        self.jobs += 1;
        tokio::spawn(self.application.clone().enqueue(tenant, format!("job-{}", self.jobs), gives_up))
    }

    /// Enqueues jobs of all tenants; the queues of the region that they came into, and how many came into each.
    async fn enqueue_all(&mut self) -> BTreeMap<String, usize> {
        let before = self.jobs;
        for _ in 0..EACH {
            for tenant in TENANTS {
                self.enqueue(tenant, false).await.unwrap();
            }
        }
        let jobs = self.region().jobs();
        let mut queues = BTreeMap::new();
        for number in before + 1..=self.jobs {
            let job = jobs.job(&format!("job-{number}")).unwrap();
            *queues.entry(job.queue.clone()).or_default() += 1;
        }
        queues
    }

    /// Starts the next sidecar once the one before has ended. `mode`: of the shards, if there are any.
    async fn restart(&mut self, mode: Option<&str>) {
        self.process.ended().await;
        let entry = mode.map_or_else(String::new, |mode| {
            format!("scheduling: {{ tenant_queues: [{{ queue: email, shards: 8, weights: {{ acme: 3 }}, mode: {mode} }}] }}\n")
        });
        std::fs::write(&self.stage.config, entry + &self.plain).unwrap();
        self.process = Process::run(&self.stage.config, &["--set", "log.level=info"]).await;
        self.sidecar.send_replace(self.process.client);
    }

    async fn restart_in_order(&mut self, mode: Option<&str>) {
        self.process.terminate();
        self.restart(mode).await;
    }

    /// Has the region handle the next calls of a path by a fault.
    fn strike(&self, path: &str, calls: usize, fault: &Fault) {
        self.region().faults().add(When::path(path).method(http::Method::POST).next(calls as u64), fault.clone());
    }

    async fn struck(&self, times: usize) {
        eventually("the calls are under way", async || self.region().faults().struck() == times as u64).await;
    }

    /// Kills the sidecar while a FETCH of each worker but one, the ACK of that one and an enqueue of each tenant are under way, with a backlog behind it.
    /// `late`: whether these calls take effect after the kill and not before. Returns the queues of the backlog.
    async fn kill(&mut self, mode: &str, late: bool) -> BTreeMap<String, usize> {
        let before = usize::try_from(self.region().faults().struck()).unwrap();
        let stall = Gate::new();
        self.strike(FETCH, WORKERS, &Fault::Hold { gate: stall.clone() });
        self.struck(before + WORKERS).await;
        let backlog = self.enqueue_all().await;
        let gate = Gate::new();
        let fault = if late { Fault::Hold { gate: gate.clone() } } else { Fault::HangAfterBody { store: true } };
        self.strike(FETCH, WORKERS - 1, &fault);
        self.strike(ACK, 1, &fault);
        self.strike("/ojs/v1/jobs", TENANTS.len(), &fault);
        let clients = TENANTS.map(|tenant| self.enqueue(tenant, tenant == TENANTS[1]));
        stall.open();
        self.struck(before + WORKERS + WORKERS + TENANTS.len()).await;
        if !late {
            // Each fetched two; one worker has no word about its own.
            self.region().wait_for_jobs(|jobs| jobs.count_in(JobState::Active) >= 2 * (WORKERS - 1)).await;
        }
        self.process.signal("KILL");
        self.restart(Some(mode)).await;
        for client in clients {
            client.await.unwrap();
        }
        gate.open();
        backlog
    }

    /// Waits until each job that fits is completed; leases of workers that got no answer are over meanwhile.
    async fn completed(&self, fits: impl Fn(&str) -> bool) {
        eventually("the jobs are completed", async || {
            let jobs = self.region().jobs();
            if jobs.count_in(JobState::Available) == 0 {
                self.time.advance(Duration::from_secs(1));
            }
            jobs.iter().filter(|job| fits(&job.queue)).all(|job| job.state == JobState::Completed)
        })
        .await;
    }

    /// Holds the region's jobs against the answers that clients had.
    fn judge(&self) {
        let (jobs, known) = (self.region().jobs(), self.application.known.lock().unwrap());
        assert_eq!(known.len(), self.jobs);
        assert_eq!(known.values().filter(|it| **it == Known::Unknown).count(), 2, "one client gave up at each kill");
        for (id, known) in &*known {
            let times = jobs.job(id).map_or(0, |job| job.acknowledged);
            assert!(times == 1 || (times == 0 && *known == Known::Unknown), "{id}, {known:?}: {:?}", jobs.job(id));
        }
        let is_left = |queue: &str, state| queue.starts_with("email") && state != JobState::Completed;
        assert!(!jobs.iter().any(|job| is_left(&job.queue, job.state)), "{jobs:?}");
        assert!(jobs.iter().all(|job| known.contains_key(&job.id)), "{jobs:?}");
    }
}

#[tokio::test]
async fn shards_are_turned_on_and_off_under_load_and_kills_without_a_job_lost_or_completed_twice() {
    LocalSet::new().run_until(on_and_off()).await;
}

async fn on_and_off() {
    let all = BTreeMap::from([("email".to_owned(), TENANTS.len() * EACH)]);
    let mut migration = Migration::begin().await;
    assert_eq!(migration.enqueue_all().await, all);
    migration.restart_in_order(Some("drain")).await;
    assert_eq!(migration.enqueue_all().await, all);
    assert_eq!(migration.kill("fill", true).await, all);
    for _ in 0..2 {
        let queues = migration.enqueue_all().await;
        assert_eq!(queues["email"], EACH, "only jobs without a tenant: {queues:?}");
    }
    let backlog = migration.kill("drain", false).await;
    assert_eq!(backlog["email"], EACH, "{backlog:?}");
    assert_eq!(migration.enqueue_all().await, all);
    migration.completed(|queue| queue.contains(SHARD)).await;
    migration.restart_in_order(None).await;
    assert_eq!(migration.enqueue_all().await, all);
    migration.completed(|_| true).await;
    migration.workers.iter().for_each(JoinHandle::abort);
    migration.judge();
}
