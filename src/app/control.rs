//! The control thread: everything that must never delay a job.

use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use super::hub::{follow_hub, hub_views};
use super::notes::Notes;
use super::resolver::Resolver;
use super::restarted::restarted;
use super::scheduling;
use super::switches;
use super::world::World;
use crate::admin::{self, AdminState, LogLevel, Readiness, ReadinessGuard, RegionState, Settling, Spooling, Switching};
use crate::api;
use crate::base::{Clock, Draw, SwitchKind};
use crate::config::{Config, HealthSource, Listen};
use crate::net::ConnectionPermits;
use crate::net::own::OwnNetwork;
use crate::net::pool::{Pool, PoolLimits};
use crate::outcome::State;
use crate::proxy::{Random, Shared, is_usable, pool_limits, pool_meters};
use crate::region::views::{HubViews, Trust};
use crate::region::{LoadPoller, Looker, Prober, Region, Registry, Rounds, names, tick};
use crate::telemetry::{CertificateKind, Metrics, OpenFate, RegionMetrics, SpoolFate, event};

/// Our own network is looked at this often at most, and while it does not pass its check.
const OWN_CHECK_EVERY: Duration = Duration::from_secs(1);

/// So many tasks run before new events are asked for, all that the last events woke among them: connections go through one step
/// together, and the code of that step stays in the caches of the core. Small calls' steps take some 4 µs, so that an event waits a
/// millisecond for them.
const EVENT_INTERVAL: u32 = 256;
/// Socket events that are taken in at once: the state of as many calls stays in the core's caches until their next
/// step, and they are enough to share the code of each step.
const EVENTS_MAX: usize = 40;

