//! The rows of the key table. Reasons for the less obvious bounds stand beside them; most rows are in [`super::super::sections`].

use std::sync::LazyLock;

use super::super::key::Key;
use super::super::kind::Kind::{
    self, Address, Choice, Flag, Integer, Mode, Path, Scalar, Seconds, Strategy, Text, TextMap, Texts,
};
use super::super::kind::{COUNT, NAME, NAMES, SECOND, SOME_TIME};
use super::super::sections::{
    Batch, CircuitBreaker, Compat, Decisions, Failover, HealthCheck, Idempotency, Journal, Limits, Lists, Load, Log,
    MetricsConfig, Queues, Readiness, Residency, RetryBudget, Routing, Shutdown, Spool, Workers,
};
use super::super::types::{
    Decide, DuplicateIds, FetchWith, Ledger, LimitWithoutHub, RepeatedIds, TenantMode, Topology, UwerOrigin,
};
use crate::base::QueueOrder;

/// As many as a server takes, less those of the longest suffix, `.ojs-p3-t63`.
const TENANT_QUEUE_BYTES: usize = 128 - 11;
/// As many as a server takes.
const QUEUE_BYTES: usize = 128;

/// Another spelling of a key, taken over before the layers are merged: a later layer wins, in any spelling.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) struct Alias {
    /// The other spelling.
    pub(in crate::config) written: &'static str,
    /// The key it means.
    pub(in crate::config) key: &'static str,
    /// The kind of value of the other spelling.
    pub(in crate::config) kind: Kind,
}

pub(in crate::config) const ALIASES: &[Alias] = &[
    alias("default_strategy", "routing.strategy", Strategy),
    alias("health_check.interval_seconds", "health_check.interval", Seconds),
    alias("health_check.timeout_seconds", "health_check.timeout", Seconds),
    alias("circuit_breaker.open_after_failures", "circuit_breaker.failure_threshold", COUNT),
    alias("circuit_breaker.cooldown_seconds", "circuit_breaker.cooldown", Seconds),
    alias("circuit_breaker.half_open_after_seconds", "circuit_breaker.cooldown", Seconds),
];

// One row reads as one or two lines; rustfmt would give each argument a line.
/// Listeners, regions and tenants.
#[rustfmt::skip]
const PLACES: &[Key] = &[
    key("federation_id", NAME, "default", "", "The name of this federation, as `GET /v1/federation/regions` shows it"),
    key("topology", Choice(Topology::NAMES), "mesh", "",
        "Who coordinates the regions: no one; the hub of one region, `regions[].is_hub`; or no one, and every job is stamped"),
    open("local_region", NAME, "", "The region this pod runs in; the first of `regions` when absent, with a warning"),
    key("insecure_dev", Flag, "false", "", "Permits `http://` region URLs on loopback addresses, for development"),
    key("listen.clients", Texts(4096), "127.0.0.1:8080,[::1]:8080", "",
        "Where clients reach us: loopback addresses and `unix:/path`"),
    key("listen.allowed_hosts", NAMES, "", "",
        "Hosts that a `Host` header may name beside `localhost` and loopback addresses"),
    key("listen.allowed_origins", NAMES, "", "",
        "Origins of web pages, such as `https://ui.example:8443`, whose requests browsers may send here"),
    key("listen.credential_headers", NAMES, "Cookie,X-Api-Key", "",
        "Headers beside `Authorization` with a client's credentials: they go to the local region, and to others only with \
            `forward_authorization`"),
    key("listen.admin", Address, "127.0.0.1:9464", "", "Metrics, liveness and readiness; any address"),
    key("listen.unix_mode", Mode, "0660", "", "Permission bits of Unix sockets"),
    open("control.socket", Path, "",
        "A Unix socket of mode 0600 that answers as the admin listener does, for operators on this machine; none when absent"),
    open("regions[].id", NAME, "", "The region's identifier: lower-case letters, digits and dashes; required"),
    open("regions[].url", Text(2048), "", "The base URL of its OJS server, `https://host[:port][/path]`; required"),
    key("regions[].weight", Integer(0, 1_000_000), "1", "",
        "Share of traffic in `weighted`, in overflow and in ties; 0 drains. 100 where `version` is `1.0`"),
    key("regions[].tags", NAMES, "", "", "Free tags, shown, and read by `regions_with`"),
    open("regions[].max_queue_depth", Integer(0, u64::MAX), "jobs",
        "Affinity leaves the region while its queue is at least this deep"),
    open("regions[].tls.ca", Path, "", "PEM trust roots for this region; the system's when absent"),
    open("regions[].tls.cert", Path, "", "PEM client certificate chain, together with `key`"),
    open("regions[].tls.key", Path, "", "PEM private key of the client certificate"),
    open("regions[].tls.server_name", NAME, "",
        "The name the server's certificate must show, in place of the URL's host"),
    open("regions[].tls.uri_san", Text(2048), "",
        "The URI the server's certificate must show, such as a SPIFFE id; not together with `server_name`"),
    open("regions[].bearer_token_file", Path, "", "A file whose content is sent to this region as bearer token"),
    open("regions[].forward_authorization", Flag, "",
        "Whether a client's `Authorization` goes to this region; by default to the local region, and nowhere where \
            `bearer_token_file` is set"),
    open("regions[].duplicate_ids", Choice(DuplicateIds::NAMES), "",
        "What its server does with an id that it has already: answer 409, answer with the job it has, store the new job in its place; \
            `auto`, the default, takes it for `overwrite` until it has refused one"),
    open("regions[].is_hub", Flag, "", "Whether this region is the hub; for `topology: hub-spoke`, of exactly one region"),
    open("tenants[].match", NAME, "",
        "Glob over the tenant: `meta.tenant_id` of the job, else the header `X-OJS-Tenant`; the first that fits decides"),
    open("tenants[].regions", NAMES, "", "The regions that jobs of the tenant may go to; narrows pins and rules"),
    open("tenants[].regions_with", NAMES, "", "Only regions that have all these tags"),
    open("tenants[].home", NAME, "", "The region that is to the tenant's jobs what the local one is to others"),
];

