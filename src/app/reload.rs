//! Taking changes without a restart: the configuration, and the files that it names. A change in a watched folder, a SIGHUP, or the slow poll:
//! each leads to the same look at everything, compared by content. One that cannot be used changes only the reports about it.

mod discovered;
mod lookups;
mod outboxes;
mod put_pools;
pub(super) mod watch;

use std::path::PathBuf;
use std::rc::Weak;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::control::{self, Loops};
use super::error::BuildError;
use super::notes::Notes;
use super::scheduling;
use super::world::{Source, World};
use crate::admin::ReadinessGuard;
use crate::base::{Clock, RegionId};
use crate::config::{Config, FleetLimit, MetricsDetail, RegionConfig, RegionSource};
use crate::journal::Journal;
use crate::policy::{Bounds, Budgets, Concurrency, Pools, QueueRules, RegionIndex};
use crate::proxy::{Announced, Asking, Buffered, Lookups, Running, Shared, shards_of};
use crate::region::{ExcludedQueues, Owners, Region, Registry, RouteQuestions, SetupError, Traffic, Workers};
use crate::spool::Spool;
use crate::telemetry::span::span;
use crate::telemetry::{Metrics, Rations, ReloadKind, Scope, event};
use discovered::loaded;
use lookups::{lookups, owners};
use outboxes::{bodies, outbox, replicated};
use watch::Watch;

/// Reloads on the control thread.
pub(super) struct Reloader {
    pub(super) current: Arc<ArcSwap<Shared>>,
    pub(super) world: World,
    pub(super) notes: Notes,
    /// Alive until the loops have probed every region once.
    pub(super) first_round: Weak<ReadinessGuard>,
    pub(super) loops: Loops,
}

impl Reloader {
    /// Looks whenever something may have changed, for ever.
    pub(super) async fn run(mut self) {
        let mut watch = Watch::new(self.world.clock.clone());
        // The first configuration has those that the journal knew.
        self.look_at_put_pools();
        let mut in_force = true;
        loop {
            let shared = self.current.load_full();
            let (discovered, journal) = (Arc::clone(&shared.discovered), Arc::clone(&shared.journal));
            let started = shared.started;
            drop(shared);
            let watched = self.watched();
            tokio::select! {
                () = watch.wait(&watched, in_force) => {}
                // A change of files that was being waited out is looked at, too.
                () = discovered.changed() => {}
                () = put_pools::changed(&journal, &self.world.clock, started) => {}
            }
            in_force = self.look();
            // Also without news: a region that was refused is tried again.
            let changes = discovered.changes();
            in_force &= self.look_at_discovered();
            self.look_at_put_pools();
            discovered.take(changes);
        }
    }

    /// Looks at everything once; returns whether nothing was refused.
    fn look(&mut self) -> bool {
        let source = self.world.source.clone();
        let configuration = source.is_none_or(|source| self.look_at_configuration(&source));
        let shared = self.current.load_full();
        let mut identities = true;
        for region in shared.registry.regions() {
            identities &= self.look_at_identity(&shared, region);
        }
        event::reload_looked(&shared.metrics, ReloadKind::Configuration, !configuration);
        event::reload_looked(&shared.metrics, ReloadKind::Identity, !identities);
        configuration && identities
    }

    fn look_at_configuration(&mut self, source: &Source) -> bool {
        const ABOUT: &str = "configuration";
        let metrics = Arc::clone(&self.current.load().metrics);
        let refused = match (source.load)() {
            Ok(loaded) if loaded.config == *self.wanted() => None,
            Ok(loaded) => self.apply_configuration(loaded.config, source).err().map(|error| error.to_string()),
            Err(problems) => Some(problems.to_string()),
        };
        let in_force = refused.is_none();
        match refused {
            None => self.notes.clear(ABOUT),
            Some(why) => {
                if self.notes.set(ABOUT, format!("the running one is kept: {why}")) {
                    event::reload_refused(&metrics, ReloadKind::Configuration, ABOUT, &why);
                }
            }
        }
        in_force
    }

    /// The last configuration that was asked for, including keys that wait for a restart.
    fn wanted(&self) -> Arc<Config> {
        Arc::clone(&self.current.load().asked)
    }