/// A runtime for one thread, on which nothing has to be `Send`.
///
/// Errors: the system's, when there are no descriptors left.
pub(super) fn runtime() -> io::Result<LocalRuntime> {
    // The first runtime of a process panics without descriptors for its signals; so they are tested before.
    let room = [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    drop(room);
    let mut builder = Builder::new_current_thread();
    builder.event_interval(EVENT_INTERVAL).max_io_events_per_tick(EVENTS_MAX);
    builder.enable_all().build_local(LocalOptions::default())
}

/// The control loops of one configuration; dropped, they end.
#[derive(Debug)]
pub(super) struct Loops(#[expect(dead_code, reason = "held for its drop, which ends the loops")] JoinSet<()>);

/// Starts name resolution, probes and load polls of every region, and the clearing up of unknown outcomes.
/// `first_round` is held until each region was probed once.
pub(super) fn start_loops(
    shared: &Arc<Shared>,
    world: &World,
    notes: &Notes,
    first_round: Option<Rc<ReadinessGuard>>,
) -> Loops {
    let random = Random::default();
    let mut loops = JoinSet::new();
    let rounds = Rc::new(Rounds::new(shared.config.health_check.interval, random.draw()));
    let pace = Pace { rounds, views: hub_views(shared, &random) };
    loops.spawn_local(tick(Arc::clone(&shared.registry)));
    for region in shared.registry.regions() {
        log_certificates(shared, region);
        let (shared, world) = (Arc::clone(shared), world.clone());
        let (region, pace) = (Arc::clone(region), pace.clone());
        let (mut first_round, clock) = (first_round.clone(), world.clock.clone());
        let draw = [random.draw(), random.draw()];
        let watch = move || watch_region(&shared, &world, &region, &pace, draw, first_round.take());
        loops.spawn_local(restarted(clock, watch));
    }
    let resolving = Arc::clone(shared);
    loops.spawn_local(restarted(world.clock.clone(), move || Resolver::new(Arc::clone(&resolving)).run()));
    let switching = Arc::clone(shared);
    loops.spawn_local(restarted(world.clock.clone(), move || switches::keep_in_force(Arc::clone(&switching))));
    if shared.pools.name_queues() {
        let scheduling = Arc::clone(shared);
        loops.spawn_local(restarted(world.clock.clone(), move || scheduling::watch(Arc::clone(&scheduling))));
    }
    follow_hub(&mut loops, shared, world, notes, pace.views.as_ref());
    let (registry, clock) = (Arc::clone(&shared.registry), world.clock.clone());
    let watch = move || watch_own_network(Arc::clone(&registry), clock.clone());
    loops.spawn_local(restarted(world.clock.clone(), watch));
    Loops(loops)
}

/// When regions are probed: in rounds, and only where the hub's views do not stand for that.
#[derive(Debug, Clone)]
struct Pace {
    rounds: Rc<Rounds>,
    views: Option<Rc<HubViews>>,
}

/// Resolves the name of one region, probes it and polls its load, for ever.
fn watch_region(
    shared: &Arc<Shared>,
    world: &World,
    region: &Arc<Region>,
    pace: &Pace,
    draw: [Draw; 2],
    first_round: Option<Rc<ReadinessGuard>>,
) -> impl Future<Output = ()> + use<> {
    let metrics = shared.metrics.region(region.index.get());
    let pool = Pool::new(pool_limits(&shared.config), pool_meters(metrics));
    let [of_prober, of_looker] = draw;
    let trust = Trust::of(&shared.config, region.config());
    let views = pace.views.clone().filter(|_| trust != Trust::Never);
    let (first_view, index) = (views.clone().filter(|_| trust == Trust::Alone), region.index);
    let prober = Prober {
        index: region.index,
        registry: Arc::clone(&shared.registry),
        pool: pool.clone(),
        config: shared.config.health_check.clone(),
        early: shared.config.circuit_breaker.early_probe,
        rounds: Rc::clone(&pace.rounds),
        metrics: Arc::clone(&shared.metrics),
        draw: of_prober,
        views: views.clone(),
        on_report: None,
    };
    let looker = Looker {
        index: region.index,
        registry: Arc::clone(&shared.registry),
        pool: Pool::new(PoolLimits { idle_max: 0, ..pool_limits(&shared.config) }, pool_meters(metrics)),
        config: shared.config.health_check.clone(),
        draw: of_looker,
    };
    let poller = LoadPoller {
        index: region.index,
        registry: Arc::clone(&shared.registry),
        traffic: Arc::clone(&shared.traffic),
        pool,
        config: shared.config.load.clone(),
        health: shared.config.health_check.clone(),
        views,
        shards: shared.shards.clone(),
    };
    let (resolver, clock) = (Arc::clone(&world.resolver), world.clock.clone());
    let (region, metrics) = (Arc::clone(region), Arc::clone(&shared.metrics));
    async move {
        let resolved = Notify::new();
        tokio::join!(
            names::keep_resolved(region, resolver, clock, metrics, || resolved.notify_one()),
            async {
                // A probe needs an address; with a name that does not resolve it fails, as it should.
                resolved.notified().await;
                match first_view {
                    None => prober.run(move || drop(first_round)).await,
                    // Another spoke: the hub probes it.
                    Some(views) => {
                        views.first(index).await;
                        drop(first_round);
                    }
                }
            },
            poller.run(),
            async {
                if trust != Trust::Alone {
                    looker.run().await;
                }
            },
        );
    }
}

/// Checks our own network when every region fails at once, and again while it does not pass, for ever.
async fn watch_own_network(registry: Arc<Registry>, clock: Clock) {
    let mut network = OwnNetwork::default();
    loop {
        registry.all_fail().await;
        registry.on_own_check(network.passes());
        // In an outage every failed call asks for a check; one a second is enough.
        clock.sleep(OWN_CHECK_EVERY).await;
        while registry.is_suspect() {
            registry.on_own_check(network.passes());
            clock.sleep(OWN_CHECK_EVERY).await;
        }
    }
}

/// Serves metrics, liveness, readiness and orders of operators, at the admin address and at the control socket if there is one, for ever.
pub(super) fn spawn_admin(
    current: &Arc<ArcSwap<Shared>>,
    readiness: &Readiness,
    notes: &Notes,
    world: &World,
    (listener, control): (admin::Listener, Option<admin::Listener>),
) -> JoinHandle<()> {
    let shared = current.load();
    let state = AdminState {
        metrics: Arc::clone(&shared.metrics),
        readiness: readiness.clone(),
        require_region: shared.config.readiness.require_region,
        regions: region_states(current),
        listen: listen_now(current),
        notes: all_notes(current, notes),
        state: state_now(current),
        configs: configs_now(current),
        log_level: LogLevel {
            log: world.source.as_ref().and_then(|source| source.log.clone()),
            is_local: shared.config.listen.admin.ip().is_loopback(),
            clock: world.clock.clone(),
        },
        settling: Settling {
            journal: Arc::clone(&shared.journal),
            metrics: Arc::clone(&shared.metrics),
            is_local: shared.config.listen.admin.ip().is_loopback(),
        },
        switching: Switching {
            journal: Arc::clone(&shared.journal),
            config: config_now(current),
            apply: apply_switches(current),
            is_local: shared.config.listen.admin.ip().is_loopback(),
        },
        spooling: Spooling {
            spool: shared.spool.clone(),
            metrics: Arc::clone(&shared.metrics),
            is_local: shared.config.listen.admin.ip().is_loopback(),
        },
    };
    show_readiness(current, &state);
    let at_socket = control.map(|it| admin::serve(it, state.clone().on_this_machine(), std::future::pending()));
    let at_socket = async move {
        match at_socket {
            Some(serving) => serving.await,
            None => std::future::pending().await,
        }
    };
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = admin::serve(listener, state, std::future::pending()) => {}
            () = at_socket => {}
        }
    })
}

