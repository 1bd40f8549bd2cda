//! Every number that the sidecar exposes, resolved once and counted by array index.
//!
//! All families and all their series exist before the first request, so that a rate over the first failure is not lost
//! and a dashboard never shows an absent series where nothing happened. Closed label sets keep the number of series
//! constant. The rendering selects the series of a scrape.

mod detail;
mod discovery;
mod drill;
mod families;
mod family;
mod keys;
mod label;
mod region;
mod scheduling;
mod spool;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;
use prometheus::{IntGaugeVec, Registry, TextEncoder};

use crate::base::{RefusalReason, RegionId, SwitchKind};

pub use discovery::{Discovery, LazyDiscovery};
pub use drill::DrillMetrics;
use families::Families;
pub use families::{Counter, Gauge, Held, Histogram, IntGauge};
pub use family::{Basic, FAMILIES, Family, Kind, table_markdown};
pub use keys::{HubKeys, RepeatedId};
pub use label::{
    AttemptOutcome, Breaker, Cells, CertificateKind, ConnectResult, DiscoveryChange, DiscoveryLook, DiscoveryRejection,
    DiscoverySource, DiscoveryState, DrillJob, FailoverReason, HeadRejection, HubKey, HubQuestion, JournalEviction,
    JournalWrite, KeptJob, Label, LookupResult, OpenFate, PoolState, ProbeResult, ReloadKind, ReloadResult,
    RemoteFetch, ReplayBy, Resolution, SlotLack, SpoolFate, SpoolResult, StatusClass,
};
pub use region::RegionMetrics;
pub use scheduling::SchedulingMetrics;
pub use spool::SpoolMetrics;

/// The region of refusals that have nothing to do with a pin; no region may be called so, for headers use the word alike.
const NO_REGION: &str = "none";

/// A function that runs before each rendering.
type Refresh = Box<dyn Fn() + Send + Sync>;

/// Which federation the numbers are of.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'n> {
    /// Its name.
    pub federation_id: &'n str,
    /// The region of this pod.
    pub local_region: &'n str,
    /// Whether scrapes hold every series, or the basic ones.
    pub full: bool,
}

/// All counters of the process, and those of the regions of one configuration.
pub struct Metrics {
    registry: Registry,
    process: Registry,
    started: Instant,
    uptime: Gauge,
    log_lines_dropped: Counter,
    defects: Counter,
    before_render: Arc<Mutex<Vec<Refresh>>>,
    vectors: region::Vectors,
    regions: Box<[RegionMetrics]>,
    info: IntGaugeVec,
    /// Whether scrapes hold every series; of the newest configuration, for all that share the counters.
    full: Arc<AtomicBool>,
    /// Requests of clients, by class number and answer; see [`Metrics::request`].
    pub requests: Cells<usize, Cells<StatusClass, Counter>>,
    /// The sidecar's own share of a request, by class number. Units: seconds.
    pub overhead: Cells<usize, Histogram>,
    /// Requests that we answered with an error of our own, except those that [`RegionMetrics::refused`] counts.
    pub refusals: Cells<RefusalReason, Counter>,
    /// Redirects that the retry budget would pay for now.
    pub retry_budget_available: Gauge,
    /// Jobs with a client's own `replicated_from`.
    pub client_replicated_from: Counter,
    /// Jobs that were delayed for want of a token of their quota; refused ones are among the refusals.
    pub quota_delayed: Counter,
    /// Jobs of stopped types that got a later time.
    pub breaker_delayed: Counter,
    /// FETCHes that left queues out for a quota.
    pub quota_held: Cells<SlotLack, Counter>,
    /// Undefined keys under `ojs.federation.` in jobs that were accepted.
    pub unknown_federation_keys: Counter,
    /// Jobs whose region was needed, by how it was found.
    pub lookups: Cells<LookupResult, Counter>,
    /// Jobs claimed for workers that had disconnected by then.
    pub kept_jobs: Cells<KeptJob, Counter>,
    /// Jobs whose region is remembered; set before each rendering.
    pub owners: IntGauge,
    /// Unknown outcomes that were cleared up; counted by [`super::event`].
    pub(super) outcomes: Cells<Resolution, Counter>,
    /// Jobs whose fate is open; set before each rendering.
    pub outcomes_pending: Cells<OpenFate, IntGauge>,
    /// Switches in force; set before each rendering.
    pub switches: Cells<SwitchKind, IntGauge>,
    /// Whether the feed of the hub is open.
    pub hub_connected: IntGauge,
    /// Whether a spoke does not hear its hub.
    pub hub_cut_off: IntGauge,
    /// Whether workers get no jobs because the hub is not heard.
    pub hub_fetch_waits: IntGauge,
    /// Regions whose last verdict is that of the hub's probe.
    pub hub_views: IntGauge,
    /// Switches of the hub that cannot be read.
    pub hub_switches_unknown: IntGauge,
    /// Keys that all sidecars know.
    pub hub_keys: HubKeys,
    /// The discovery of regions.
    pub discovery: LazyDiscovery,
    /// How queues share workers.
    pub scheduling: SchedulingMetrics,
    /// The outage spool.
    pub spool: SpoolMetrics,
    /// Failover drills.
    pub drill: DrillMetrics,
    /// Ids that were taken by a tombstone.
    pub fences: Counter,
    /// Enqueues that were answered from their records.
    pub replays: Cells<ReplayBy, Counter>,
    /// Records for the journal.
    pub journal_writes: Cells<JournalWrite, Counter>,
    /// Rows of the journal that had to make room.
    pub journal_evictions: Cells<JournalEviction, Counter>,
    /// 1 while the journal is in its file; set by [`super::event`].
    pub(super) journal_durable: IntGauge,
    /// Client connections that are open now; change it through [`Held`].
    pub client_connections: IntGauge,
    /// Client connections turned away because too many were open.
    pub client_connections_refused: Counter,
    /// Request heads that were not accepted.
    pub rejected_heads: Cells<HeadRejection, Counter>,
    /// Loads while the program runs; counted by [`super::event`].
    pub(super) reloads: Cells<ReloadKind, Cells<ReloadResult, Counter>>,
    /// 1 while the files of this kind cannot be used; set by [`super::event::reload_looked`].
    pub(super) reload_refused: Cells<ReloadKind, IntGauge>,
    /// Settings accepted with a warning; counted by [`super::event::config_warning`].
    pub(super) config_warnings: Counter,
    /// 1 while failures are held to be our own; set by [`super::event::self_suspect`].
    pub(super) self_suspect: IntGauge,
    /// 1 while the sidecar is ready; set before each rendering.
    pub ready: IntGauge,
    /// 1 once the process was ordered to end; set by [`super::event::drain_started`].
    pub(super) draining: IntGauge,
}

