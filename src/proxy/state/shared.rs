//! The state of the data plane: that of all worker threads together, and that of one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Cache};
use parking_lot::Mutex;

use super::announced::Announced;
use super::buffered::Buffered;
use super::last_seen::LastSeen;
use super::lookups::Lookups;
use super::notebook::{Notes, failover_rations};
use super::passed_over::PassedOver;
use super::pools::{new_pool, pool_limits};
use super::random::Random;
use super::running::Running;
use super::watch::Watched;
use crate::config::{Config, DuplicateIds};
use crate::journal::Journal;
use crate::net::pool::Pool;
use crate::ojs::shards::Shards;
use crate::policy::{Budgets, Concurrency, Glob, Pools, QueueLists, QueueRules, RegionIndex, ShardTurns, Tally, View};
use crate::region::discovery::Discovered;
use crate::region::{
    Breakers, Drills, ExcludedQueues, FigureQuestions, KnownQueues, Owners, Quotas, Region, Registry, RouteQuestions,
    Traffic, Workers,
};
use crate::replica::{BodyOutbox, IndexQuestions, Lags, Outbox, StoreQuestions};
use crate::spool::Spool;
use crate::telemetry::{Metrics, Ration, Rations, RegionMetrics};

/// The questions of a spoke to its hub, with `hub.decide: ask`.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The questions, and the answers in force.
    pub questions: Arc<RouteQuestions>,
    /// How long an answer is in force, and how long a job waits for one.
    pub times: (Duration, Duration),
}

/// The state that all worker threads share.
#[derive(Debug)]
pub struct Shared {
    /// The configuration in force.
    pub config: Config,
    /// The configuration as asked for: it differs from the one in force in keys that wait for a restart.
    pub asked: Arc<Config>,
    /// Every region with its health, breaker and load.
    pub registry: Arc<Registry>,
    /// The jobs sent, by queue and region.
    pub traffic: Arc<Traffic>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// How much of the memory is bodies.
    pub buffered: Buffered,
    /// Which region holds which job.
    pub owners: Arc<Owners>,
    /// The searches for jobs that are under way.
    pub lookups: Arc<Lookups>,
    /// Unknown outcomes and idempotency keys.
    pub journal: Arc<Journal>,
    /// The regions beside those of the file.
    pub discovered: Arc<Discovered>,
    /// The outage spool, where one is configured.
    pub spool: Option<Arc<Spool>>,
    /// The changes of jobs that the hub does not have yet.
    pub outbox: Arc<Outbox>,
    /// The bytes of jobs that the hub does not have yet.
    pub bodies: Arc<BodyOutbox>,
    /// The queues whose jobs are handed to the hub with their bytes.
    pub replicated: Vec<Glob>,
    /// The way of look-ups to the hub's index.
    pub index: Arc<IndexQuestions>,
    /// The way of requests to the central store of UWER.
    pub store: Arc<StoreQuestions>,
    /// The questions to the hub about jobs; none where this sidecar decides by its view.
    pub asking: Option<Asking>,
    /// The failover drill that this sidecar takes part in.
    pub drills: Arc<Drills>,
    /// The quotas of the hub.
    pub quotas: Arc<Quotas>,
    /// The job types that the hub has stopped.
    pub breakers: Arc<Breakers>,
    /// How far the hub's index is behind other regions.
    pub lags: Arc<Lags>,
    /// How many lines of a kind are written.
    pub rations: Arc<Rations>,
    /// The enqueues under way that may be repeated.
    pub running: Running,
    /// The workers and the jobs that they hold.
    pub workers: Arc<Workers>,
    /// The turns of the queues that workers ask for.
    pub queue_turns: Arc<Mutex<QueueLists>>,
    /// How the queues of a FETCH share the jobs, by the configuration.
    pub queue_rules: QueueRules,
    /// The pools of workers.
    pub pools: Pools,
    /// The queues with shards; none where no queue has any.
    pub shards: Option<Arc<Shards>>,
    /// The turns of the shards of those.
    pub shard_turns: Mutex<ShardTurns>,
    /// Whether the local region's server schedules fairly itself.
    pub announced: Announced,
    /// The figures of pools and their queues.
    pub tally: Arc<Mutex<Tally>>,
    /// The way of questions for the figures of the fleet.
    pub fleet_figures: Arc<FigureQuestions>,
    /// Queues that are fetched from no other region although the configuration names them.
    pub unfit: ExcludedQueues,
    /// How many redirects we may add, overall and to each region.
    pub budgets: Budgets,
    /// How many calls may be under way.
    pub concurrency: Concurrency,
    /// The next position of `round-robin`.
    pub turns: AtomicU64,
    /// When the process started.
    pub started: Instant,
}