    /// Puts a changed configuration in force, whole or not at all.
    fn apply_configuration(&mut self, asked: Config, source: &Source) -> Result<(), SetupError> {
        let fixed = self.apply(asked)?;
        let current = self.current.load();
        let level = &current.config.log.level;
        if source.log.as_ref().is_some_and(|log| log.set_level(level).is_err()) {
            // The level was checked when the configuration was; a filter that fails here leaves the old one in force.
            self.notes.set("log.level", "the running level is kept".to_owned());
        }
        event::configuration_reloaded(&current.metrics, &fixed);
        Ok(())
    }

    /// Puts the discovered regions in force beside those of the configuration; returns whether none was refused.
    fn look_at_discovered(&mut self) -> bool {
        const ABOUT: &str = "discovered regions";
        let current = self.current.load_full();
        let usable = discovered::usable(&current, &current.config);
        let in_force = current.config.regions.iter().filter(|region| region.source != RegionSource::Static);
        let mut refused = usable.refused;
        if !in_force.eq(&usable.regions)
            && let Err(error) = self.apply(Config::clone(&current.asked))
        {
            refused.push(error.to_string());
        }
        if refused.is_empty() {
            self.notes.clear(ABOUT);
            return true;
        }
        let why = refused.join("; ");
        if self.notes.set(ABOUT, format!("those in force are kept: {why}")) {
            event::reload_refused(&current.metrics, ReloadKind::Configuration, ABOUT, &why);
        }
        false
    }

    /// Puts the pools of the hub in force beside those of the configuration.
    fn look_at_put_pools(&mut self) {
        let current = self.current.load_full();
        let mut usable = put_pools::usable(&current.journal, &current.config);
        if !usable.are_in_force(&current.config) {
            usable.tried(self.apply(Config::clone(&current.asked)));
        }
        usable.report(&self.notes, &current.config);
    }

    /// Puts a configuration in force, with the discovered regions and the pools of the hub, whole or not at all. Returns the keys that wait for a restart.
    fn apply(&mut self, asked: Config) -> Result<Vec<&'static str>, SetupError> {
        let _reload = span!("reload").entered();
        let old = self.current.load_full();
        let (mut config, fixed) = crate::config::live(&old.config, &asked);
        config.regions.extend(discovered::usable(&old, &config).regions);
        config.scheduling.pools.extend(put_pools::usable(&old.journal, &config).pools);
        let next = Arc::new(successor(&old, config, asked)?);
        limit_fleet(&next.concurrency, &next.registry, &next.config);
        scheduling::changed(&old, &next);
        self.current.store(Arc::clone(&next));
        // Regions that the old loops have not probed yet are probed by the new ones: readiness waits for them instead.
        self.loops = control::start_loops(&next, &self.world, &self.notes, self.first_round.upgrade());
        Ok(fixed)
    }

    fn look_at_identity(&self, shared: &Shared, region: &Region) -> bool {
        let about = format!("identity of {}", region.id);
        let reloaded = region.reload_identity();
        let in_force = reloaded.is_ok();
        match reloaded {
            Ok(changed) => {
                self.notes.clear(&about);
                if changed {
                    event::identity_reloaded(&shared.metrics, region.id.as_str());
                    control::log_certificates(shared, region);
                }
            }
            Err(error) => {
                let why = error.to_string();
                if self.notes.set(&about, format!("the one in use is kept: {why}")) {
                    event::reload_refused(&shared.metrics, ReloadKind::Identity, region.id.as_str(), &why);
                }
            }
        }
        in_force
    }

    /// Every file that a change could come from.
    fn watched(&self) -> Vec<PathBuf> {
        let mut files = self.world.source.as_ref().map(|source| source.files.clone()).unwrap_or_default();
        for region in self.current.load().registry.regions() {
            let config = region.config();
            let tls = [&config.tls.ca, &config.tls.cert, &config.tls.key, &config.bearer_token_file];
            files.extend(tls.into_iter().flatten().cloned());
        }
        files
    }
}

