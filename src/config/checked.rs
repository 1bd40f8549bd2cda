//! The checked configuration as a whole.

use std::path::PathBuf;
use std::time::Duration;

use super::sections::{
    Batch, CircuitBreaker, Compat, Decisions, Failover, HealthCheck, Idempotency, Journal, Limits, Lists, Load, Log,
    MetricsConfig, Queues, Readiness, Residency, Routing, Shutdown, Spool, Workers,
};
use super::types::{
    Decide, DiscoveryConfig, FetchWith, FleetLimit, HubConfig, Listen, RegionConfig, Scheduling, Tenant, Topology, Uwer,
};
use crate::base::RegionId;

/// Everything that an operator can set.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The coordination of the regions.
    pub topology: Topology,
    /// The name of this federation, as `GET /v1/federation/regions` shows it. Spec: RFC-0001 §3.
    pub federation_id: String,
    /// The region that this pod runs in; always one of [`Config::regions`].
    pub local_region: RegionId,
    /// Permits `http://` region URLs on loopback addresses, for development.
    pub insecure_dev: bool,
    /// Where clients and scrapers reach us.
    pub listen: Listen,
    /// The path of the control socket, where operators on this machine reach us; none where there is none.
    pub control_socket: Option<PathBuf>,
    /// The registry: at least one region, ids unique, in the operator's order.
    pub regions: Vec<RegionConfig>,
    /// The discovery of further regions; none where no source of it is set.
    pub discovery: Option<DiscoveryConfig>,
    /// Where the jobs of tenants may go; the first pattern that fits decides.
    pub tenants: Vec<Tenant>,
    /// The choice of a region, and the stamp.
    pub routing: Routing,
    /// Batches.
    pub batch: Batch,
    /// Workers.
    pub workers: Workers,
    /// The turns of the queues of a FETCH.
    pub scheduling: Scheduling,
    /// Queues.
    pub queues: Queues,
    /// Merged lists.
    pub lists: Lists,
    /// Reads of jobs that are pinned to other regions.
    pub residency: Residency,
    /// Health probes.
    pub health_check: HealthCheck,
    /// Circuit breakers.
    pub circuit_breaker: CircuitBreaker,
    /// Load polling, for overflow and for `max_queue_depth`.
    pub load: Load,
    /// The steps after an attempt that was not sent.
    pub failover: Failover,
    /// The records of unknown outcomes.
    pub journal: Journal,
    /// The outage spool.
    pub spool: Spool,
    /// The hub; none where `hub.urls` is absent.
    pub hub: Option<HubConfig>,
    /// The ingress of tasks of UWER; none where it is off.
    pub uwer: Option<Uwer>,
    /// The notes of how jobs were routed.
    pub decisions: Decisions,
    /// The records of calls with an `Idempotency-Key`.
    pub idempotency: Idempotency,
    /// Bounds on sizes, times and counts.
    pub limits: Limits,
    /// The limits that the hub keeps for all sidecars; regions are named once. Needs a hub.
    pub fleet_limits: Vec<FleetLimit>,
    /// Switches for clients that cannot read the specified form.
    pub compat: Compat,
    /// Logging.
    pub log: Log,
    /// The content of a scrape.
    pub metrics: MetricsConfig,
    /// The conditions of `/readyz`.
    pub readiness: Readiness,
    /// How the process ends.
    pub shutdown: Shutdown,
}

impl Config {
    /// Whether the local region is a spoke: it routes to other regions only while it hears its hub.
    #[must_use]
    pub fn is_spoke(&self) -> bool {
        self.topology == Topology::HubSpoke && !self.regions.iter().any(|it| it.is_hub && it.id == self.local_region)
    }

    /// How the hub is asked about flexible jobs: how long an answer is in force, and how long a job waits for one. None where this sidecar decides
    /// by its view; one in the region of the hub is no spoke and asks nothing.
    #[must_use]
    pub fn asks_hub(&self) -> Option<(Duration, Duration)> {
        let hub = self.hub.as_ref().filter(|hub| hub.decide == Decide::Ask && self.is_spoke())?;
        Some((hub.decide_cache, hub.decide_wait))
    }

    /// Whether workers get jobs only while this sidecar hears its hub.
    #[must_use]
    pub fn fetches_when_heard(&self) -> bool {
        self.hub.as_ref().is_some_and(|hub| hub.fetch == FetchWith::Heard)
    }

    /// Whether a region is another spoke, which is watched by the hub alone.
    #[must_use]
    pub fn is_other_spoke(&self, region: &RegionConfig) -> bool {
        self.is_spoke() && !region.is_hub && region.id != self.local_region
    }
}
