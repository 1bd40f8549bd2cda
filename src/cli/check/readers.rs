//! Workers that read a queue with shards at a region, without a sidecar: they miss the jobs of its tenants.

use http::StatusCode;
use serde::Deserialize;

use crate::config::Config;
use crate::net::pool::Pool;
use crate::ojs::shards::Shards;
use crate::proxy::shards_of;
use crate::region::{Region, ask};

/// Workers of one question: each may name 129 queues, and an answer is bounded.
const PER_PAGE: usize = 20;
/// Pages that are read of one region: 2 000 workers.
const PAGES_MAX: usize = 100;

/// The members of `GET /ojs/v1/admin/workers` that are looked at. Spec: ojs-protocol 2.8.
#[derive(Deserialize)]
struct Page {
    items: Vec<Worker>,
    #[serde(default)]
    pagination: Pagination,
}

#[derive(Deserialize, Default)]
struct Pagination {
    total: Option<usize>,
}

#[derive(Deserialize)]
struct Worker {
    id: String,
    #[serde(default)]
    state: String,
    /// Not every server has them.
    queues: Option<Vec<String>>,
}

/// A sentence for each worker of a region that reads a queue with shards directly, and one where the region does not say which queues they read. None where no
/// queue has shards.
pub(super) async fn warnings(config: &Config, region: &Region, pool: &Pool) -> Vec<String> {
    let Some(shards) = shards_of(&config.scheduling) else { return Vec::new() };
    let (mut direct, mut read) = (Vec::new(), 0);
    for page in 1..=PAGES_MAX {
        let path = format!("/ojs/v1/admin/workers?page={page}&per_page={PER_PAGE}");
        let listed = match ask(region, pool, &path, config.health_check.timeout).await {
            Ok((StatusCode::OK, body)) => {
                serde_json::from_slice::<Page>(&body).map_err(|_| "answers with no list".to_owned())
            }
            Ok((status, _)) => Err(format!("answers {}", status.as_u16())),
            Err(error) => Err(error.to_string()),
        };
        let listed = match listed {
            Ok(listed) => listed,
            Err(fault) => {
                direct.push(unsaid(&format!("GET /ojs/v1/admin/workers: {fault}")));
                break;
            }
        };
        if listed.items.iter().any(|worker| worker.queues.is_none()) {
            direct.push(unsaid("GET /ojs/v1/admin/workers has no queues of workers"));
            break;
        }
        direct.extend(listed.items.iter().filter_map(|worker| warning(&shards, worker)));
        read += listed.items.len();
        if listed.items.is_empty()
            || listed.pagination.total.map_or(listed.items.len() < PER_PAGE, |total| read >= total)
        {
            break;
        }
    }
    direct
}

fn unsaid(fault: &str) -> String {
    format!(
        "does not say which queues its workers read ({fault}); see by yourself that none of them reads a queue of scheduling.tenant_queues \
         without a sidecar"
    )
}

/// Calls through a sidecar name all shards beside the queue.
fn warning(shards: &Shards, worker: &Worker) -> Option<String> {
    let queues = worker.queues.as_ref()?;
    let is_named = |name: String| queues.contains(&name);
    let missed = |queue: &&String| shards.queue(queue).is_some_and(|sharded| !sharded.names().skip(1).any(is_named));
    let queue = queues.iter().find(missed).filter(|_| worker.state != "stale")?;
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
            let queues = Some(queues.iter().map(|queue| (*queue).to_owned()).collect());
            warning(&shards, &Worker { id: "w-7".to_owned(), state: state.to_owned(), queues }).is_some()
        };
        assert!(warned("running", &["sms", "email"]));
        assert!(!warned("running", &["email", "email.ojs-t00", "email.ojs-t01"]));
        assert!(!warned("running", &["sms"]));
        assert!(!warned("stale", &["email"]));
    }
}
