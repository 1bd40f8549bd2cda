//! The pools of workers and their figures, answered by us where pools are configured: `GET /ojs/v1/admin/pools` and
//! `GET /ojs/v1/admin/scheduling/stats`. The figures are those of the calls that pass this sidecar; with `X-Scope: fleet` the sums that the hub has
//! of all sidecars.
//!
//! Spec: fair-scheduling 10.

use std::time::Duration;

use http::{HeaderMap, Method, Request, Response};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::net::IncomingBody;
use crate::ojs::{ErrorDocument, normal_path};
use crate::policy::{Figures, FleetFigures, Pool, PoolFigures, QueueFigures, ShownList};
use crate::proxy::{
    call::exchange::Exchange,
    state::{Proxy, Reply},
};
use crate::region::FiguresAnswer;

const POOLS: &str = "/ojs/v1/admin/pools";
/// The header that says of which sidecars the figures are, and its values; `sidecar` when absent.
const SCOPE: &str = "x-scope";
const OF_SIDECAR: &[u8] = b"sidecar";
const OF_FLEET: &[u8] = b"fleet";
/// How long a call waits for the sums of the hub: they are in its memory.
const HUB_WAIT: Duration = Duration::from_secs(5);
/// When a hub that does not answer may be back. Units: seconds.
const RETRY_AFTER: u64 = 3;

/// Whether a call is answered by us: there are pools, or it asks for the figures of the fleet, or would change pools which are those of the hub; and it
/// names no region.
pub(crate) fn is_ours(proxy: &Proxy, exchange: &Exchange, request: &Request<IncomingBody>) -> bool {
    let is_of_fleet = || *request.method() == Method::GET && matches!(asks_for_fleet(request.headers()), Ok(true));
    let is_for_hub = || *request.method() != Method::GET && proxy.shared.config.hub.is_some();
    exchange.addressed.is_none() && (!proxy.shared.pools.is_empty() || is_for_hub() || is_of_fleet())
}

/// Answers a call about pools.
///
/// Errors: 404 for a pool that there is not, and for the fleet without a hub that has its figures; 405 for a change: pools are changed at the hub, or in
/// the configuration; 400 for another scope; 503 where the hub does not answer.
pub(crate) async fn scheduling(
    proxy: &Proxy,
    exchange: &Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    if *request.method() != Method::GET {
        return Err(ErrorDocument::pools_are_configured(proxy.shared.config.hub.is_some()));
    }
    let path = normal_path(request.uri().path());
    let fleet = if asks_for_fleet(request.headers())? { Some(of_fleet(proxy).await?) } else { None };
    let figures = fleet.as_ref().map_or_else(|| proxy.shared.figures(), |fleet| fleet.figures.clone());
    let shown = |it: &PoolFigures| pool(proxy, it, fleet.is_some());
    let body = match path.strip_prefix(POOLS) {
        Some("") => {
            let items = figures.pools.iter().map(shown).collect::<Vec<_>>();
            with_scope(json!({ "items": items }), fleet.as_ref())
        }
        Some(name) => {
            let named = figures.pools.iter().find(|it| Some(&*it.name) == name.strip_prefix('/'));
            with_scope(shown(named.ok_or_else(|| ErrorDocument::not_found(&path))?), fleet.as_ref())
        }
        None => {
            let mut document = stats(&figures, fleet.is_some());
            if fleet.is_none() {
                let (starved, turns) = explained(proxy);
                (document["starved"], document["turns"]) = (starved.into(), turns.into());
            }
            with_scope(document, fleet.as_ref())
        }
    };
    Ok(exchange.json(200, body.to_string().into_bytes()))
}

/// Whether the figures are to be those of the fleet.
///
/// Errors: 400 for another value, and for several.
fn asks_for_fleet(headers: &HeaderMap) -> Result<bool, ErrorDocument> {
    let mut values = headers.get_all(SCOPE).iter().map(http::HeaderValue::as_bytes);
    match (values.next(), values.next()) {
        (None | Some(OF_SIDECAR), None) => Ok(false),
        (Some(OF_FLEET), None) => Ok(true),
        _ => Err(ErrorDocument::scope_unknown()),
    }
}

