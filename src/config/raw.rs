//! The configuration as serde reads it: the key table has settled kinds, ranges and defaults; nothing has been held
//! against anything else yet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::sections::{
    Batch, CircuitBreaker, Compat, Decisions, Failover, HealthCheck, Idempotency, Journal, Limits, Lists, Load, Log,
    MetricsConfig, Queues, Readiness, Residency, Routing, Shutdown, Spool, Workers,
};
use crate::base::Strategy;

#[derive(Deserialize)]
pub(super) struct Raw {
    pub(super) version: Option<String>,
    pub(super) topology: Option<String>,
    pub(super) federation_id: String,
    pub(super) local_region: Option<String>,
    pub(super) insecure_dev: bool,
    pub(super) listen: RawListen,
    #[serde(default)]
    pub(super) control: RawControl,
    #[serde(default)]
    pub(super) regions: Vec<Option<RawRegion>>,
    pub(super) discovery: RawDiscovery,
    #[serde(default)]
    pub(super) tenants: Vec<Option<RawTenant>>,
    pub(super) routing: RawRouting,
    pub(super) circuit_breaker: RawCircuitBreaker,
    pub(super) failover: RawFailover,
    #[serde(default)]
    pub(super) hub: RawHub,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) replication: RawReplication,
    pub(super) scheduling: RawScheduling,
    pub(super) uwer: RawUwer,
}

/// The sections that are read into their checked types at once.
#[derive(Deserialize)]
pub(super) struct Sections {
    pub(super) routing: Routing,
    pub(super) batch: Batch,
    pub(super) workers: Workers,
    pub(super) queues: Queues,
    pub(super) lists: Lists,
    pub(super) residency: Residency,
    pub(super) health_check: HealthCheck,
    pub(super) circuit_breaker: CircuitBreaker,
    pub(super) load: Load,
    pub(super) failover: Failover,
    pub(super) journal: Journal,
    pub(super) spool: Spool,
    pub(super) decisions: Decisions,
    pub(super) idempotency: Idempotency,
    pub(super) limits: Limits,
    pub(super) compat: Compat,
    pub(super) log: Log,
    pub(super) metrics: MetricsConfig,
    pub(super) readiness: Readiness,
    pub(super) shutdown: Shutdown,
}

#[derive(Deserialize)]
pub(super) struct RawListen {
    pub(super) clients: Vec<String>,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) credential_headers: Vec<String>,
    pub(super) admin: SocketAddr,
    pub(super) unix_mode: String,
}

#[derive(Default, Deserialize)]
pub(super) struct RawControl {
    pub(super) socket: Option<PathBuf>,
}

#[derive(Deserialize)]
pub(super) struct RawRegion {
    pub(super) id: Option<String>,
    pub(super) url: Option<String>,
    pub(super) weight: Option<u32>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    pub(super) max_queue_depth: Option<u64>,
    #[serde(default)]
    pub(super) tls: RawTls,
    pub(super) bearer_token_file: Option<PathBuf>,
    pub(super) forward_authorization: Option<bool>,
    pub(super) duplicate_ids: Option<String>,
    pub(super) is_hub: Option<bool>,
}

#[derive(Default, PartialEq, Deserialize)]
pub(super) struct RawTls {
    pub(super) ca: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) server_name: Option<String>,
    pub(super) uri_san: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RawDiscovery {
    #[serde(default)]
    pub(super) dns: RawDns,
    pub(super) directory: Option<PathBuf>,
    pub(super) hub: bool,
    #[serde(default)]
    pub(super) allow: Vec<String>,
    pub(super) identity: Option<String>,
    pub(super) interval: String,
    pub(super) regions_max: usize,
    pub(super) changes_per_minute: usize,
    pub(super) trust_tags: bool,
    pub(super) cache: Option<PathBuf>,
    pub(super) defaults: RawDiscoveryDefaults,
}

#[derive(Default, Deserialize)]
pub(super) struct RawDns {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) servers: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct RawDiscoveryDefaults {
    pub(super) weight: u32,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    pub(super) max_queue_depth: Option<u64>,
    #[serde(default)]
    pub(super) tls: RawTls,
}

#[derive(Default, Deserialize)]
pub(super) struct RawHub {
    #[serde(default)]
    pub(super) urls: Vec<String>,
    pub(super) name: Option<String>,
    pub(super) report_jobs: Option<bool>,
    pub(super) ledger: Option<String>,
    #[serde(default)]
    pub(super) report_bodies: Vec<String>,
    pub(super) repeated_ids: Option<String>,
    pub(super) lease: Option<String>,
    pub(super) decide: Option<String>,
    pub(super) decide_cache: Option<String>,
    pub(super) decide_wait: Option<String>,
    pub(super) fetch: Option<String>,
    #[serde(default)]
    pub(super) tls: RawTls,
}

