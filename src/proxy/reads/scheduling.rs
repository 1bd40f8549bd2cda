//! The pools of workers and their figures, answered by us where pools are configured: `GET /ojs/v1/admin/pools` and
//! `GET /ojs/v1/admin/scheduling/stats`. The figures are those of the calls that pass this sidecar.
//!
//! Spec: fair-scheduling 10.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use http::{Method, Request, Response};
use serde_json::{Map, Value, json};

use crate::net::IncomingBody;
use crate::ojs::{ErrorDocument, normal_path};
use crate::policy::{Pool, ShownList};
use crate::proxy::{
    call::exchange::Exchange,
    state::{Proxy, Reply},
};

const POOLS: &str = "/ojs/v1/admin/pools";

/// Whether a call is answered by us: pools are configured, and it names no region.
pub(crate) fn is_ours(proxy: &Proxy, exchange: &Exchange) -> bool {
    !proxy.shared.pools.is_empty() && exchange.addressed.is_none()
}

/// Answers a call about pools.
///
/// Errors: 404 for a pool that is not configured; 405 for a change: pools are changed in the configuration.
pub(crate) fn scheduling(
    proxy: &Proxy,
    exchange: &Exchange,
    request: &Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    if *request.method() != Method::GET {
        return Err(ErrorDocument::pools_are_configured());
    }
    let path = normal_path(request.uri().path());
    let figures = Figures::now(proxy);
    let body = match path.strip_prefix(POOLS) {
        Some("") => {
            json!({ "items": proxy.shared.pools.all().map(|it| pool(proxy, &figures, it)).collect::<Vec<_>>() })
        }
        Some(name) => {
            let named = proxy.shared.pools.all().find(|it| Some(&**it.name()) == name.strip_prefix('/'));
            pool(proxy, &figures, named.ok_or_else(|| ErrorDocument::not_found(&path))?)
        }
        None => stats(proxy, &figures),
    };
    Ok(exchange.json(200, body.to_string().into_bytes()))
}

/// The jobs that workers hold now.
struct Figures {
    by_pool: BTreeMap<Arc<str>, u64>,
    by_queue: BTreeMap<Arc<str>, u64>,
}

impl Figures {
    fn now(proxy: &Proxy) -> Self {
        let (mut by_pool, mut by_queue) = (BTreeMap::new(), BTreeMap::new());
        proxy.shared.journal.taken_places(|place| {
            for (names, name) in [(&mut by_pool, &place.pool), (&mut by_queue, &place.queue)] {
                if let Some(name) = name {
                    *names.entry(Arc::clone(name)).or_default() += 1;
                }
            }
        });
        Self { by_pool, by_queue }
    }
}

fn pool(proxy: &Proxy, figures: &Figures, pool: &Pool) -> Value {
    let now = proxy.shared.registry.clock().now();
    let rules = pool.rules();
    let mut item = json!({
        "name": **pool.name(),
        "queues": pool.queues().map(|queue| &**queue).collect::<Vec<_>>(),
        "concurrency": pool.concurrency(),
        "strategy": rules.strategy.as_str(),
        "isolated": pool.is_isolated(),
        "active_workers": proxy.shared.tally.lock().workers(pool.name(), now),
        "active_jobs": figures.by_pool.get(pool.name()).copied().unwrap_or(0),
    });
    if !rules.weights.is_empty() {
        let weights: Map<String, Value> =
            rules.weights.iter().map(|(queue, weight)| (queue.clone(), (*weight).into())).collect();
        item["weights"] = weights.into();
    }
    item
}

fn stats(proxy: &Proxy, figures: &Figures) -> Value {
    let now = proxy.shared.registry.clock().now();
    let names: BTreeSet<&Arc<str>> = proxy.shared.pools.all().flat_map(Pool::queues).collect();
    let mut tally = proxy.shared.tally.lock();
    let rows: Vec<_> = names.into_iter().map(|name| (name, tally.queue(name, now))).collect();
    let starved: Vec<String> = tally.waits.starved().map(str::to_owned).collect();
    drop(tally);
    let all: u64 = rows.iter().map(|(_, it)| it.jobs).sum();
    #[expect(clippy::cast_precision_loss, reason = "jobs of a minute")]
    let ratio = |jobs: u64| if all == 0 { 0.0 } else { (jobs as f64 / all as f64 * 10_000.0).round() / 10_000.0 };
    let queue = |(name, it): &(&Arc<str>, crate::policy::Dispatched)| {
        json!({
            "name": ***name,
            "dispatch_count_1m": it.jobs,
            "dispatch_ratio_1m": ratio(it.jobs),
            "avg_wait_ms": it.wait_ms,
            "active_jobs": figures.by_queue.get(*name).copied().unwrap_or(0),
        })
    };
    let rows: Vec<Value> = rows.iter().map(queue).collect();
    json!({ "queues": rows, "window": "PT1M", "starved": starved, "turns": turns(proxy, now) })
}

/// The lists of queues that workers ask for, with the turns of each queue and the last call.
fn turns(proxy: &Proxy, now: Instant) -> Vec<Value> {
    let lists = proxy.shared.queue_turns.lock();
    let list = |list: ShownList<'_>| {
        let queues = list.queues.iter().zip(list.turns.queues());
        let queues: Vec<Value> = queues
            .map(|(name, turn)| json!({ "name": name, "behind": hundredths(turn.behind), "owed": hundredths(turn.owed) }))
            .collect();
        let last = list.turns.last().map(|last| {
            json!({
                "first": list.queues.get(last.head),
                "reason": last.reason.as_str(),
                "jobs": last.came,
                "age_s": now.saturating_duration_since(last.at).as_secs(),
            })
        });
        json!({
            // A list may be of a region that a new configuration does not have.
            "region": proxy.shared.registry.regions().get(list.region.get()).map(|region| region.id.as_str()),
            "pool": list.rules.pool.as_deref(),
            "strategy": list.rules.strategy.as_str(),
            "queues": queues,
            "last_fetch": last,
        })
    };
    lists.all().map(list).collect()
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