fn state_now(current: &Arc<ArcSwap<Shared>>) -> Arc<dyn Fn() -> Value + Send + Sync> {
    let current = Arc::clone(current);
    Arc::new(move || api::state(&current.load()))
}

fn config_now(current: &Arc<ArcSwap<Shared>>) -> Arc<dyn Fn() -> Config + Send + Sync> {
    let current = Arc::clone(current);
    Arc::new(move || current.load().config.clone())
}

/// Puts the journal's switches in force, so that they are when their operator gets the answer.
fn apply_switches(current: &Arc<ArcSwap<Shared>>) -> Arc<dyn Fn() + Send + Sync> {
    let current = Arc::clone(current);
    Arc::new(move || {
        current.load().apply_switches();
    })
}

fn configs_now(current: &Arc<ArcSwap<Shared>>) -> Arc<dyn Fn() -> (Config, Config) + Send + Sync> {
    let current = Arc::clone(current);
    Arc::new(move || {
        let shared = current.load();
        (shared.config.clone(), Config::clone(&shared.asked))
    })
}

/// The findings of the last look at the files, and whether our own network is suspected.
fn all_notes(current: &Arc<ArcSwap<Shared>>, notes: &Notes) -> Arc<dyn Fn() -> Vec<String> + Send + Sync> {
    let (current, notes) = (Arc::clone(current), notes.reader());
    Arc::new(move || {
        let mut all = notes();
        if current.load().registry.is_suspect() {
            all.push("network: all regions fail and so does this pod's own network; the regions are shown as they were before".to_owned());
        }
        all
    })
}

fn listen_now(current: &Arc<ArcSwap<Shared>>) -> Arc<dyn Fn() -> Listen + Send + Sync> {
    let current = Arc::clone(current);
    Arc::new(move || current.load().config.listen.clone())
}

/// Sets the gauge by the rule of `/readyz`, at each scrape.
fn show_readiness(current: &Arc<ArcSwap<Shared>>, state: &AdminState) {
    let (weak, readiness, require_region) = (Arc::downgrade(current), state.readiness.clone(), state.require_region);
    state.metrics.before_render(move || {
        let Some(current) = weak.upgrade() else { return };
        let shared = current.load();
        let served = !require_region || shared.registry.view().regions.iter().any(is_usable);
        let ready = served && readiness.waiting_for().is_empty() && !readiness.is_draining();
        shared.metrics.ready.set(i64::from(ready));
    });
}

fn region_states(current: &Arc<ArcSwap<Shared>>) -> Arc<dyn Fn() -> Vec<RegionState> + Send + Sync> {
    let current = Arc::clone(current);
    Arc::new(move || {
        let shared = current.load();
        let view = shared.registry.view();
        let state = |(region, known): (&crate::policy::RegionView, &Arc<crate::region::Region>)| RegionState {
            id: region.id.clone(),
            status: api::status(region),
            circuit_breaker: region.breaker.as_str(),
            is_usable: is_usable(region),
            last_error: known.trouble().map(|it| (it.reason, format!("{}: {}", it.address, it.message))),
        };
        view.regions.iter().zip(shared.registry.regions()).map(state).collect()
    })
}