impl Metrics {
    /// As [`Metrics::of`], for a federation without a name whose first region is the local one.
    #[must_use]
    pub fn new(regions: &[RegionId], classes: &[&'static str]) -> Arc<Self> {
        let local_region = regions.first().map_or("", RegionId::as_str);
        Self::of(Scope { federation_id: "default", local_region, full: false }, regions, classes)
    }

    /// Makes every family with all its series.
    ///
    /// Shape: `regions` and `classes` fix the numbers by which [`Metrics::region`] and the cells by class are indexed.
    #[must_use]
    pub fn of(scope: Scope<'_>, regions: &[RegionId], classes: &[&'static str]) -> Arc<Self> {
        let registry = Registry::new();
        let families = Families { registry: &registry };
        let (requests, overhead) = (families.counters(&family::REQUESTS), families.histograms(&family::OVERHEAD));
        let (refusals, writes) = (families.counters(&family::REFUSALS), families.counters(&family::JOURNAL_WRITES));
        let (rejected, reloads) = (families.counters(&family::REJECTED_HEADS), families.counters(&family::RELOADS));
        let reload_refused = families.int_gauges(&family::RELOAD_REFUSED);
        let (lookups, outcomes) = (families.counters(&family::LOOKUPS), families.counters(&family::OUTCOMES));
        let (switches, replays) = (families.int_gauges(&family::SWITCHES), families.counters(&family::REPLAYS));
        let (held, evictions) = (families.counters(&family::QUOTA_HELD), families.counters(&family::JOURNAL_EVICTIONS));
        let (kept, pending) = (families.counters(&family::KEPT_JOBS), families.int_gauges(&family::OUTCOMES_PENDING));
        show_build(&families);
        let vectors = region::Vectors::new(&families, classes, &refusals);
        let metrics = Self {
            started: Instant::now(),
            uptime: families.gauges(&family::UPTIME).with_label_values::<&str>(&[]),
            log_lines_dropped: families.counter(&family::LOG_LINES_DROPPED),
            defects: families.counter(&family::DEFECTS),
            before_render: Arc::default(),
            regions: vectors.regions(regions, scope.local_region),
            vectors,
            info: families.int_gauges(&family::INFO),
            full: Arc::default(),
            requests: Cells::each(classes, |class| {
                Cells::each(StatusClass::ALL, |status| requests.with_label_values(&[*class, status.as_str()]))
            }),
            overhead: Cells::each(classes, |class| overhead.with_label_values(&[*class])),
            refusals: Cells::each(RefusalReason::ALL, |it| refusals.with_label_values(&[it.as_str(), NO_REGION])),
            retry_budget_available: families.gauges(&family::RETRY_BUDGET).with_label_values::<&str>(&[]),
            client_replicated_from: families.counter(&family::CLIENT_REPLICATED_FROM),
            quota_delayed: families.counter(&family::QUOTA_DELAYED),
            breaker_delayed: families.counter(&family::BREAKER_DELAYED),
            quota_held: Cells::each(SlotLack::ALL, |reason| held.with_label_values(&[reason.as_str()])),
            unknown_federation_keys: families.counter(&family::UNKNOWN_FEDERATION_KEYS),
            lookups: Cells::each(LookupResult::ALL, |result| lookups.with_label_values(&[result.as_str()])),
            kept_jobs: Cells::each(KeptJob::ALL, |result| kept.with_label_values(&[result.as_str()])),
            owners: families.int_gauge(&family::OWNERS),
            hub_connected: families.int_gauge(&family::HUB_CONNECTED),
            hub_cut_off: families.int_gauge(&family::HUB_CUT_OFF),
            hub_fetch_waits: families.int_gauge(&family::HUB_FETCH_WAITS),
            hub_views: families.int_gauge(&family::HUB_VIEWS),
            hub_switches_unknown: families.int_gauge(&family::HUB_SWITCHES_UNKNOWN),
            hub_keys: HubKeys::of(&families),
            discovery: Discovery::of(&families),
            outcomes: Cells::each(Resolution::ALL, |result| outcomes.with_label_values(&[result.as_str()])),
            outcomes_pending: Cells::each(OpenFate::ALL, |state| pending.with_label_values(&[state.as_str()])),
            switches: Cells::each(SwitchKind::ALL, |kind| switches.with_label_values(&[kind.as_str()])),
            scheduling: SchedulingMetrics::of(&families),
            spool: SpoolMetrics::of(&families),
            drill: DrillMetrics::of(&families),
            fences: families.counter(&family::FENCES),
            replays: Cells::each(ReplayBy::ALL, |by| replays.with_label_values(&[by.as_str()])),
            journal_writes: Cells::each(JournalWrite::ALL, |it| writes.with_label_values(&[it.as_str()])),
            journal_evictions: Cells::each(JournalEviction::ALL, |it| evictions.with_label_values(&[it.as_str()])),
            journal_durable: families.int_gauge(&family::JOURNAL_DURABLE),
            client_connections: families.int_gauge(&family::CLIENT_CONNECTIONS),
            client_connections_refused: families.counter(&family::CLIENT_CONNECTIONS_REFUSED),
            rejected_heads: Cells::each(HeadRejection::ALL, |reason| rejected.with_label_values(&[reason.as_str()])),
            reloads: Cells::each(ReloadKind::ALL, |kind| {
                Cells::each(ReloadResult::ALL, |result| reloads.with_label_values(&[kind.as_str(), result.as_str()]))
            }),
            reload_refused: Cells::each(ReloadKind::ALL, |kind| reload_refused.with_label_values(&[kind.as_str()])),
            config_warnings: families.counter(&family::CONFIG_WARNINGS),
            self_suspect: families.int_gauge(&family::SELF_SUSPECT),
            ready: families.int_gauge(&family::READY),
            draining: families.int_gauge(&family::DRAINING),
            process: process_registry(),
            registry,
        };
        metrics.name(scope);
        Arc::new(metrics)
    }

