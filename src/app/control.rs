//! The control thread: everything that must never delay a job.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use super::World;
use crate::admin::{self, AdminState, Readiness, RegionState};
use crate::api;
use crate::net::ConnectionPermits;
use crate::net::pool::Pool;
use crate::proxy::{Random, Shared, is_usable, pool_limits, pool_meters};
use crate::region::{LoadPoller, Prober, names};
use crate::telemetry::{CertificateKind, Metrics, event};

/// A runtime for one thread, on which nothing has to be `Send`.
pub(super) fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

/// Starts name resolution, probes and load polls of every region.
pub(super) fn spawn_loops(shared: &Arc<Shared>, world: &World, readiness: &Readiness) {
    let first_round = Rc::new(readiness.block("first round of probes"));
    let random = Random::default();
    for region in shared.registry.regions() {
        let metrics = shared.metrics.region(region.index.get());
        tell_certificates(shared, region);
        let pool = Pool::new(pool_limits(&shared.config), pool_meters(metrics));
        let prober = Prober {
            index: region.index,
            registry: Arc::clone(&shared.registry),
            pool: pool.clone(),
            config: shared.config.health_check.clone(),
            metrics: Arc::clone(&shared.metrics),
            draw: random.draw(),
        };
        let poller = LoadPoller {
            index: region.index,
            registry: Arc::clone(&shared.registry),
            traffic: Arc::clone(&shared.traffic),
            pool,
            config: shared.config.load.clone(),
            health: shared.config.health_check.clone(),
        };
        spawn_region(shared, world, Arc::clone(region), prober, poller, Rc::clone(&first_round));
    }
    refresh_before_scrapes(shared);
}

fn spawn_region(
    shared: &Arc<Shared>,
    world: &World,
    region: Arc<crate::region::Region>,
    prober: Prober,
    poller: LoadPoller,
    first_round: Rc<admin::ReadinessGuard>,
) {
    let (resolver, clock) = (Arc::clone(&world.resolver), world.clock.clone());
    let metrics = Arc::clone(&shared.metrics);
    // The first probe needs an address; a name that does not resolve makes it fail, which is what it is for.
    let probe = move || drop(tokio::task::spawn_local(prober.run(move || drop(first_round))));
    tokio::task::spawn_local(names::keep_resolved(region, resolver, clock, metrics, probe));
    tokio::task::spawn_local(poller.run());
}

/// Serves metrics, liveness and readiness.
pub(super) fn spawn_admin(shared: &Arc<Shared>, readiness: &Readiness, listener: &std::net::TcpListener) {
    let state = AdminState {
        metrics: Arc::clone(&shared.metrics),
        readiness: readiness.clone(),
        require_region: shared.config.readiness.require_region,
        regions: region_states(shared),
    };
    let listener = listener.try_clone();
    tokio::task::spawn_local(async move {
        let served = match listener {
            Ok(listener) => admin::serve(listener, state, std::future::pending()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            tracing::error!(target: "ojs_federation", %error, "the admin listener cannot be served");
        }
    });
}

fn region_states(shared: &Arc<Shared>) -> Arc<dyn Fn() -> Vec<RegionState> + Send + Sync> {
    let registry = Arc::clone(&shared.registry);
    Arc::new(move || {
        let view = registry.view();
        let state = |region: &crate::policy::RegionView| RegionState {
            id: region.id.clone(),
            status: api::status(region),
            circuit_breaker: region.breaker.as_str(),
            is_usable: is_usable(region),
        };
        view.regions.iter().map(state).collect()
    })
}

/// Sets the gauges whose truth lies in the view and the budget, when somebody looks.
fn refresh_before_scrapes(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    shared.metrics.before_render(move || {
        let Some(shared) = weak.upgrade() else { return };
        let now = shared.registry.clock().now();
        let available = u32::try_from(shared.budget.available(now)).unwrap_or(u32::MAX);
        shared.metrics.retry_budget_available.set(f64::from(available));
        let view = shared.registry.view();
        for (region, metrics) in view.regions.iter().zip(shared.metrics.regions()) {
            let newest =
                region.load.total().or_else(|| region.load.queues().map(|(_, figure)| figure).max_by_key(|it| it.at));
            let Some(newest) = newest else { continue };
            let depth =
                region.load.total().map_or_else(|| region.load.queues().map(|(_, it)| it.depth).sum(), |it| it.depth);
            #[expect(clippy::cast_precision_loss, reason = "a number of jobs is far below 2^53")]
            metrics.load.set(depth as f64);
            metrics.load_age.set(now.saturating_duration_since(newest.at).as_secs_f64());
        }
    });
}

/// Counts open client connections, when somebody looks.
pub(super) fn count_connections(metrics: &Metrics, permits: &ConnectionPermits) {
    let (gauge, permits) = (metrics.client_connections.clone(), permits.clone());
    metrics.before_render(move || gauge.set(i64::try_from(permits.open()).unwrap_or(i64::MAX)));
}

fn tell_certificates(shared: &Shared, region: &crate::region::Region) {
    let Some(tls) = region.tls() else { return };
    let metrics = shared.metrics.region(region.index.get());
    let now_ms = shared.registry.clock().unix_ms();
    for (kind, expiry) in [(CertificateKind::Client, tls.client_expiry), (CertificateKind::Ca, tls.ca_expiry)] {
        if let Some(expiry) = expiry {
            event::certificate_seen(metrics, kind, expiry, now_ms);
        }
    }
}
