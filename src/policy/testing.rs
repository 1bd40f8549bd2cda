//! Configurations, views and jobs for the tests of this folder.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Decision, Health, Inputs, Job, NoTraffic, View};
use crate::base::{Draw, RegionId, Strategy};
use crate::config::*;

/// A job that says nothing, in the queue `default`.
pub(crate) fn plain<'a>() -> Job<'a> {
    Job::plain("default")
}

/// A job that names its strategy.
pub(crate) fn named(strategy: &str) -> Job<'_> {
    Job { affinity: Some(strategy), ..plain() }
}

pub(crate) fn id(text: &str) -> RegionId {
    RegionId::parse(text).unwrap()
}

pub(crate) fn ids(texts: &[&str]) -> Vec<RegionId> {
    texts.iter().map(|text| id(text)).collect()
}

/// A configuration of regions with weight 1, the first one local, everything else as documented.
pub(crate) fn config(regions: &[&str]) -> Config {
    Config {
        federation_id: "test".to_owned(),
        local_region: id(regions[0]),
        insecure_dev: false,
        listen: listen(),
        regions: regions.iter().map(|region| region_config(region)).collect(),
        tenants: Vec::new(),
        routing: Routing {
            strategy: Strategy::Affinity,
            stamp: Stamp::Always,
            stamp_origin: false,
            mint_id: true,
            id_hint: true,
            rules: Vec::new(),
            geographic: None,
        },
        batch: Batch { mixed: MixedBatch::Split },
        workers: Workers { remote_fetch: Vec::new() },
        queues: Queues { control: QueueControl::All },
        lists: Lists { annotate: false },
        residency: Residency { read: ReadResidency::Allow, read_lists: ReadResidency::Redact },
        health_check: HealthCheck {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            unhealthy_threshold: 1,
            healthy_threshold: 1,
            accepted_status: vec!["ok".to_owned()],
        },
        circuit_breaker: CircuitBreaker {
            failure_threshold: 5,
            cooldown: Duration::from_secs(30),
            cooldown_multiplier: 1.0,
            cooldown_max: Duration::from_secs(60),
            early_probe: Duration::from_secs(1),
            failure_ratio: 0.5,
            ratio_window: Duration::from_secs(10),
            ratio_min_requests: 20,
            slow_start: Duration::from_secs(10),
            hold_down_changes: 6,
            hold_down_window: Duration::from_secs(600),
            hold_down_quiet: Duration::from_secs(60),
        },
        load: Load { source: LoadSource::Queue, interval: Duration::from_secs(10), queues_max: 16, tolerance: 0.2 },
        failover: Failover {
            enabled: true,
            max_redirects: 3,
            prefer_regions: Vec::new(),
            exclude_regions: Vec::new(),
            retry_budget_ratio: 0.2,
            retry_budget_floor: 3.0,
            on_unknown: OnUnknown::Fail,
            on_all_unhealthy: OnAllUnhealthy::Refuse,
            late_write_grace: Duration::from_secs(2),
            read_lag: Duration::ZERO,
        },
        journal: Journal { path: None, required: false, rows_max: 100 },
        decisions: Decisions { rows_max: 100 },
        idempotency: Idempotency { enabled: true, ttl: Duration::from_secs(86_400) },
        limits: limits(),
        compat: compat(),
        log: Log { format: LogFormat::Text, level: "info".to_owned(), access: AccessLog::Errors },
        metrics: MetricsConfig { detail: MetricsDetail::Basic },
        readiness: Readiness { require_region: false },
        shutdown: Shutdown { drain_idle: Duration::from_secs(5), drain_timeout: Duration::from_secs(60) },
    }
}

fn compat() -> Compat {
    Compat {
        json_content_type: JsonContentType::Auto,
        client_replicated_from: ClientReplicatedFrom::Pass,
        unknown_federation_keys: UnknownKeys::Pass,
        heartbeat_ids: true,
        directive: true,
        retry_after: true,
        event_stream: true,
    }
}

fn region_config(name: &str) -> RegionConfig {
    RegionConfig {
        id: id(name),
        url: RegionUrl {
            tls: true,
            host: name.to_owned(),
            port: 443,
            base_path: String::new(),
            text: format!("https://{name}"),
        },
        weight: 1,
        tags: Vec::new(),
        max_queue_depth: None,
        tls: RegionTls::default(),
        bearer_token_file: None::<PathBuf>,
        forward_authorization: false,
        duplicate_ids: crate::config::DuplicateIds::Auto,
        withheld_headers: Vec::new(),
    }
}

fn listen() -> Listen {
    Listen {
        clients: Vec::new(),
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        credential_headers: Vec::new(),
        admin: ([127, 0, 0, 1], 0).into(),
        unix_mode: 0o660,
    }
}

fn limits() -> Limits {
    let second = Duration::from_secs(1);
    Limits {
        body_bytes: 1 << 20,
        buffered_bytes: 1 << 26,
        memory: None,
        json_depth: 128,
        head_bytes: 1 << 14,
        headers: 100,
        head_timeout: second,
        idle_timeout: second,
        stream_idle_timeout: second,
        call_timeout: second,
        connect_timeout: second,
        client_connections: 100,
        calls: 8192,
        calls_per_region: 4096,
        pool_idle_per_region: 8,
        pool_idle_timeout: second,
        connection_lifetime: second,
        worker_threads: 0,
        owner_entries: 100,
        lookups: 4,
        hops: 3,
    }
}

/// The view of a configuration, every region healthy.
pub(crate) fn healthy(config: &Config) -> View {
    let mut view = View::unprobed(config);
    for region in &mut view.regions {
        region.health = Health::Healthy;
    }
    view
}

/// Inputs without traffic of our own.
pub(crate) fn inputs(now: Instant, seed: u64) -> Inputs<'static> {
    Inputs { now, draw: Draw::from_seed(seed), turn: seed, live: &NoTraffic }
}

/// The candidates' ids in order, with a blank between.
pub(crate) fn names(view: &View, decision: &Decision) -> String {
    decision.candidates.iter().map(|&region| view.region(region).id.as_str()).collect::<Vec<_>>().join(" ")
}