/// The sums of the hub.
async fn of_fleet(proxy: &Proxy) -> Result<FleetFigures, ErrorDocument> {
    if proxy.shared.config.hub.is_none() {
        return Err(ErrorDocument::no_fleet_figures());
    }
    let until = Instant::now() + HUB_WAIT.min(proxy.shared.config.limits.call_timeout);
    match proxy.shared.fleet_figures.ask(until).await {
        FiguresAnswer::Summed(figures) => Ok(figures),
        FiguresAnswer::Older => Err(ErrorDocument::hub_without_figures()),
        FiguresAnswer::Failed => Err(ErrorDocument::figures_unavailable(RETRY_AFTER)),
    }
}

/// Adds of which sidecars the figures of the fleet are, and how old.
fn with_scope(mut document: Value, fleet: Option<&FleetFigures>) -> Value {
    if let Some(fleet) = fleet {
        document["scope"] = "fleet".into();
        document["fleet"] = json!({
            "sidecars": fleet.sidecars,
            "sidecars_left_out": fleet.left_out,
            "rows_left_out": fleet.rows_left_out,
            "age_ms": fleet.age_ms,
        });
    }
    document
}

/// A pool with its configuration at this sidecar; of the fleet there may be pools that this sidecar does not have.
fn pool(proxy: &Proxy, figures: &PoolFigures, is_of_fleet: bool) -> Value {
    let configured = proxy.shared.pools.all().find(|it| **it.name() == *figures.name);
    let mut item = json!({
        "name": figures.name,
        "queues": configured.map(|pool| pool.queues().map(|queue| &**queue).collect::<Vec<_>>()),
        "concurrency": if is_of_fleet { figures.concurrency } else { configured.and_then(Pool::concurrency) },
        "strategy": configured.map(|pool| pool.rules().strategy.as_str()),
        "isolated": configured.map(Pool::is_isolated),
        "active_workers": figures.workers,
        "active_jobs": figures.active,
    });
    if configured.is_some_and(Pool::is_put) {
        item["source"] = "hub".into();
    }
    if let Some(rules) = configured.map(Pool::rules).filter(|rules| !rules.weights.is_empty()) {
        let weights: Map<String, Value> =
            rules.weights.iter().map(|(queue, weight)| (queue.clone(), (*weight).into())).collect();
        item["weights"] = weights.into();
    }
    if is_of_fleet {
        item["sidecars"] = figures.sidecars.into();
    }
    item
}

fn stats(figures: &Figures, is_of_fleet: bool) -> Value {
    let all = figures.queues.iter().fold(0_u64, |all, it| all.saturating_add(it.jobs));
    #[expect(clippy::cast_precision_loss, reason = "jobs of a minute")]
    let ratio = |jobs: u64| if all == 0 { 0.0 } else { (jobs as f64 / all as f64 * 10_000.0).round() / 10_000.0 };
    let queue = |it: &QueueFigures| {
        let mut row = json!({
            "name": it.name,
            "dispatch_count_1m": it.jobs,
            "dispatch_ratio_1m": ratio(it.jobs),
            "avg_wait_ms": it.wait_ms(),
            "active_jobs": it.active,
        });
        if is_of_fleet {
            row["sidecars"] = it.sidecars.into();
        }
        row
    };
    json!({ "queues": figures.queues.iter().map(queue).collect::<Vec<_>>(), "window": "PT1M" })
}

/// The queues that starve, and the lists of queues that workers ask for, with the turns of each queue and the last call.
fn explained(proxy: &Proxy) -> (Vec<String>, Vec<Value>) {
    let starved = proxy.shared.tally.lock().waits.starved().into_iter().map(str::to_owned).collect();
    (starved, turns(proxy, proxy.shared.registry.clock().now()))
}

fn turns(proxy: &Proxy, now: std::time::Instant) -> Vec<Value> {
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
