//! Lists and figures over three regions: the union of the regions' own, judged by what the regions hold and were asked.

mod figures;
mod missing;
mod queues;
mod residency;
mod sharded;
mod union;

use serde_json::{Value, json};

use crate::support::{Client, Federation, IDS};

/// Numbers that look random and are the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Fills the regions' own stores: so many jobs in each.
pub fn fill(federation: &Federation, counts: [u64; 3]) {
    for (region, count) in federation.regions.iter().zip(counts) {
        region.fill("q", usize::try_from(count).unwrap());
    }
}

/// So many jobs in each region that died on their first failure, by workers of the region's own.
pub async fn dead_letters(federation: &Federation, counts: [u64; 3]) {
    for (region, count) in IDS.iter().zip(counts).filter(|(_, count)| *count > 0) {
        let sidecar = federation.sidecar_in(region, &[]).await;
        let retry = json!({ "max_attempts": 1, "on_exhaustion": "dead_letter" });
        let job = json!({ "type": "a", "args": [], "options": { "queue": "q", "retry": retry } });
        let jobs: Vec<&Value> = (0..count).map(|_| &job).collect();
        let placed = sidecar.client.post("/ojs/v1/jobs/batch", json!({ "jobs": jobs }).to_string()).await;
        assert_eq!(placed.status, 201, "{placed:?}");
        let fetch = json!({ "queues": ["q"], "worker_id": "w", "count": count }).to_string();
        let fetched = sidecar.client.post("/ojs/v1/workers/fetch", fetch).await.json();
        for job in fetched["jobs"].as_array().unwrap() {
            let failed = json!({ "job_id": job["id"], "error": { "code": "x", "message": "x", "retryable": false } });
            assert_eq!(sidecar.client.post("/ojs/v1/workers/nack", failed.to_string()).await.status, 200);
        }
    }
}

/// The ids of the items of an answer, in order.
#[track_caller]
pub fn ids(answer: &Value) -> Vec<String> {
    let items = ["jobs", "items", "events", "queues"].into_iter().find_map(|name| answer[name].as_array());
    let items = items.unwrap_or_else(|| panic!("no items in {answer}"));
    let id = |item: &Value| item["id"].as_str().or(item["name"].as_str()).unwrap().to_owned();
    items.iter().map(id).collect()
}

/// The whole list of each region by itself, in the order of the registry.
pub async fn own_lists(client: &Client, path: &str) -> Vec<Vec<String>> {
    let mut lists = Vec::new();
    for region in IDS {
        let mut own: Vec<String> = Vec::new();
        loop {
            let offset = own.len();
            let target = match path.ends_with("/admin/jobs") {
                true => format!("{path}?region={region}&per_page=100&page={}", offset / 100 + 1),
                false => format!("{path}?region={region}&limit=100&offset={offset}"),
            };
            let part = ids(&client.get(&target).await.json());
            let ended = part.len() < 100;
            own.extend(part);
            if ended {
                break;
            }
        }
        lists.push(own);
    }
    lists
}

/// What stands behind `name=` in a request target.
pub fn parameter(target: &str, name: &str) -> Option<String> {
    let pairs = target.split_once('?')?.1.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).next()
}
