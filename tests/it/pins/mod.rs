//! A pinned job is never seen by a region it is not pinned to, whatever is sent, in whatever disguise, and whatever fails.
//!
//! A seed draws rounds: perhaps something breaks or recovers, then several clients call at once. Every job carries a mark of
//! its own in its type, its queue, its arguments and its meta; at the end the marks that arrived at each region's socket are
//! held against those that it may know. `PIN_SEED=7` replays one seed: the same calls and the same faults in the same order,
//! while the threads race as they like.

mod body;
mod call;
mod chaos;
mod disguise;
mod journal;
mod script;
mod several;

use std::collections::BTreeSet;

use ojs_testbed::DemoRegion;

use crate::support::{Federation, IDS, Setup};
use call::{Call, Sight};
use chaos::Chaos;
use script::{Script, marks_in};

const SEEDS: u64 = 8;
const ROUNDS: usize = 100;
/// Calls of one round, all at once.
const CALLS_AT_ONCE: usize = 4;

/// Short timeouts, so that what hangs does not hang the test; everything else goes by the steered clock.
const CONFIG: &str = "
limits: { call_timeout: 250ms, connect_timeout: 250ms, stream_idle_timeout: 250ms, json_depth: 64, worker_threads: 2 }
health_check: { interval: 2s, timeout: 250ms }
circuit_breaker: { failure_threshold: 4, cooldown: 5s, slow_start: 1s }
load: { interval: 1s }
failover: { retry_budget: { ratio: 1, floor: 1000 } }
routing: { geographic: { meta_key: country, regions: { DE: eu-west-1, IN: ap-south-1 } } }
";

#[tokio::test]
async fn a_pinned_job_is_never_seen_by_a_region_it_is_not_pinned_to() {
    let journal = journal::install();
    let replayed: Option<u64> = std::env::var_os("PIN_SEED").map(|seed| seed.to_str().unwrap().parse().unwrap());
    let mut stored = [0; IDS.len()];
    for seed in replayed.map_or(0..SEEDS, |seed| seed..seed + 1) {
        for (sum, stored) in stored.iter_mut().zip(run(seed).await) {
            *sum += stored;
        }
    }
    // A program that refuses everything would leak nothing, too.
    assert!(stored.iter().all(|stored| *stored > 0), "no pinned job was stored somewhere: {stored:?}");
    if let Some(journal) = journal {
        assert!(!journal.text().is_empty(), "breakers opened and nothing was logged");
        assert_eq!(marks_in(&journal.without_routing()), BTreeSet::new(), "our own log shows what jobs hold");
    }
}

/// Runs one seed and counts the pinned jobs that their regions have stored.
async fn run(seed: u64) -> [usize; IDS.len()] {
    let mut script = Script::new(seed);
    let setup = Setup::default().yaml(CONFIG).steered();
    // Only these have bulk enqueues.
    let setup = if seed % 2 == 1 { setup.by_the_documents() } else { setup };
    let mut federation = if seed % 4 == 3 { setup.http2() } else { setup }.start().await;
    let mut chaos = Chaos::default();
    let mut calls: Vec<Call> = Vec::new();
    let mut answers: Vec<Vec<u8>> = Vec::new();
    for _ in 0..ROUNDS {
        chaos.step(&mut script, &mut federation).await;
        let round: Vec<Call> = (0..CALLS_AT_ONCE).map(|_| call::draw(&mut script)).collect();
        let client = federation.client;
        let under_way: Vec<_> = round
            .iter()
            .map(|call| (call.bytes(), call.vanishes))
            .map(|(bytes, vanishes)| tokio::spawn(async move { call::make(client, &bytes, vanishes).await }))
            .collect();
        for (call, answer) in round.into_iter().zip(under_way) {
            answers.push(answer.await.unwrap());
            calls.push(call);
        }
    }
    chaos.recover(&mut federation).await;
    judge(seed, &federation, &calls, &answers).await
}

async fn judge(seed: u64, federation: &Federation, calls: &[Call], answers: &[Vec<u8>]) -> [usize; IDS.len()] {
    let mut stored = [0; IDS.len()];
    for (place, region) in federation.regions.iter().enumerate() {
        let seen = seen_by(region);
        let jobs: BTreeSet<u64> = region.jobs().iter().flat_map(|job| marks_in(job.kind.as_bytes())).collect();
        for (call, answer) in calls.iter().zip(answers) {
            let replay = || {
                let (region, request, answer) = (region.id(), call.bytes(), String::from_utf8_lossy(answer));
                format!("PIN_SEED={seed}, {region}:\n{}\n\n{answer}", String::from_utf8_lossy(&request))
            };
            for (mark, sight) in &call.marks {
                let here = seen.contains(mark);
                let allowed = match *sight {
                    Sight::Anyone => true,
                    Sight::Only(only) => only == place,
                    Sight::Nobody => false,
                };
                assert!(allowed || !here, "a job reached a region that it may not reach: {mark}. {}", replay());
                if *sight == Sight::Only(place) {
                    let claimed = call.is_enqueue && answer.starts_with(b"HTTP/1.1 201");
                    assert!(!claimed || jobs.contains(mark), "called stored and is not: {mark}. {}", replay());
                    stored[place] += usize::from(jobs.contains(mark));
                }
            }
        }
    }
    for (answer, call) in answers.iter().zip(calls).filter(|(_, call)| call.is_hidden()) {
        let told = marks_in(answer);
        let is_silent = call.marks.iter().all(|(mark, _)| !told.contains(mark));
        assert!(is_silent, "PIN_SEED={seed}: {}", String::from_utf8_lossy(answer));
    }
    assert_eq!(marks_in(&federation.admin.get("/metrics").await.body), BTreeSet::new(), "PIN_SEED={seed}");
    stored
}

/// The marks in all that ever arrived at a region: raw bytes after TLS, and targets, headers and bodies as it read them.
fn seen_by(region: &DemoRegion) -> BTreeSet<u64> {
    let record = region.record();
    assert!(!record.is_truncated());
    let mut seen = BTreeSet::new();
    for bytes in record.raw_bytes() {
        seen.append(&mut marks_in(&bytes));
    }
    for request in record.requests() {
        seen.append(&mut marks_in(request.path.as_bytes()));
        seen.append(&mut marks_in(&request.body));
        for (name, value) in &request.headers {
            seen.append(&mut marks_in(name.as_str().as_bytes()));
            seen.append(&mut marks_in(value.as_bytes()));
        }
    }
    seen
}