/// The discovery of regions.
#[rustfmt::skip]
const DISCOVERY: &[Key] = &[
    open("discovery.dns.name", Text(253), "",
        "The name of the SRV records of regions, such as `_ojs._tcp.example.com`; without it, `discovery.directory` and `discovery.hub` nothing is discovered"),
    key("discovery.dns.servers", NAMES, "", "", "The name servers, each as `address:port`; those of the operating system when empty"),
    open("discovery.directory", Path, "", "A directory with a file a region, `*.yaml`, `*.yml` or `*.json`; it is watched"),
    key("discovery.hub", Flag, "false", "", "Whether the regions that operators have put at the hub are taken from its feed; needs `hub.urls`"),
    open("discovery.allow", NAMES, "",
        "Globs over ids: `*` for any run of characters, `?` for one. A region whose id fits none is turned away; required"),
    open("discovery.identity", Text(2048), "",
        "The URI that the certificate of a discovered region must show, with `{region}` for its id, such as `spiffe://prod/{region}`; required"),
    // Every look is a question for each region; two that agree take a region out.
    key("discovery.interval", Kind::Duration(SECOND, 3_600 * SECOND), "30s", "duration",
        "Between two looks at a source; for DNS as long as its records live where that is longer"),
    // Every region costs probes, pools and metric series; 256 are the most of any kind.
    key("discovery.regions_max", Integer(1, 200), "32", "regions", "The most regions that are discovered"),
    key("discovery.changes_per_minute", Integer(1, 1_000), "6", "changes",
        "The most regions that are added, changed or removed in a minute; the others wait"),
    key("discovery.trust_tags", Flag, "false", "",
        "Whether the tags that a source names count for `regions_with` of jobs; else they are only shown in `/state`"),
    open("discovery.cache", Path, "",
        "The file of what was learnt, so that a restart without the sources knows it; without it that is lost with the process"),
    key("discovery.defaults.weight", Integer(0, 1_000_000), "1", "", "The weight of a discovered region where its source names none"),
    key("discovery.defaults.tags", NAMES, "", "", "Tags of every discovered region, shown, and read by `regions_with` of jobs"),
    open("discovery.defaults.max_queue_depth", Integer(0, u64::MAX), "jobs", "As `regions[].max_queue_depth`"),
    open("discovery.defaults.tls.ca", Path, "", "PEM trust roots for discovered regions; those of the operating system when absent"),
    open("discovery.defaults.tls.cert", Path, "", "PEM client certificate chain, together with `key`"),
    open("discovery.defaults.tls.key", Path, "", "PEM private key of the client certificate"),
];