/// Sets the gauges that mirror the view and the budget, at each scrape.
pub(super) fn refresh_before_scrapes(current: &Arc<ArcSwap<Shared>>) {
    let weak = Arc::downgrade(current);
    current.load().metrics.before_render(move || {
        let Some(current) = weak.upgrade() else { return };
        let shared = current.load();
        let now = shared.registry.clock().now();
        let available = u32::try_from(shared.budgets.overall().available(now)).unwrap_or(u32::MAX);
        shared.metrics.retry_budget_available.set(f64::from(available));
        shared.metrics.owners.set(i64::try_from(shared.owners.len()).unwrap_or(i64::MAX));
        for (fate, state) in [(OpenFate::Unknown, State::Unknown), (OpenFate::Watched, State::Watched)] {
            let count = i64::try_from(shared.journal.count(state)).unwrap_or(i64::MAX);
            shared.metrics.outcomes_pending[fate].set(count);
        }
        refresh_spool(&shared);
        scheduling::refresh(&shared);
        let unsettled = i64::try_from(shared.journal.unsettled_count()).unwrap_or(i64::MAX);
        shared.metrics.hub_keys.unsettled.set(unsettled);
        let (waiting, dropped) = shared.outbox.counts();
        shared.metrics.hub_keys.changes_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        shared.metrics.hub_keys.changes_dropped.set(i64::try_from(dropped).unwrap_or(i64::MAX));
        let (waiting, dropped) = shared.bodies.counts();
        shared.metrics.hub_keys.bodies_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        shared.metrics.hub_keys.bodies_dropped.set(i64::try_from(dropped).unwrap_or(i64::MAX));
        let switches = shared.journal.switches();
        for kind in SwitchKind::ALL {
            let count = switches.iter().filter(|it| it.kind == kind).count();
            shared.metrics.switches[kind].set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let view = shared.registry.view();
        let of_hub = view.regions.iter().filter(|region| region.probed_by == HealthSource::Hub).count();
        shared.metrics.hub_views.set(i64::try_from(of_hub).unwrap_or(i64::MAX));
        for (index, metrics) in view.indexes().zip(shared.metrics.regions()) {
            refresh_load(view.region(index), metrics, now);
            metrics.calls_limit.set(i64::try_from(shared.concurrency.limit(index)).unwrap_or(i64::MAX));
        }
    });
}

fn refresh_spool(shared: &Shared) {
    let Some(spool) = &shared.spool else { return };
    let (counts, metrics) = (spool.counts(), &shared.metrics.spool);
    let by_fate = [
        (SpoolFate::Waiting, counts.waiting),
        (SpoolFate::Refused, counts.refused),
        (SpoolFate::Expired, counts.expired),
        (SpoolFate::Damaged, counts.damaged),
    ];
    for (fate, count) in by_fate {
        metrics.jobs[fate].set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    metrics.bytes.set(i64::try_from(counts.bytes).unwrap_or(i64::MAX));
    metrics.oldest_age.set(counts.oldest.as_secs_f64());
}

fn refresh_load(region: &crate::policy::RegionView, metrics: &RegionMetrics, now: Instant) {
    let queues = || region.load.queues().map(|(_, figure)| figure);
    let Some(newest) = region.load.total().or_else(|| queues().max_by_key(|figure| figure.at)) else { return };
    let depth = region.load.total().map_or_else(|| queues().map(|figure| figure.depth).sum(), |total| total.depth);
    #[expect(clippy::cast_precision_loss, reason = "a number of jobs is far below 2^53")]
    metrics.load.set(depth as f64);
    metrics.load_age.set(now.saturating_duration_since(newest.at).as_secs_f64());
}

/// Counts open client connections, at each scrape.
pub(super) fn count_connections(metrics: &Metrics, permits: &ConnectionPermits) {
    let (gauge, permits) = (metrics.client_connections.clone(), permits.clone());
    metrics.before_render(move || gauge.set(i64::try_from(permits.open()).unwrap_or(i64::MAX)));
}

pub(super) fn log_certificates(shared: &Shared, region: &crate::region::Region) {
    let identity = region.identity();
    let Some(tls) = &identity.tls else { return };
    let metrics = shared.metrics.region(region.index.get());
    let now_ms = shared.registry.clock().unix_ms();
    for (kind, expiry) in [(CertificateKind::Client, tls.client_expiry), (CertificateKind::Ca, tls.ca_expiry)] {
        if let Some(expiry) = expiry {
            event::certificate_seen(metrics, kind, expiry, now_ms);
        }
    }
}
