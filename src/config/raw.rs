//! The configuration as serde reads it: the key table has settled kinds, ranges and defaults; nothing has been held
//! against anything else yet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::types::{
    AccessLog, ClientReplicatedFrom, DuplicateIds, JsonContentType, LoadSource, LogFormat, MetricsDetail, MixedBatch,
    OnAllUnhealthy, OnUnknown, QueueControl, ReadResidency, Stamp, UnknownKeys,
};
use crate::base::Strategy;
use crate::base::text::parse_duration;

#[derive(Deserialize)]
pub(super) struct Raw {
    pub(super) version: Option<String>,
    pub(super) topology: Option<String>,
    pub(super) federation_id: String,
    pub(super) local_region: Option<String>,
    pub(super) insecure_dev: bool,
    pub(super) listen: RawListen,
    #[serde(default)]
    pub(super) regions: Vec<Option<RawRegion>>,
    #[serde(default)]
    pub(super) tenants: Vec<Option<RawTenant>>,
    pub(super) routing: RawRouting,
    pub(super) batch: RawBatch,
    pub(super) workers: RawWorkers,
    pub(super) queues: RawQueues,
    pub(super) lists: RawLists,
    pub(super) residency: RawResidency,
    pub(super) health_check: RawHealthCheck,
    pub(super) circuit_breaker: RawCircuitBreaker,
    pub(super) load: RawLoad,
    pub(super) failover: RawFailover,
    pub(super) journal: RawJournal,
    pub(super) decisions: RawDecisions,
    pub(super) idempotency: RawIdempotency,
    pub(super) limits: RawLimits,
    pub(super) compat: RawCompat,
    pub(super) log: RawLog,
    pub(super) metrics: RawMetrics,
    pub(super) readiness: RawReadiness,
    pub(super) shutdown: RawShutdown,
    #[serde(default)]
    pub(super) replication: RawReplication,
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
    pub(super) duplicate_ids: Option<DuplicateIds>,
    pub(super) is_hub: Option<bool>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawTls {
    pub(super) ca: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) server_name: Option<String>,
    pub(super) uri_san: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RawRouting {
    pub(super) strategy: RawStrategy,
    pub(super) fallback_strategy: Option<String>,
    pub(super) stamp: Stamp,
    pub(super) stamp_origin: bool,
    pub(super) mint_id: bool,
    pub(super) id_hint: bool,
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
}

#[derive(Deserialize)]
pub(super) struct RawGeographic {
    pub(super) meta_key: Option<String>,
    #[serde(default)]
    pub(super) regions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct RawHealthCheck {
    pub(super) interval: RawDuration,
    pub(super) timeout: RawDuration,
    pub(super) unhealthy_threshold: u32,
    pub(super) healthy_threshold: u32,
    pub(super) accepted_status: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct RawCircuitBreaker {
    pub(super) enabled: Option<bool>,
    pub(super) probe_count: Option<u32>,
    pub(super) failure_threshold: u32,
    pub(super) cooldown: RawDuration,
    pub(super) cooldown_multiplier: f64,
    pub(super) cooldown_max: RawDuration,
    pub(super) early_probe: RawDuration,
    pub(super) failure_ratio: f64,
    pub(super) ratio_window: RawDuration,
    pub(super) ratio_min_requests: u32,
    pub(super) slow_start: RawDuration,
    pub(super) hold_down_changes: u32,
    pub(super) hold_down_window: RawDuration,
    pub(super) hold_down_quiet: RawDuration,
}

#[derive(Deserialize)]
pub(super) struct RawLoad {
    pub(super) source: LoadSource,
    pub(super) interval: RawDuration,
    pub(super) queues_max: usize,
    pub(super) tolerance: f64,
}

#[derive(Deserialize)]
pub(super) struct RawFailover {
    pub(super) enabled: bool,
    pub(super) max_redirects: usize,
    pub(super) prefer_regions: Vec<String>,
    pub(super) exclude_regions: Vec<String>,
    pub(super) retry_budget: RawRetryBudget,
    pub(super) on_unknown: OnUnknown,
    pub(super) on_all_unhealthy: OnAllUnhealthy,
    pub(super) late_write_grace: RawDuration,
    pub(super) read_lag: RawDuration,
}

#[derive(Deserialize)]
pub(super) struct RawJournal {
    pub(super) path: Option<PathBuf>,
    pub(super) required: bool,
    pub(super) rows_max: usize,
}

#[derive(Deserialize)]
pub(super) struct RawDecisions {
    pub(super) rows_max: usize,
}

#[derive(Deserialize)]
pub(super) struct RawIdempotency {
    pub(super) enabled: bool,
    pub(super) ttl: RawDuration,
}

#[derive(Deserialize)]
pub(super) struct RawRetryBudget {
    pub(super) ratio: f64,
    pub(super) floor: f64,
}

#[derive(Deserialize)]
pub(super) struct RawLimits {
    pub(super) body_bytes: usize,
    pub(super) buffered_bytes: usize,
    pub(super) memory: Option<usize>,
    pub(super) json_depth: usize,
    pub(super) head_bytes: usize,
    pub(super) headers: usize,
    pub(super) head_timeout: RawDuration,
    pub(super) idle_timeout: RawDuration,
    pub(super) stream_idle_timeout: RawDuration,
    pub(super) call_timeout: RawDuration,
    pub(super) connect_timeout: RawDuration,
    pub(super) client_connections: usize,
    pub(super) calls: u64,
    pub(super) calls_per_region: u64,
    pub(super) pool_idle_per_region: usize,
    pub(super) pool_idle_timeout: RawDuration,
    pub(super) connection_lifetime: RawDuration,
    pub(super) worker_threads: usize,
    pub(super) owner_entries: usize,
    pub(super) lookups: usize,
    pub(super) hops: u16,
}

#[derive(Deserialize)]
pub(super) struct RawCompat {
    pub(super) json_content_type: JsonContentType,
    pub(super) client_replicated_from: ClientReplicatedFrom,
    pub(super) unknown_federation_keys: UnknownKeys,
    pub(super) heartbeat_ids: bool,
    pub(super) directive: bool,
    pub(super) retry_after: bool,
    pub(super) event_stream: bool,
}

#[derive(Deserialize)]
pub(super) struct RawBatch {
    pub(super) mixed: MixedBatch,
}

#[derive(Deserialize)]
pub(super) struct RawWorkers {
    pub(super) remote_fetch: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct RawQueues {
    pub(super) control: QueueControl,
}

#[derive(Deserialize)]
pub(super) struct RawLists {
    pub(super) annotate: bool,
}

#[derive(Deserialize)]
pub(super) struct RawResidency {
    pub(super) read: ReadResidency,
    pub(super) read_lists: ReadResidency,
}

#[derive(Deserialize)]
pub(super) struct RawLog {
    pub(super) format: LogFormat,
    pub(super) level: String,
    pub(super) access: AccessLog,
}

#[derive(Deserialize)]
pub(super) struct RawMetrics {
    pub(super) detail: MetricsDetail,
}

#[derive(Deserialize)]
pub(super) struct RawReadiness {
    pub(super) require_region: bool,
}

#[derive(Deserialize)]
pub(super) struct RawShutdown {
    pub(super) drain_idle: RawDuration,
    pub(super) drain_timeout: RawDuration,
}

#[derive(Default, Deserialize)]
pub(super) struct RawReplication {
    pub(super) enabled: Option<bool>,
    pub(super) mode: Option<String>,
    pub(super) max_lag_seconds: Option<u64>,
}

/// A duration from its text.
#[derive(Clone, Copy)]
pub(super) struct RawDuration(pub(super) Duration);

impl<'de> Deserialize<'de> for RawDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(D::Error::custom)
    }
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