/// Routing rules and the table of the `geographic` strategy.
#[rustfmt::skip]
const RULES: &[Key] = &[
    open("routing.rules[].match.job_type", NAME, "",
        "Glob over the job type: `*` for any run of characters, `?` for one"),
    open("routing.rules[].match.queue", NAME, "", "Glob over the queue"),
    open("routing.rules[].match.tags", NAMES, "", "Tags that the job must all have"),
    open("routing.rules[].match.meta", TextMap, "", "Meta members that the job must all have"),
    open("routing.rules[].target.region", NAME, "", "The one region for these jobs"),
    open("routing.rules[].target.regions", NAMES, "", "The regions these jobs may go to"),
    open("routing.rules[].target.regions_with", NAMES, "", "These jobs go only to regions that have all these tags"),
    open("routing.rules[].target.ledger", Choice(Ledger::NAMES), "",
        "Whether these jobs are described for the ledger of the hub, in place of `hub.ledger`; `metadata` needs `hub.report_jobs: true`"),
    open("routing.rules[].target.strategy", Strategy, "", "The strategy of these jobs where they name none"),
    open("routing.geographic.meta_key", NAME, "", "The meta key that holds the hint of the `geographic` strategy"),
    open("routing.geographic.regions", TextMap, "", "Hint to region"),
];

/// The turns of the queues of a FETCH.
#[rustfmt::skip]
const SCHEDULING: &[Key] = &[
    open("scheduling.strategy", Choice(QueueOrder::NAMES), "",
        "How the queues of a FETCH take turns; when absent, as the FETCH itself says in `strategy` and `weights`, and else in the order of its `queues`"),
    open("scheduling.weights", TextMap, "", "Weights by queue for `weighted`, from 1 to 1000; a queue that is not named has 1"),
    key("scheduling.starvation_prevention.enabled", Flag, "false", "",
        "Whether every queue with jobs gets a share of them, whatever the strategy is"),
    key("scheduling.starvation_prevention.rotation_interval", SOME_TIME, "30s", "duration",
        "The length of the window in which the share is kept, wherever it begins; also as in `PT30S`"),
    key("scheduling.starvation_prevention.min_dispatch_ratio", Kind::Number(0.0, 1.0), "0.05", "",
        "The share of each queue in the jobs of a window"),
    open("scheduling.pool", NAME, "",
        "The pool that the workers of this sidecar belong to; when absent, the one that a FETCH names in `pool`, else the only one that has all its queues"),
    open("scheduling.tenant_queues[].queue", Kind::Text(TENANT_QUEUE_BYTES), "", "The name of a queue whose tenants share workers, without `*` and `?`; required"),
    key("scheduling.tenant_queues[].shards", Integer(1, 64), "32", "shards",
        "The queues that each band of its priorities is made of at the regions; a tenant's jobs are in one of them"),
    open("scheduling.tenant_queues[].weights", TextMap, "",
        "Weights by tenant, from 1 to 1000; each of these tenants has a shard of its own as far as there are so many"),
    key("scheduling.tenant_queues[].default_weight", Integer(1, 1_000), "1", "", "The weight of the shards of all other tenants"),
    open("scheduling.tenant_queues[].priority_bands", Kind::Integers(-100, 100), "",
        "The least priority of each band but the last one, descending: a higher band goes before a lower one, and tenants share within a band"),
    key("scheduling.tenant_queues[].mode", Choice(TenantMode::NAMES), "fill", "",
        "Whether new jobs go into shards; with `drain` they go into the queue itself, and shards are emptied first"),
    open("scheduling.pools[].name", NAME, "", "The name of a pool of workers; required"),
    open("scheduling.pools[].queues", NAMES, "", "Its queues: names, or globs with `*` for any run of characters and `?` for one; required"),
    open("scheduling.pools[].concurrency", Integer(1, 1_000_000), "jobs",
        "The jobs that its workers hold at once at most, each sidecar for itself; without it there is no bound"),
    key("scheduling.pools[].concurrency_of", Choice(&["sidecar", "fleet"]), "sidecar", "",
        "Whether `concurrency` is the only bound, or the hub bounds the jobs of all sidecars together, too; `fleet` needs `hub.urls`, `journal.path`, \
            `concurrency` and `on_hub_loss`"),
    open("scheduling.pools[].on_hub_loss", Choice(LimitWithoutHub::NAMES), "",
        "With `concurrency_of: fleet`, without a hub: `hold` keeps to the last grant until its time is over, and then fetches nothing; `local` holds \
            `local_concurrency` jobs then; `refuse` fetches nothing as soon as no hub can be reached"),
    open("scheduling.pools[].local_concurrency", Integer(1, 1_000_000), "jobs",
        "The jobs that the workers of this sidecar hold at once without a grant, with `on_hub_loss: local` only: all sidecars together may then exceed \
            the bound of the fleet"),
    key("scheduling.pools[].longest_lease", Kind::Duration(SECOND, 86_400 * SECOND), "60s", "duration",
        "With `concurrency_of: fleet`, the longest `visibility_timeout_ms` of a FETCH or a heartbeat: the hub counts the jobs of a killed sidecar for so \
            long after its grant"),
    open("scheduling.pools[].strategy", Choice(QueueOrder::NAMES), "",
        "How its queues take turns; when absent, as the FETCH itself says, and else `round-robin`"),
    open("scheduling.pools[].weights", TextMap, "", "As `scheduling.weights`, for queues of the pool"),
    key("scheduling.pools[].isolated", Flag, "false", "", "Whether its queues are taken out of the FETCHes of other workers"),
    key("scheduling.pools[].starvation_prevention.enabled", Flag, "false", "", "As `scheduling.starvation_prevention.enabled`, for queues of the pool"),
    key("scheduling.pools[].starvation_prevention.rotation_interval", SOME_TIME, "30s", "duration", "As `scheduling.starvation_prevention.rotation_interval`"),
    key("scheduling.pools[].starvation_prevention.min_dispatch_ratio", Kind::Number(0.0, 1.0), "0.05", "",
        "As `scheduling.starvation_prevention.min_dispatch_ratio`"),
];

