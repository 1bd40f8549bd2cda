//! Workers that read a queue with shards at a region, without a sidecar: they miss the jobs of its tenants.

use http::StatusCode;
use serde::Deserialize;

use crate::config::Config;
use crate::net::pool::Pool;
use crate::ojs::shards::Shards;
use crate::proxy::shards_of;
use crate::region::{Region, ask};

/// Workers of one question.
const PER_PAGE: usize = 100;
/// Pages that are read of one region: 2 000 workers.
const PAGES_MAX: usize = 20;

/// The members of `GET /ojs/v1/admin/workers` that are looked at. Spec: ojs-protocol 2.8.
#[derive(Deserialize)]
struct Page {
    items: Vec<Worker>,
}

#[derive(Deserialize)]
struct Worker {
    id: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    queues: Vec<String>,
}

/// A sentence for each worker of a region that reads a queue with shards directly, and one where the region does not list its workers. None where no
/// queue has shards.
pub(super) async fn warnings(config: &Config, region: &Region, pool: &Pool) -> Vec<String> {
    let Some(shards) = shards_of(&config.scheduling) else { return Vec::new() };
    let mut direct = Vec::new();
    for page in 1..=PAGES_MAX {
        let path = format!("/ojs/v1/admin/workers?page={page}&per_page={PER_PAGE}");
        let answer = ask(region, pool, &path, config.health_check.timeout).await;
        let body = answer.ok().filter(|(status, _)| *status == StatusCode::OK).map(|(_, body)| body);
        let Some(listed) = body.and_then(|body| serde_json::from_slice::<Page>(&body).ok()) else {
            direct.push(
                "does not list its workers (GET /ojs/v1/admin/workers); see by yourself that none of them reads a queue of \
                 scheduling.tenant_queues without a sidecar"
                    .to_owned(),
            );
            break;
        };
        direct.extend(listed.items.iter().filter_map(|worker| warning(&shards, worker)));
        if listed.items.len() < PER_PAGE {
            break;
        }
    }
    direct
}

/// Calls through a sidecar name all shards beside the queue.
fn warning(shards: &Shards, worker: &Worker) -> Option<String> {
    let is_named = |name: String| worker.queues.contains(&name);
    let missed = |queue: &&String| shards.queue(queue).is_some_and(|sharded| !sharded.names().skip(1).any(is_named));
    let queue = worker.queues.iter().find(missed).filter(|_| worker.state != "stale")?;
    let id = &worker.id;
    Some(format!(
        "worker {id} reads the queue {queue} without its shards, and misses the jobs of tenants; have it go through a sidecar"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ojs::shards::ShardedQueue;

    #[test]
    fn a_worker_that_names_no_shard_reads_the_queue_directly() {
        let shards = Shards::of(vec![ShardedQueue::new("email", 2, &[], &[].into(), 1, true)]).unwrap();
        let warned = |state: &str, queues: &[&str]| {
            let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
            warning(&shards, &Worker { id: "w-7".to_owned(), state: state.to_owned(), queues }).is_some()
        };
        assert!(warned("running", &["sms", "email"]));
        assert!(!warned("running", &["email", "email.ojs-t00", "email.ojs-t01"]));
        assert!(!warned("running", &["sms"]));
        assert!(!warned("stale", &["email"]));
    }
}