/// One worker thread's view of the program in one configuration.
#[derive(Debug)]
pub struct Proxy {
    /// The state shared with the other threads.
    pub shared: Arc<Shared>,
    /// Its random bits.
    pub random: Random,
    pub(crate) view: RefCell<Cache<Arc<ArcSwap<View>>, Arc<View>>>,
    pub(crate) queues: KnownQueues,
    pub(crate) pools: Vec<Pool>,
    pub(crate) last_seen: LastSeen,
    pub(crate) passed_over: Vec<PassedOver>,
    pub(crate) watched: Vec<Rc<Watched>>,
    pub(crate) notes: Notes,
    pub(crate) failovers: Vec<Ration>,
}

impl Shared {
    /// The policy of a region's server for taken ids, as far as it is known.
    #[must_use]
    pub fn duplicate_ids(&self, index: RegionIndex) -> DuplicateIds {
        self.registry.region(index).duplicate_ids()
    }

    /// Whether the tenants of jobs are read, whatever the rules say.
    pub(crate) fn reads_tenants(&self) -> bool {
        self.shards.is_some() || self.quotas.is_on() || self.breakers.is_on()
    }

    /// Puts the switches and the quotas of the journal in force; all those of before are over.
    pub fn apply_switches(&self) {
        let switches = self.journal.switches();
        for region in self.registry.regions() {
            self.concurrency.throttle(region.index).set(switches.throttle_of(&region.id));
        }
        self.registry.set_switches(|| self.journal.switches());
        // Without a hub nothing grants tokens.
        let quotas = if self.config.hub.is_some() { self.journal.quotas() } else { Arc::default() };
        self.quotas.set(&quotas);
    }
}

impl Proxy {
    /// A worker's proxy, with empty pools.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Rc<Self> {
        let pools: Vec<Pool> =
            shared.registry.regions().iter().map(|region| new_pool(&shared.config, &shared.metrics, region)).collect();
        Self::with_pools(shared, pools, Notes::default())
    }

    fn with_pools(shared: Arc<Shared>, pools: Vec<Pool>, notes: Notes) -> Rc<Self> {
        Rc::new(Self {
            random: Random::default(),
            view: RefCell::new(shared.registry.views()),
            queues: shared.traffic.known(),
            last_seen: LastSeen::default(),
            passed_over: pools.iter().map(|_| PassedOver::default()).collect(),
            watched: pools.iter().map(|_| Rc::default()).collect(),
            notes,
            failovers: failover_rations(pools.len()),
            pools,
            shared,
        })
    }

    /// The proxy of a new configuration: connections to regions that are reached as before stay, unless their bounds changed.
    pub(crate) fn successor(&self, shared: Arc<Shared>) -> Rc<Self> {
        let same_bounds = pool_limits(&self.shared.config) == pool_limits(&shared.config);
        let known = |region: &Region| {
            let old = self.shared.registry.regions().iter().position(|old| old.is_reached_as(region.config()))?;
            self.pools.get(old).filter(|_| same_bounds).cloned()
        };
        let pool =
            |region: &Arc<Region>| known(region).unwrap_or_else(|| new_pool(&shared.config, &shared.metrics, region));
        let pools = shared.registry.regions().iter().map(pool).collect();
        Self::with_pools(shared, pools, self.notes.successor())
    }

    /// Does something by the state of all regions at this moment, which it may not do again within.
    pub(crate) fn with_view<T>(&self, work: impl FnOnce(&View) -> T) -> T {
        work(self.view.borrow_mut().load())
    }

    pub(crate) fn pool(&self, index: RegionIndex) -> &Pool {
        &self.pools[index.get()]
    }

    pub(crate) fn passed_over(&self, index: RegionIndex) -> &PassedOver {
        &self.passed_over[index.get()]
    }

    pub(crate) fn watched(&self, index: RegionIndex) -> &Rc<Watched> {
        &self.watched[index.get()]
    }

    pub(crate) fn region(&self, index: RegionIndex) -> &Arc<Region> {
        self.shared.registry.region(index)
    }

    pub(crate) fn metrics(&self, index: RegionIndex) -> &RegionMetrics {
        self.shared.metrics.region(index.get())
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.shared.config.limits.connect_timeout
    }
}