/// The lists of regions for failover.
#[rustfmt::skip]
const FAILOVER: &[Key] = &[
    key("failover.prefer_regions", NAMES, "", "", "Regions to prefer when failing over, in order"),
    key("failover.exclude_regions", NAMES, "", "",
        "Regions never failed over to; still usable as first choice and as pins"),
];

/// The limits of the fleet.
#[rustfmt::skip]
const FLEET_LIMITS: &[Key] = &[
    open("limits.fleet[].region", NAME, "",
        "A region whose calls the hub limits for all sidecars together: enqueues, reads and changes, neither FETCH nor words about leased jobs"),
    open("limits.fleet[].on_hub_loss", Choice(LimitWithoutHub::NAMES), "",
        "Without a hub: `hold` keeps to the last grant until its time is over, and then makes no calls; `local` makes `local_calls` at once then; \
            `refuse` makes none as soon as no hub can be reached; required"),
    open("limits.fleet[].local_calls", Integer(1, 1_000_000), "calls",
        "The calls at once of this sidecar without a grant, with `local` only: all sidecars together may then exceed the limit"),
];

/// The hub.
#[rustfmt::skip]
const HUB: &[Key] = &[
    open("hub.urls", Texts(2048), "",
        "The URLs of the replicas of the hub, `https://host[:port]`; without any there is no hub"),
    open("hub.name", Text(128), "",
        "The name of this sidecar in the hub's inventory; the host and the port of the first client listener when absent"),
    key("hub.report_jobs", Flag, "false", "",
        "Whether the changes of jobs that pass this sidecar are reported to the hub, for its index: ids, types, queues, tenants, states and times"),
    key("hub.ledger", Choice(Ledger::NAMES), "off", "",
        "Whether the reports of jobs describe them for the ledger of the hub, too: `off`, or `metadata`, with the priority, the worker, the lease and the \
            SHA-256 of the arguments, and never their bytes. Needs `hub.report_jobs: true`; a rule may say otherwise for its jobs"),
    key("hub.report_bodies", NAMES, "", "",
        "Globs over queues whose jobs are handed to the hub with their bytes, for the loss of a region; never a pinned job. Needs `hub.report_jobs: true`"),
    open("hub.repeated_ids", Choice(RepeatedIds::NAMES), "",
        "What becomes of a single enqueue whose own `ojs.federation.federation_id` the hub's index knows as a job that was neither cancelled nor \
            discarded: `pass`, it is sent and the hub is not asked, or `refuse`, 409 `federation_id_repeated`; the hub is waited for 250ms at most, and \
            without its answer the job is sent. `refuse` needs `hub.report_jobs: true` and is the default with `topology: active-active`, else `pass`"),
    // Below 5 s one late beat of the hub, which comes every 3 s, cuts a spoke off; beyond 5 min a spoke routes by a picture of long ago.
    key("hub.lease", Kind::Duration(5 * SECOND, 300 * SECOND), "10s", "duration",
        "How long a spoke of `topology: hub-spoke` sends to other regions after the last sign of life of its hub, which comes every 3s, and how long \
            workers get jobs with `hub.fetch: heard`"),
    key("hub.fetch", Choice(FetchWith::NAMES), "always", "",
        "When the workers of this sidecar get jobs: `always`, or only while its hub is `heard`, so that after a failure of the whole data centre no \
            worker gets a job before the hub has said which regions are isolated"),
    key("hub.decide", Choice(Decide::NAMES), "view", "",
        "With `topology: hub-spoke`, whose picture of the regions decides where a flexible job of a spoke goes: `view`, the one that the hub sends \
            beforehand, or `ask`, the hub's own, which is asked and then is on the path of jobs"),
    // Below a second equal jobs are asked about again and again; beyond a minute a spoke routes by a picture of long ago.
    key("hub.decide_cache", Kind::Duration(SECOND, 60 * SECOND), "3s", "duration",
        "With `hub.decide: ask`, how long an answer of the hub is in force for equal questions"),
    // Below 100 ms a hub on another continent is never heard; beyond 10 s clients have given up.
    key("hub.decide_wait", Kind::Duration(SECOND / 10, 10 * SECOND), "2s", "duration",
        "With `hub.decide: ask`, how long a job waits for the hub; then it goes to the local region or nowhere, as without the hub"),
    open("hub.tls.ca", Path, "", "PEM trust roots for the hub; those of the operating system when absent"),
    open("hub.tls.cert", Path, "", "PEM client certificate chain, by whose names the hub knows this sidecar"),
    open("hub.tls.key", Path, "", "PEM private key of the client certificate"),
    open("hub.tls.server_name", NAME, "", "The name the hub's certificate must show, in place of the URL's host"),
    open("hub.tls.uri_san", Text(2048), "",
        "The URI the hub's certificate must show, such as a SPIFFE id; not together with `server_name`"),
];

