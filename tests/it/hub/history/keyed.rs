//! Calls with keys that all sidecars know, on a thread of their own: each key goes through two sidecars, at once or one after the other, and
//! is repeated until both have given its answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use http::StatusCode;
use ojs_testbed::DemoRegion;

use super::super::keys::keyed;
use super::Draw;
use crate::support::{Answer, Client, eventually, job};

/// Clients that enqueue at once.
const CLIENTS: u64 = 4;
/// Between two keys of one client.
const PACE: Duration = Duration::from_millis(60);
/// Keys that are repeated at once after the faults.
const REPEATED_AT_ONCE: usize = 8;

/// The answers with a job, and the others.
#[derive(Default)]
pub struct Answers {
    /// The ids by key, one for each answer.
    jobs: BTreeMap<String, Vec<String>>,
    /// Refusals that the absence of a hub explains, by reason.
    refused: BTreeMap<String, usize>,
    /// Any other answer.
    errors: Vec<String>,
}

/// A load of keys that runs until it is ended.
pub struct Keyed {
    answers: Arc<Mutex<Answers>>,
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Keyed {
    /// Clients of these sidecars, at least two.
    pub fn start(sidecars: Vec<Client>, seed: u64) -> Self {
        let (answers, is_over) = (Arc::<Mutex<Answers>>::default(), Arc::<AtomicBool>::default());
        let (of_thread, until) = (Arc::clone(&answers), Arc::clone(&is_over));
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let all = (0..CLIENTS).map(|client| rounds(&sidecars, seed * CLIENTS + client, &of_thread, &until));
            runtime.block_on(futures_util::future::join_all(all));
        };
        Self { answers, is_over, thread: std::thread::spawn(body) }
    }

    /// Waits until so many keys have an answer.
    pub async fn wait_for_keys(&self, keys: usize) {
        eventually("keys get answers", async || self.answers.lock().unwrap().jobs.len() >= keys).await;
    }

    /// Ends the load once each key has both answers; then each is repeated once through any sidecar.
    pub async fn end(self, sidecars: &[Client], seed: u64) -> Answers {
        self.is_over.store(true, Relaxed);
        tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap();
        let keys: Vec<String> = self.answers.lock().unwrap().jobs.keys().cloned().collect();
        let mut draw = Draw(seed);
        let calls = keys.iter().map(|key| answered(sidecars[draw.below(sidecars.len())], key, &self.answers));
        futures_util::stream::iter(calls).buffer_unordered(REPEATED_AT_ONCE).collect::<()>().await;
        std::mem::take(&mut *self.answers.lock().unwrap())
    }
}

impl Answers {
    /// Each key is one job of all regions, which each of its answers names. Returns the number of keys.
    pub fn check(&self, regions: &[DemoRegion], seed: u64) -> usize {
        let mut stored = BTreeMap::<String, Vec<(String, u32)>>::new();
        for job in regions.iter().flat_map(|region| region.jobs().to_vec()) {
            stored.entry(job.args).or_default().push((job.id, job.stored));
        }
        for (key, ids) in &self.jobs {
            let jobs = stored.get(&format!("[{key:?}]")).map_or(&[][..], Vec::as_slice);
            let is_one = matches!(jobs, [(id, 1)] if ids.iter().all(|it| it == id));
            assert!(is_one, "{key} was answered {ids:?}, and the regions have {jobs:?}; seed {seed}");
        }
        assert!(self.errors.is_empty(), "seed {seed}: {:?}", self.errors);
        let answers: usize = self.jobs.values().map(Vec::len).sum();
        super::say(&format!("{} keys, {answers} answers with a job, refused: {:?}", self.jobs.len(), self.refused));
        self.jobs.len()
    }

    fn note(&mut self, key: &str, answer: &Answer) {
        if answer.status == StatusCode::CREATED {
            self.jobs.entry(key.to_owned()).or_default().push(answer.job_id());
            return;
        }
        let reason = answer.reason();
        if ["hub_unavailable", "outcome_unknown"].contains(&reason.as_str()) {
            *self.refused.entry(reason).or_default() += 1;
        } else {
            self.errors.push(format!("{key}: {answer:?}"));
        }
    }
}

/// Repeats a call until it is answered with a job.
async fn answered(client: Client, key: &str, answers: &Mutex<Answers>) {
    eventually("the key has its answer", async || {
        let answer = keyed(&client, key, job(key)).await;
        answers.lock().unwrap().note(key, &answer);
        answer.status == StatusCode::CREATED
    })
    .await;
}

async fn rounds(sidecars: &[Client], seed: u64, answers: &Mutex<Answers>, is_over: &AtomicBool) {
    let (mut draw, mut pace) = (Draw(seed), tokio::time::interval(PACE));
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for number in 0_u64.. {
        if is_over.load(Relaxed) {
            return;
        }
        pace.tick().await;
        let (first, further) = (draw.below(sidecars.len()), 1 + draw.below(sidecars.len() - 1));
        let (one, other) = (sidecars[first], sidecars[(first + further) % sidecars.len()]);
        let key = format!("key-{seed}-{number}");
        let (first, second) = (answered(one, &key, answers), answered(other, &key, answers));
        if draw.below(2) == 0 {
            futures_util::future::join(first, second).await;
        } else {
            first.await;
            second.await;
        }
    }
}
