//! A worker or two, so that some copies have started when the sidecar looks at them.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::acks::Ack;
use super::ask::ask;
use super::client::World;
use super::ledger::id_of;

/// The queue that is worked off.
pub(super) const QUEUE: &str = "video";
/// Between two fetches.
const EVERY: Duration = Duration::from_millis(100);
/// A call that takes longer is given up: its jobs go back to their queue.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches and acknowledges until it is aborted; a failed job is left to its lease.
pub(super) async fn work(world: Rc<World>, name: &'static str) {
    loop {
        tokio::time::sleep(EVERY).await;
        let address = world.address.get().to_string();
        let wanted = json!({ "queues": [QUEUE], "count": 10, "worker_id": name });
        let fetched = post(&address, "/ojs/v1/workers/fetch", &wanted).await.unwrap_or_default();
        for job in fetched["jobs"].as_array().into_iter().flatten() {
            let taken = post(&address, "/ojs/v1/workers/ack", &json!({ "job_id": job["id"], "result": {} })).await;
            if let (Some(_), Some(id)) = (taken, job["id"].as_str().and_then(id_of)) {
                world.acks.borrow_mut().push(Ack(id));
            }
        }
    }
}

/// The document of a success.
async fn post(address: &str, path: &str, body: &Value) -> Option<Value> {
    let asked = ask(address, Method::POST, path, Bytes::from(body.to_string()));
    let (head, answer) = tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?;
    if head.status.is_success() { serde_json::from_slice(&answer).ok() } else { None }
}