    fn name(&self, scope: Scope<'_>) {
        self.info.reset();
        let labels = [scope.federation_id, scope.local_region, env!("CARGO_PKG_VERSION")];
        self.info.with_label_values(&labels).set(1);
        self.full.store(scope.full, Relaxed);
    }

    /// The same counters for the regions of a new configuration: regions of both go on counting, series of removed ones
    /// are deleted.
    #[must_use]
    pub fn for_regions(&self, scope: Scope<'_>, regions: &[RegionId]) -> Arc<Self> {
        let gone = self.regions.iter().filter(|region| !regions.contains(&region.id));
        gone.for_each(|region| self.vectors.forget(&region.id, &self.regions));
        self.name(scope);
        Arc::new(Self {
            info: self.info.clone(),
            full: Arc::clone(&self.full),
            registry: self.registry.clone(),
            process: self.process.clone(),
            started: self.started,
            uptime: self.uptime.clone(),
            log_lines_dropped: self.log_lines_dropped.clone(),
            defects: self.defects.clone(),
            before_render: Arc::clone(&self.before_render),
            regions: self.vectors.regions(regions, scope.local_region),
            vectors: self.vectors.clone(),
            requests: self.requests.clone(),
            overhead: self.overhead.clone(),
            refusals: self.refusals.clone(),
            retry_budget_available: self.retry_budget_available.clone(),
            client_replicated_from: self.client_replicated_from.clone(),
            quota_delayed: self.quota_delayed.clone(),
            breaker_delayed: self.breaker_delayed.clone(),
            quota_held: self.quota_held.clone(),
            unknown_federation_keys: self.unknown_federation_keys.clone(),
            lookups: self.lookups.clone(),
            kept_jobs: self.kept_jobs.clone(),
            owners: self.owners.clone(),
            hub_connected: self.hub_connected.clone(),
            hub_cut_off: self.hub_cut_off.clone(),
            hub_fetch_waits: self.hub_fetch_waits.clone(),
            hub_views: self.hub_views.clone(),
            hub_switches_unknown: self.hub_switches_unknown.clone(),
            hub_keys: self.hub_keys.clone(),
            discovery: Arc::clone(&self.discovery),
            outcomes: self.outcomes.clone(),
            outcomes_pending: self.outcomes_pending.clone(),
            switches: self.switches.clone(),
            scheduling: self.scheduling.clone(),
            spool: self.spool.clone(),
            drill: self.drill.clone(),
            fences: self.fences.clone(),
            replays: self.replays.clone(),
            journal_writes: self.journal_writes.clone(),
            journal_evictions: self.journal_evictions.clone(),
            journal_durable: self.journal_durable.clone(),
            client_connections: self.client_connections.clone(),
            client_connections_refused: self.client_connections_refused.clone(),
            rejected_heads: self.rejected_heads.clone(),
            reloads: self.reloads.clone(),
            reload_refused: self.reload_refused.clone(),
            config_warnings: self.config_warnings.clone(),
            self_suspect: self.self_suspect.clone(),
            ready: self.ready.clone(),
            draining: self.draining.clone(),
        })
    }