#[derive(Default, Deserialize)]
pub(super) struct RawLimits {
    #[serde(default)]
    pub(super) fleet: Vec<Option<RawFleetLimit>>,
}

#[derive(Deserialize)]
pub(super) struct RawFleetLimit {
    pub(super) region: Option<String>,
    pub(super) on_hub_loss: Option<String>,
    pub(super) local_calls: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct RawRouting {
    pub(super) fallback_strategy: Option<String>,
    #[serde(default)]
    pub(super) rules: Vec<Option<RawRule>>,
    pub(super) geographic: Option<RawGeographic>,
}

#[derive(Deserialize)]
pub(super) struct RawRule {
    #[serde(default, rename = "match")]
    pub(super) matcher: RawMatcher,
    #[serde(default)]
    pub(super) target: RawTarget,
}

#[derive(Deserialize)]
pub(super) struct RawTenant {
    #[serde(rename = "match")]
    pub(super) pattern: Option<String>,
    pub(super) regions: Option<Vec<String>>,
    #[serde(default)]
    pub(super) regions_with: Vec<String>,
    pub(super) home: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawMatcher {
    pub(super) job_type: Option<String>,
    pub(super) queue: Option<String>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) meta: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawTarget {
    pub(super) region: Option<String>,
    pub(super) regions: Option<Vec<String>>,
    #[serde(default)]
    pub(super) regions_with: Vec<String>,
    pub(super) strategy: Option<RawStrategy>,
    pub(super) ledger: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RawGeographic {
    pub(super) meta_key: Option<String>,
    #[serde(default)]
    pub(super) regions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct RawCircuitBreaker {
    pub(super) enabled: Option<bool>,
    pub(super) probe_count: Option<u32>,
}

#[derive(Deserialize)]
pub(super) struct RawFailover {
    pub(super) prefer_regions: Vec<String>,
    pub(super) exclude_regions: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct RawScheduling {
    pub(super) strategy: Option<String>,
    #[serde(default)]
    pub(super) weights: BTreeMap<String, String>,
    pub(super) starvation_prevention: RawStarvationPrevention,
    pub(super) pool: Option<String>,
    #[serde(default)]
    pub(super) pools: Vec<Option<RawPool>>,
    #[serde(default)]
    pub(super) tenant_queues: Vec<Option<RawTenantQueue>>,
}

#[derive(Deserialize)]
pub(super) struct RawTenantQueue {
    pub(super) queue: Option<String>,
    pub(super) shards: Option<u8>,
    #[serde(default)]
    pub(super) weights: BTreeMap<String, String>,
    pub(super) default_weight: Option<u32>,
    #[serde(default)]
    pub(super) priority_bands: Vec<i64>,
    pub(super) mode: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RawPool {
    pub(super) name: Option<String>,
    pub(super) queues: Option<Vec<String>>,
    pub(super) concurrency: Option<u64>,
    pub(super) concurrency_of: Option<String>,
    pub(super) on_hub_loss: Option<String>,
    pub(super) local_concurrency: Option<u64>,
    pub(super) longest_lease: Option<String>,
    pub(super) strategy: Option<String>,
    #[serde(default)]
    pub(super) weights: BTreeMap<String, String>,
    pub(super) isolated: Option<bool>,
    #[serde(default)]
    pub(super) starvation_prevention: RawStarvationPrevention,
}

#[derive(Default, Deserialize)]
pub(super) struct RawStarvationPrevention {
    pub(super) enabled: Option<bool>,
    pub(super) rotation_interval: Option<String>,
    pub(super) min_dispatch_ratio: Option<f64>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawReplication {
    pub(super) enabled: Option<bool>,
    pub(super) mode: Option<String>,
    pub(super) max_lag_seconds: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct RawUwer {
    pub(super) enabled: bool,
    #[serde(default)]
    pub(super) origins: Vec<Option<RawUwerOrigin>>,
}

#[derive(Deserialize)]
pub(super) struct RawUwerOrigin {
    pub(super) origin: Option<String>,
    #[serde(rename = "type")]
    pub(super) job_type: Option<String>,
    pub(super) queue: Option<String>,
}

/// A strategy from its name.
#[derive(Clone, Copy)]
pub(super) struct RawStrategy(pub(super) Strategy);

impl<'de> Deserialize<'de> for RawStrategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Strategy::parse(&name).map(Self).map_err(D::Error::custom)
    }
}