/// The shared state of the first configuration.
pub(super) fn first(config: Config, world: &World) -> Result<Shared, BuildError> {
    use crate::ojs::Class;
    use crate::telemetry::Metrics;

    let mut regions = Vec::with_capacity(config.regions.len());
    for (place, region) in config.regions.iter().enumerate() {
        regions.push(Arc::new(Region::load(place, region)?));
    }
    let metrics = Metrics::of(scope(&config), &ids(&config), &Class::ALL.map(Class::as_str));
    let registry = Registry::new(&config, regions, world.clock.clone(), Arc::clone(&metrics));
    let journal = first_journal(&config, world, &metrics);
    journal.set_follows_hub(config.hub.is_some());
    let asked = Arc::new(config.clone());
    let mut config = config;
    config.scheduling.pools.extend(put_pools::usable(&journal, &config).pools);
    let concurrency = Concurrency::new(config.regions.len(), bounds(&config), config.limits.calls);
    limit_fleet(&concurrency, &registry, &config);
    let shared = Shared {
        traffic: Arc::new(traffic(&config, world.clock.clone(), &metrics)),
        buffered: Buffered::default(),
        owners: Arc::new(Owners::new(config.limits.owner_entries)),
        lookups: Arc::new(Lookups::new(config.limits.lookups)),
        journal,
        discovered: Arc::default(),
        spool: Spool::open(&config.spool, world.clock.clone(), Arc::clone(&metrics)),
        outbox: outbox(Arc::default(), &config),
        bodies: Arc::default(),
        replicated: replicated(&config),
        index: Arc::default(),
        store: Arc::default(),
        asking: asking(None, &config, &world.clock, &metrics),
        drills: Arc::default(),
        quotas: Arc::default(),
        breakers: Arc::default(),
        lags: Arc::default(),
        rations: Arc::new(Rations::new(world.clock.clone())),
        running: Running::default(),
        workers: Arc::new(Workers::default()),
        queue_turns: Arc::default(),
        queue_rules: QueueRules::of(&config.scheduling),
        pools: Pools::of(&config.scheduling, None),
        shards: shards_of(&config.scheduling),
        shard_turns: Mutex::default(),
        announced: Announced::default(),
        tally: Arc::default(),
        fleet_figures: Arc::default(),
        unfit: ExcludedQueues::default(),
        concurrency,
        budgets: Budgets::new(&config.failover, config.regions.len(), world.clock.now()),
        registry: Arc::new(registry),
        metrics,
        turns: AtomicU64::new(0),
        started: std::time::Instant::now(),
        asked,
        config,
    };
    shared.apply_switches();
    Ok(shared)
}

/// The shared state of a new configuration; the old one is unchanged unless this succeeds.
fn successor(old: &Shared, config: Config, asked: Config) -> Result<Shared, SetupError> {
    let mut regions = Vec::with_capacity(config.regions.len());
    for (place, region) in config.regions.iter().enumerate() {
        regions.push(Arc::new(loaded(old, place, region)?));
    }
    let clock = old.registry.clock().clone();
    let metrics = old.metrics.for_regions(scope(&config), &ids(&config));
    let registry = old.registry.successor(&config, regions, Arc::clone(&metrics));
    old.journal.set_follows_hub(config.hub.is_some());
    let shared = Shared {
        traffic: Arc::new(traffic(&config, clock.clone(), &metrics)),
        buffered: old.buffered,
        owners: owners(old, &config),
        lookups: lookups(old, &config),
        journal: kept_journal(old, &config),
        discovered: Arc::clone(&old.discovered),
        spool: old.spool.clone(),
        outbox: outbox(Arc::clone(&old.outbox), &config),
        bodies: bodies(&old.bodies, &config),
        replicated: replicated(&config),
        index: Arc::clone(&old.index),
        store: Arc::clone(&old.store),
        asking: asking(old.asking.as_ref(), &config, &clock, &metrics),
        drills: Arc::clone(&old.drills),
        quotas: Arc::clone(&old.quotas),
        breakers: Arc::clone(&old.breakers),
        lags: Arc::clone(&old.lags),
        rations: Arc::clone(&old.rations),
        running: old.running.clone(),
        workers: Arc::clone(&old.workers),
        queue_turns: Arc::clone(&old.queue_turns),
        queue_rules: QueueRules::of(&config.scheduling),
        pools: Pools::of(&config.scheduling, Some(&old.pools)),
        shards: shards_of(&config.scheduling),
        shard_turns: Mutex::default(),
        announced: Announced::default(),
        tally: Arc::clone(&old.tally),
        fleet_figures: Arc::clone(&old.fleet_figures),
        // The operator may have mended the queue.
        unfit: ExcludedQueues::default(),
        concurrency: concurrency(old, &config),
        budgets: budgets(old, &config),
        registry: Arc::new(registry),
        metrics,
        turns: AtomicU64::new(old.turns.load(std::sync::atomic::Ordering::Relaxed)),
        started: old.started,
        asked: Arc::new(asked),
        config,
    };
    shared.apply_switches();
    Ok(shared)
}