/// Tasks of the legacy orchestration UWER.
#[rustfmt::skip]
const UWER: &[Key] = &[
    key("uwer.enabled", Flag, "false", "", "Whether tasks of UWER are taken below `/uwer/v4/`; needs `hub.urls`, because the hub keeps them"),
    open("uwer.origins[].origin", NAME, "",
        "Glob over the `OriginService` of a task: `*` for any run of characters, `?` for one; required, and the first that fits decides"),
    key("uwer.origins[].type", NAME, UwerOrigin::TYPE, "", "The type of the jobs of these services"),
    key("uwer.origins[].queue", Text(QUEUE_BYTES), UwerOrigin::QUEUE, "", "The queue of the jobs of these services"),
];

/// Keys of the public federation schema that are accepted and not honoured.
#[rustfmt::skip]
const IGNORED: &[Key] = &[
    ignored("version", Scalar, "The version of the public federation schema"),
    ignored("routing.fallback_strategy", NAME,
        "Failover follows the order of the strategy and `failover.prefer_regions`"),
    ignored("circuit_breaker.enabled", Flag, "Breakers are always on"),
    ignored("circuit_breaker.probe_count", COUNT, "Half-open sends exactly one probe"),
    ignored("replication.enabled", Flag, "Hubs replicate an index of jobs: `hub.report_jobs`"),
    ignored("replication.mode", NAME, "Hubs replicate an index of jobs: `hub.report_jobs`"),
    ignored("replication.max_lag_seconds", Integer(0, u64::MAX), "Jobs are not replicated"),
];

/// Every row, in the order of `config/example.yaml`.
pub(super) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let tables: [&[Key]; 30] = [
        PLACES,
        DISCOVERY,
        Routing::KEYS,
        RULES,
        Batch::KEYS,
        Workers::KEYS,
        SCHEDULING,
        Queues::KEYS,
        Lists::KEYS,
        Residency::KEYS,
        HealthCheck::KEYS,
        CircuitBreaker::KEYS,
        Load::KEYS,
        Failover::KEYS,
        RetryBudget::KEYS,
        FAILOVER,
        Journal::KEYS,
        Spool::KEYS,
        HUB,
        UWER,
        Decisions::KEYS,
        Idempotency::KEYS,
        Limits::KEYS,
        FLEET_LIMITS,
        Compat::KEYS,
        Log::KEYS,
        MetricsConfig::KEYS,
        Readiness::KEYS,
        Shutdown::KEYS,
        IGNORED,
    ];
    tables.concat()
});
const fn key(path: &'static str, kind: Kind, default: &'static str, unit: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default: Some(default), unit, doc, honoured: true }
}

/// A key without a default, or with one that depends on other keys.
const fn open(path: &'static str, kind: Kind, unit: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default: None, unit, doc, honoured: true }
}

/// A key of the public federation schema that we read and do not honour.
const fn ignored(path: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { path, kind, default: None, unit: "", doc, honoured: false }
}

const fn alias(written: &'static str, key: &'static str, kind: Kind) -> Alias {
    Alias { written, key, kind }
}
