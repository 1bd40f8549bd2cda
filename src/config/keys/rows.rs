//! The rows of the key table. Reasons for the less obvious bounds stand beside them.

use super::super::types::{
    AccessLog, ClientReplicatedFrom, DuplicateIds, JsonContentType, LoadSource, LogFormat, MetricsDetail, MixedBatch,
    OnAllUnhealthy, OnUnknown, QueueControl, ReadResidency, Stamp, UnknownKeys,
};
use super::key::Key;
use super::kind::Kind::{
    self, Address, Choice, Duration, Flag, Integer, Mode, Number, Path, Scalar, Seconds, Size, Strategy, Text, TextMap,
    Texts,
};

/// Another spelling of a key, taken over before the layers are merged: a later layer wins, whatever its spelling.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) struct Alias {
    /// The other spelling.
    pub(in crate::config) written: &'static str,
    /// The key it means.
    pub(in crate::config) key: &'static str,
    /// What the other spelling takes.
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

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
/// A consecutive count.
const COUNT: Kind = Integer(1, 1_000_000);
/// A time that some waiting needs.
const SOME_TIME: Kind = Duration(1, DAY);
/// A name: of a region, host, queue or tag.
const NAME: Kind = Text(256);
const NAMES: Kind = Texts(256);

// One row reads as one or two lines; rustfmt would give each argument a line.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("federation_id", NAME, "default", "", "The name of this federation, as `GET /v1/federation/regions` shows it"),
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
    open("tenants[].match", NAME, "",
        "Glob over the tenant: `meta.tenant_id` of the job, else the header `X-OJS-Tenant`; the first that fits decides"),
    open("tenants[].regions", NAMES, "", "The regions that jobs of the tenant may go to; narrows pins and rules"),
    open("tenants[].regions_with", NAMES, "", "Only regions that have all these tags"),
    open("tenants[].home", NAME, "", "The region that is to the tenant's jobs what the local one is to others"),
    key("routing.strategy", Strategy, "affinity", "", "For jobs that name no strategy and match no rule"),
    key("routing.stamp", Choice(Stamp::NAMES), "always", "", "Which jobs get federation keys added"),
    key("routing.stamp_origin", Flag, "false", "", "Whether `source_region` and `routed_at` are stamped too"),
    key("routing.mint_id", Flag, "true", "", "Whether a job without `id` gets one"),
    key("routing.id_hint", Flag, "true", "",
        "Whether minted ids carry a hint of the job's region, by which other sidecars find it sooner"),
    open("routing.rules[].match.job_type", NAME, "",
        "Glob over the job type: `*` for any run of characters, `?` for one"),
    open("routing.rules[].match.queue", NAME, "", "Glob over the queue"),
    open("routing.rules[].match.tags", NAMES, "", "Tags that the job must all have"),
    open("routing.rules[].match.meta", TextMap, "", "Meta members that the job must all have"),
    open("routing.rules[].target.region", NAME, "", "The one region for these jobs"),
    open("routing.rules[].target.regions", NAMES, "", "The regions these jobs may go to"),
    open("routing.rules[].target.regions_with", NAMES, "", "These jobs go only to regions that have all these tags"),
    open("routing.rules[].target.strategy", Strategy, "", "The strategy of these jobs where they name none"),
    open("routing.geographic.meta_key", NAME, "", "The meta key that holds the hint of the `geographic` strategy"),
    open("routing.geographic.regions", TextMap, "", "Hint to region"),
    key("batch.mixed", Choice(MixedBatch::NAMES), "split", "",
        "What happens to a batch whose jobs must go to several regions"),
    key("workers.remote_fetch", NAMES, "", "",
        "Queues, free of residency rules, whose jobs workers also take from other regions"),
    key("queues.control", Choice(QueueControl::NAMES), "all", "",
        "Which regions pause, resume and purge reach: all of them, or the local one"),
    key("lists.annotate", Flag, "false", "", "Whether the items of merged lists name their region"),
    key("residency.read", Choice(ReadResidency::NAMES), "allow", "",
        "What a lookup by id returns of a job pinned to another region than the local one"),
    key("residency.read_lists", Choice(ReadResidency::NAMES), "redact", "",
        "What lists return of a job pinned to another region than the local one"),
    key("health_check.interval", SOME_TIME, "10s", "duration", "Between two probes of a region; jittered by a tenth"),
    key("health_check.timeout", SOME_TIME, "5s", "duration", "For one probe, connecting included"),
    key("health_check.unhealthy_threshold", COUNT, "1", "probes", "Consecutive failures until a region is unhealthy"),
    key("health_check.healthy_threshold", COUNT, "1", "probes", "Consecutive successes until it is healthy again"),
    key("health_check.accepted_status", NAMES, "ok", "", "The `status` values that count as healthy"),
    key("circuit_breaker.failure_threshold", COUNT, "5", "failures",
        "Consecutive failures, probes and requests apart, that open it"),
    key("circuit_breaker.cooldown", SOME_TIME, "30s", "duration", "From open to half-open"),
    key("circuit_breaker.cooldown_multiplier", Number(1.0, 10.0), "1", "",
        "Each further opening multiplies the cooldown by this"),
    key("circuit_breaker.cooldown_max", SOME_TIME, "60s", "duration",
        "The longest cooldown: at most 60s, or the cooldown itself where that is longer"),
    // A second is the least that a fleet's health endpoint bears from each sidecar; 0 is the silence that the specification has.
    key("circuit_breaker.early_probe", Duration(0, HOUR), "1s", "duration",
        "While jobs are refused for lack of a region, a probe this often decides before the cooldown is over; 0s: none does"),
    key("circuit_breaker.failure_ratio", Number(0.01, 1_000.0), "0.5", "",
        "Share of failed requests in the window that opens it; above 1 switches this off"),
    key("circuit_breaker.ratio_window", SOME_TIME, "10s", "duration", "The window of the ratio"),
    key("circuit_breaker.ratio_min_requests", COUNT, "20", "requests",
        "Requests in the window below which the ratio says nothing"),
    key("circuit_breaker.slow_start", Duration(0, HOUR), "10s", "duration",
        "How long flexible traffic ramps up after a recovery; 0s switches the ramp off"),
    // Three outages with their returns. A breaker takes half a minute for one, so ten minutes hold twice as many.
    key("circuit_breaker.hold_down_changes", Integer(0, 1_000), "6", "changes",
        "So many changes between usable and not keep flexible jobs away from a region while there is another; 0 switches \
            this off"),
    key("circuit_breaker.hold_down_window", SOME_TIME, "10min", "duration", "Within which the changes are counted"),
    key("circuit_breaker.hold_down_quiet", SOME_TIME, "60s", "duration",
        "How long such a region must be usable without a change until jobs come back"),
    key("load.source", Choice(LoadSource::NAMES), "queue", "",
        "Which figure is polled: the depth of the queues lately used, or the region's total"),
    key("load.interval", SOME_TIME, "10s", "duration", "Between two polls of a region"),
    key("load.queues_max", Integer(1, 10_000), "64", "queues", "Lately used queues that are polled per region"),
    key("load.tolerance", Number(0.0, 1.0), "0.2", "", "Loads within this share of each other count as equal"),
    key("failover.enabled", Flag, "true", "", "Whether a job that could not be sent goes to its next candidate"),
    key("failover.max_redirects", Integer(0, 100), "3", "regions", "Further regions after the first"),
    key("failover.prefer_regions", NAMES, "", "", "Regions to prefer when failing over, in order"),
    key("failover.exclude_regions", NAMES, "", "",
        "Regions never failed over to; still usable as first choice and as pins"),
    key("failover.retry_budget.ratio", Number(0.0, 1.0), "0.2", "", "Share of requests that redirects may add"),
    key("failover.retry_budget.floor", Number(0.0, 1_000.0), "3", "per second",
        "Redirects that are allowed whatever the traffic"),
    key("failover.on_unknown", Choice(OnUnknown::NAMES), "fail", "",
        "What follows an enqueue whose outcome cannot be found out: an error, or the next region, which may store it twice"),
    key("failover.on_all_unhealthy", Choice(OnAllUnhealthy::NAMES), "refuse", "",
        "What follows a job that no region can take: an error, or one try at the region that was well last; pinned jobs are refused always"),
    // A server whose client has gone still ends the statement that it is at; two seconds are many times what one takes.
    key("failover.late_write_grace", Duration(0, 60 * SECOND), "2s", "duration",
        "How long after the end of its connection a region may still store a job"),
    key("failover.read_lag", Duration(0, 60 * SECOND), "0s", "duration",
        "How far a region's reads may be behind its writes, as with read replicas; added to `late_write_grace`"),
    open("journal.path", Path, "",
        "The file of the journal of unknown outcomes; without it, or with `off`, they are kept in memory and lost with the process"),
    key("journal.required", Flag, "false", "",
        "Whether an enqueue with an `Idempotency-Key`, or with the client's own id, is refused with 503 `journal_unavailable` while the journal's file cannot be written"),
    key("journal.rows_max", Integer(100, 1_000_000), "10000", "rows",
        "Unknown outcomes that are kept, and as many calls with an `Idempotency-Key`; about 500 bytes each"),
    // A sidecar beside one pod routes a few jobs a second: some hours of them. 10000 notes of either kind are 10 MB at most.
    key("decisions.rows_max", Integer(0, 1_000_000), "10000", "rows",
        "Jobs that went as planned, and as many others, of which it is noted how they were routed, for `ojs-sidecar why`; about 500 bytes each; 0: none"),
    key("idempotency.enabled", Flag, "true", "",
        "Whether a single enqueue with a known `Idempotency-Key` is answered from what is known"),
    key("idempotency.ttl", Duration(SECOND, 7 * DAY), "24h", "duration", "How long an `Idempotency-Key` is remembered"),
    key("limits.body_bytes", Size(1 << 10, 1 << 30), "10MiB", "bytes", "The longest body that is interpreted"),
    key("limits.buffered_bytes", Size(1 << 10, 1 << 36), "64MiB", "bytes",
        "Bodies in memory at once, of all requests together; at least `limits.body_bytes`"),
    open("limits.memory", Size(1 << 24, 1 << 40), "bytes",
        "What unfinished requests, streams and unread answers of all clients may hold beside bodies; a third of the control \
            group's limit, 1 GiB where there is none"),
    key("limits.json_depth", Integer(8, 1_024), "128", "levels", "Nesting of interpreted JSON"),
    // The HTTP parser needs room for 8 KiB at least.
    key("limits.head_bytes", Size(8 << 10, 1 << 20), "64KiB", "bytes", "The longest request or response head"),
    key("limits.headers", Integer(8, 1_000), "100", "lines", "Header lines of a head"),
    key("limits.head_timeout", SOME_TIME, "10s", "duration", "From the first byte of a request head to its end"),
    // SDKs keep idle connections for up to two minutes; a connection closed under them fails a request.
    key("limits.idle_timeout", Duration(120 * SECOND, DAY), "130s", "duration",
        "How long a client's connection may be idle"),
    key("limits.stream_idle_timeout", SOME_TIME, "5min", "duration", "Between two pieces of a streamed body"),
    key("limits.call_timeout", SOME_TIME, "25s", "duration",
        "A whole interpreted call, all attempts included; SDKs give up at 30s"),
    key("limits.connect_timeout", SOME_TIME, "5s", "duration", "To connect, TLS included"),
    key("limits.client_connections", Integer(1, 1_000_000), "10000", "connections",
        "Client connections at once, over all listeners"),
    key("limits.calls", Integer(1, 1_000_000), "8192", "calls",
        "Calls to all regions at once; reads get four fifths of it, and words about leased jobs are never refused"),
    key("limits.calls_per_region", Integer(1, 1_000_000), "4096", "calls",
        "Calls to one region at once; down to a third of it while the region is slower than usual"),
    key("limits.pool_idle_per_region", Integer(0, 10_000), "256", "connections",
        "Idle connections kept per region and worker thread"),
    key("limits.pool_idle_timeout", SOME_TIME, "50s", "duration", "How long an idle region connection is kept"),
    key("limits.connection_lifetime", SOME_TIME, "5min", "duration", "The longest a region connection lives"),
    key("limits.worker_threads", Integer(0, 64), "0", "threads",
        "Worker threads; 0 means the cores this process may use, at most 2"),
    key("limits.owner_entries", Integer(0, 100_000_000), "1000000", "jobs",
        "Jobs whose region is remembered; some 6 to 8 bytes each once they are there"),
    key("limits.lookups", Integer(1, 10_000), "64", "lookups",
        "Searches of all regions for an unknown job at once; more wait their turn"),
    // Every further hop multiplies a call that goes to all regions by their number.
    key("limits.hops", Integer(1, 16), "3", "sidecars",
        "Sidecars that a call may pass on its way to a server; one more refuses it, because it goes in circles"),
    key("compat.json_content_type", Choice(JsonContentType::NAMES), "auto", "",
        "Who gets `application/json`: clients known to need it, everyone, nobody"),
    key("compat.client_replicated_from", Choice(ClientReplicatedFrom::NAMES), "pass", "",
        "Whether a client's own `replicated_from` passes or is refused"),
    key("compat.unknown_federation_keys", Choice(UnknownKeys::NAMES), "pass", "",
        "What happens to a job with an undefined `ojs.federation.*` key that looks like no defined one; always counted"),
    key("compat.heartbeat_ids", Flag, "true", "",
        "Whether a heartbeat that counts its jobs is sent again with their ids in an array to regions that refuse it"),
    key("compat.directive", Flag, "true", "", "Whether a heartbeat's `directive` is copied to `state`, where SDKs look"),
    key("compat.retry_after", Flag, "true", "", "Whether a region's `Retry-After` is made a positive whole number"),
    key("compat.event_stream", Flag, "true", "",
        "Whether `GET /ojs/v1/events/stream?channel=` is translated to the stream of the job or queue"),
    key("log.format", Choice(LogFormat::NAMES), "text", "", "For people or for machines"),
    key("log.level", Text(4096), "info", "", "The least severe level that is written, or a `tracing` filter"),
    key("log.access", Choice(AccessLog::NAMES), "errors", "",
        "Which requests are logged; `errors` includes refusals, failovers and unknown outcomes"),
    key("metrics.detail", Choice(MetricsDetail::NAMES), "basic", "",
        "How many series a scrape has: at most 60 a region, or some 300 with every class, strategy and bucket"),
    key("readiness.require_region", Flag, "false", "", "Whether `/readyz` needs a usable region"),
    key("shutdown.drain_idle", Duration(0, DAY), "5s", "duration",
        "The process ends once no client was seen for this long after the signal"),
    key("shutdown.drain_timeout", Duration(0, DAY), "60s", "duration", "The longest it waits"),
    ignored("version", Scalar, "The version of the public federation schema"),
    ignored("topology", Choice(&["mesh", "hub-spoke", "active-active"]),
        "Only `mesh` is accepted: every region is reached directly, and jobs are not replicated"),
    ignored("regions[].is_hub", Flag, "There is no hub"),
    ignored("routing.fallback_strategy", NAME,
        "Failover follows the order of the strategy and `failover.prefer_regions`"),
    ignored("circuit_breaker.enabled", Flag, "Breakers are always on"),
    ignored("circuit_breaker.probe_count", COUNT, "Half-open sends exactly one probe"),
    ignored("replication.enabled", Flag, "Jobs are not replicated"),
    ignored("replication.mode", NAME, "Jobs are not replicated"),
    ignored("replication.max_lag_seconds", Integer(0, u64::MAX), "Jobs are not replicated"),
];

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