    /// The counters of one region, by its place in the list given to [`Metrics::new`].
    #[must_use]
    pub fn region(&self, index: usize) -> &RegionMetrics {
        &self.regions[index]
    }

    /// The counters of every region, in the order given to [`Metrics::new`].
    #[must_use]
    pub const fn regions(&self) -> &[RegionMetrics] {
        &self.regions
    }

    /// Counts one answered request of a client.
    pub fn request(&self, class: usize, status: u16) {
        self.requests[class][StatusClass::of(status)].inc();
    }

    /// Has `refresh` run before each [`Metrics::render`]: for gauges that mirror other state, such as an age.
    pub fn before_render(&self, refresh: impl Fn() + Send + Sync + 'static) {
        self.before_render.lock().push(Box::new(refresh));
    }

    /// The kernel's figures of this process, such as `process_resident_memory_bytes`, by name. Also refreshes the
    /// gauges that mirror other state.
    #[must_use]
    pub fn process_figures(&self) -> Vec<(String, f64)> {
        self.refresh();
        let figure = |family: &prometheus::proto::MetricFamily| {
            let metric = family.get_metric().first()?;
            let figure = match family.get_field_type() {
                prometheus::proto::MetricType::COUNTER => metric.get_counter().get_value(),
                _ => metric.get_gauge().get_value(),
            };
            Some((family.name().to_owned(), figure))
        };
        self.process.gather().iter().filter_map(figure).collect()
    }

    fn refresh(&self) {
        for refresh in self.before_render.lock().iter() {
            refresh();
        }
    }

    /// Everything, in the Prometheus text format 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        self.refresh();
        self.uptime.set(self.started.elapsed().as_secs_f64());
        self.log_lines_dropped.inc_by(super::dropped_lines().saturating_sub(self.log_lines_dropped.get()));
        self.defects.inc_by(super::panics().saturating_sub(self.defects.get()));
        let mut families = self.registry.gather();
        if !self.full.load(Relaxed) {
            families = detail::basic(families);
        }
        families.extend(self.process.gather());
        TextEncoder::new().encode_to_string(&families).unwrap_or_else(|error| format!("# not readable: {error}\n"))
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("regions", &self.regions.len()).finish_non_exhaustive()
    }
}

fn show_build(families: &Families<'_>) {
    let info = [env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH];
    families.int_gauges(&family::BUILD_INFO).with_label_values(&info).set(1);
}

/// The families of the process are in every scrape, whatever its detail.
fn process_registry() -> Registry {
    let registry = Registry::new();
    #[cfg(target_os = "linux")]
    {
        let collector = prometheus::process_collector::ProcessCollector::for_self();
        // The registry is new, so nothing in it can clash; without the collector only process figures would be missing.
        let _ = registry.register(Box::new(collector));
    }
    registry
}
