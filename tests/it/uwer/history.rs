//! Tasks that are sent until they are accepted, while sidecars and the hub are killed: one job for each key. Judged at the regions' stores.
//!
//! `UWER_HISTORY_TASKS`, `UWER_HISTORY_KILLS` and `UWER_HISTORY_SEED` make it longer, and play its kills again.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ingress::{Ingress, key, sent, try_sent, uwer_job};
use super::task;
use crate::support::{Client, Process};

/// Senders at once.
const SENDERS: usize = 6;
/// Sidecars that they choose from.
const SIDECARS: usize = 3;

fn number(name: &str, usual: usize) -> usize {
    std::env::var_os(name).map_or(usual, |it| it.to_str().unwrap().parse().unwrap())
}

/// A seeded generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % bound
    }
}

/// Sends tasks until each is accepted: its key and the id of its job.
async fn send_all(
    keys: std::ops::Range<usize>,
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    seed: u64,
) -> Vec<(usize, String)> {
    let mut random = Random(seed);
    let mut accepted = Vec::new();
    for number in keys {
        let mut tries = 0;
        loop {
            tries += 1;
            assert!(tries < 2_000, "task {number} is never accepted");
            let address = addresses.lock().unwrap()[random.below(SIDECARS)];
            let client = Client::new(address);
            let answer = try_sent(&client, task(&key(number))).await;
            match answer {
                Ok(answer) if answer.status == 201 => {
                    accepted.push((number, uwer_job(&answer)));
                    break;
                }
                Ok(answer) => assert!(answer.status == 503, "{answer:?}"),
                Err(_) => {}
            }
            // A sender that is refused waits, as `Retry-After` asks it to, if shorter.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    accepted
}

#[tokio::test]
async fn each_key_is_one_job_through_kills_of_sidecars_and_the_hub() {
    let (tasks, kills) = (number("UWER_HISTORY_TASKS", 60), number("UWER_HISTORY_KILLS", 4));
    let mut random = Random(number("UWER_HISTORY_SEED", 1) as u64 * 0x9E37_79B9 + 1);
    let (ingress, mut hub) = Ingress::new("limits: { call_timeout: 500ms }").await;
    let mut sidecars: BTreeMap<usize, Process> = BTreeMap::new();
    for at in 0..SIDECARS {
        sidecars.insert(at, ingress.run(&format!("s{at}")).await);
    }
    let addresses = Arc::new(Mutex::new(sidecars.values().map(|it| it.client.address()).collect::<Vec<_>>()));
    let part = tasks.div_ceil(SENDERS);
    // Two senders have each part of the keys.
    let senders: tokio::task::JoinSet<_> = (0..SENDERS * 2)
        .map(|at| {
            let from = (at / 2) * part;
            send_all(from..(from + part).min(tasks), Arc::clone(&addresses), at as u64 + 7)
        })
        .collect();
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(random.below(400) as u64)).await;
        let at = random.below(SIDECARS + 1);
        if at == SIDECARS {
            hub.kill();
            hub = ingress.hubs.run().await;
            continue;
        }
        drop(sidecars.remove(&at));
        let again = ingress.run_alone(&format!("s{at}")).await;
        addresses.lock().unwrap()[at] = again.client.address();
        sidecars.insert(at, again);
    }
    let accepted = senders.join_all().await;
    let mut jobs: HashMap<usize, String> = HashMap::new();
    for (key, job) in accepted.into_iter().flatten() {
        let known = jobs.entry(key).or_insert_with(|| job.clone());
        assert_eq!(*known, job, "key {key} has two jobs");
    }
    assert_eq!(jobs.len(), tasks);
    let mut stored = ingress.jobs();
    stored.sort();
    let mut expected: Vec<(String, u32)> = jobs.into_values().map(|id| (id, 1)).collect();
    expected.sort();
    assert_eq!(stored, expected, "each once, and no other");
    // The store answers the same later.
    let last = sent(&sidecars[&0].client, task(&key(0))).await;
    assert_eq!(last.status, 201, "{last:?}");
}