/// Balances are carried over as long as they mean the same: a reload in an outage must not pay for a storm of retries.
fn budgets(old: &Shared, config: &Config) -> Budgets {
    let rates = |config: &Config| (config.failover.retry_budget.ratio, config.failover.retry_budget.floor);
    let now = old.registry.clock().now();
    if rates(&old.config) != rates(config) {
        return Budgets::new(&config.failover, config.regions.len(), now);
    }
    old.budgets.carried_over(&config.failover, known_as(old, config), now)
}

/// The questions to the hub, where the sidecar asks any: those of the configuration before with their answers.
fn asking(old: Option<&Asking>, config: &Config, clock: &Clock, metrics: &Arc<Metrics>) -> Option<Asking> {
    let times = config.asks_hub()?;
    let new = || Arc::new(RouteQuestions::new(clock.clone(), Arc::clone(metrics)));
    Some(Asking { questions: old.map_or_else(new, |old| Arc::clone(&old.questions)), times })
}

/// Which region each one was before.
fn known_as(old: &Shared, config: &Config) -> impl Iterator<Item = Option<RegionIndex>> {
    let known = |region: &RegionConfig| Some(old.registry.regions().iter().find(|known| known.id == region.id)?.index);
    config.regions.iter().map(known)
}

const fn bounds(config: &Config) -> Bounds {
    Bounds::below(config.limits.calls_per_region)
}

/// Puts the fleet limits of a configuration in force: until the hub has granted calls, each sidecar has those without a grant.
fn limit_fleet(concurrency: &Concurrency, registry: &Registry, config: &Config) {
    for region in registry.regions() {
        let limit = config.fleet_limits.iter().find(|limit| limit.region == region.id);
        concurrency.grant(region.index).set_limit(limit.map(FleetLimit::calls_without_grant));
    }
}

/// Calls that are under way go on counting, unless the limits have changed.
fn concurrency(old: &Shared, config: &Config) -> Concurrency {
    let limits = |config: &Config| (config.limits.calls, config.limits.calls_per_region);
    if limits(&old.config) != limits(config) {
        return old.concurrency.bounded_anew(bounds(config), config.limits.calls, known_as(old, config));
    }
    old.concurrency.carried_over(bounds(config), known_as(old, config))
}

fn first_journal(config: &Config, world: &World, metrics: &Arc<crate::telemetry::Metrics>) -> Arc<Journal> {
    let journal = Journal::open(&config.journal, world.clock.clone(), Arc::clone(metrics));
    journal.set_decisions_max(config.decisions.rows_max);
    Arc::new(journal)
}

fn kept_journal(old: &Shared, config: &Config) -> Arc<Journal> {
    old.journal.set_rows_max(config.journal.rows_max);
    old.journal.set_decisions_max(config.decisions.rows_max);
    Arc::clone(&old.journal)
}

fn scope(config: &Config) -> Scope<'_> {
    Scope {
        federation_id: &config.federation_id,
        local_region: config.local_region.as_str(),
        full: config.metrics.detail == MetricsDetail::Full,
    }
}

fn ids(config: &Config) -> Vec<RegionId> {
    config.regions.iter().map(|region| region.id.clone()).collect()
}

fn traffic(config: &Config, clock: crate::base::Clock, metrics: &Arc<crate::telemetry::Metrics>) -> Traffic {
    Traffic::new(config.regions.len(), config.load.queues_max, clock, Arc::clone(metrics))
}
