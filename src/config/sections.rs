//! The sections of the configuration whose keys stand by themselves. A new key is one entry here.
//!
//! Keys of lists (`regions`, `tenants`, `routing.rules`), of `listen`, and those that name regions have their rows in
//! `keys/rows.rs` and their rules in `check/`.

use std::path::PathBuf;
use std::time::Duration;

use figment::value::Dict;
use serde::de::{Deserialize, Deserializer, Error};

use super::key::Key;
use super::kind::Kind::{self, Choice, Flag, Integer, Number, Path, Size, Text};
use super::kind::{COUNT, DAY, HOUR, NAMES, SECOND, SOME_TIME};
use super::section::{Section, Setting, default_of, keep, section, write_section};
use super::types::{
    AccessLog, ClientReplicatedFrom, Geographic, HealthSource, JsonContentType, KeyScope, ListReplicas, LoadSource,
    LogFormat, MetricsDetail, MixedBatch, OnAllUnhealthy, OnHubLoss, OnUnknown, QueueControl, ReadResidency, Rule,
    Stamp, UnknownKeys,
};
use super::yaml::Yaml;
use crate::base::{RegionId, Strategy};

section! {
    /// Routing: strategy, rules and stamping.
    Routing at "routing" {
        strategy: Strategy = Kind::Strategy, "affinity", "", "For jobs that name no strategy and match no rule";
        stamp: Stamp = Choice(Stamp::NAMES), "always", "", "Which jobs get federation keys added";
        stamp_origin: bool = Flag, "false", "", "Whether `source_region` and `routed_at` are stamped too";
        mint_id: bool = Flag, "true", "", "Whether a job without `id` gets one";
        id_hint: bool = Flag, "true", "",
            "Whether minted ids carry a hint of the job's region, by which other sidecars find it sooner";
        + /// First match wins; at most 1024, so that matching stays cheap.
        rules: Vec<Rule>;
        + /// The table of the `geographic` strategy.
        geographic: Option<Geographic>;
    }
}

section! {
    /// Batches.
    Batch at "batch" {
        mixed: MixedBatch = Choice(MixedBatch::NAMES), "split", "",
            "What happens to a batch whose jobs must go to several regions";
    }
}

section! {
    /// Workers.
    Workers at "workers" {
        remote_fetch: Vec<String> = NAMES, "", "",
            "Queues, free of residency rules, whose jobs workers also take from other regions";
    }
}

section! {
    /// Queues.
    Queues at "queues" {
        control: QueueControl = Choice(QueueControl::NAMES), "all", "",
            "Which regions pause, resume and purge reach: all of them, or the local one";
    }
}

section! {
    /// Merged lists.
    Lists at "lists" {
        annotate: bool = Flag, "false", "", "Whether the items of merged lists name their region";
        replicas: ListReplicas = Choice(ListReplicas::NAMES), "off", "",
            "The list of jobs of a region that is down: `off`, it is missing, or `mark`, that of the hub's index, each job marked with its age. Needs a hub \
                that keeps an index";
    }
}

section! {
    /// Reads of jobs that are pinned to another region than the local one.
    Residency at "residency" {
        read: ReadResidency = Choice(ReadResidency::NAMES), "allow", "",
            "What a lookup by id returns of a job pinned to another region than the local one";
        read_lists: ReadResidency = Choice(ReadResidency::NAMES), "redact", "",
            "What lists return of a job pinned to another region than the local one";
    }
}

section! {
    /// Health probes. Spec: federation-spec §4.2.
    HealthCheck at "health_check" {
        interval: Duration = SOME_TIME, "10s", "duration", "Between two probes of a region; jittered by a tenth";
        timeout: Duration = SOME_TIME, "5s", "duration", "For one probe, connecting included";
        unhealthy_threshold: u32 = COUNT, "1", "probes", "Consecutive failures until a region is unhealthy";
        healthy_threshold: u32 = COUNT, "1", "probes", "Consecutive successes until it is healthy again";
        accepted_status: Vec<String> = NAMES, "ok", "", "The `status` values that count as healthy";
        source: HealthSource = Choice(HealthSource::NAMES), "own", "",
            "Who probes and polls load: this sidecar, or its hub, whose views it uses while they are fresh";
    }
}

section! {
    /// Circuit breakers. Spec: federation-spec §4.3.
    CircuitBreaker at "circuit_breaker" {
        failure_threshold: u32 = COUNT, "5", "failures",
            "Consecutive failures, probes and requests apart, that open it";
        cooldown: Duration = SOME_TIME, "30s", "duration", "From open to half-open";
        cooldown_multiplier: f64 = Number(1.0, 10.0), "1", "", "Each further opening multiplies the cooldown by this";
        cooldown_max: Duration = SOME_TIME, "60s", "duration",
            "The longest cooldown: at most 60s, or the cooldown itself where that is longer";
        // A second is the least that a fleet's health endpoint bears from each sidecar; 0 is the silence that the specification has.
        early_probe: Duration = Kind::Duration(0, HOUR), "1s", "duration",
            "While jobs are refused for lack of a region, a probe this often decides before the cooldown is over; 0s: none does";
        failure_ratio: f64 = Number(0.01, 1_000.0), "0.5", "",
            "Share of failed requests in the window that opens it; above 1 switches this off";
        ratio_window: Duration = SOME_TIME, "10s", "duration", "The window of the ratio";
        ratio_min_requests: u32 = COUNT, "20", "requests", "Requests in the window below which the ratio says nothing";
        slow_start: Duration = Kind::Duration(0, HOUR), "10s", "duration",
            "How long flexible traffic ramps up after a recovery; 0s switches the ramp off";
        // Three outages with their returns. A breaker takes half a minute for one, so ten minutes hold twice as many.
        hold_down_changes: u32 = Integer(0, 1_000), "6", "changes",
            "So many changes between usable and not keep flexible jobs away from a region while there is another; 0 switches this off";
        hold_down_window: Duration = SOME_TIME, "10min", "duration", "Within which the changes are counted";
        hold_down_quiet: Duration = SOME_TIME, "60s", "duration",
            "How long such a region must be usable without a change until jobs come back";
    }
}

section! {
    /// Load polling. Spec: federation-spec §3.2.
    Load at "load" {
        source: LoadSource = Choice(LoadSource::NAMES), "queue", "",
            "Which figure is polled: the depth of the queues lately used, or the region's total";
        interval: Duration = SOME_TIME, "10s", "duration", "Between two polls of a region";
        queues_max: usize = Integer(1, 10_000), "64", "queues", "Lately used queues that are polled per region";
        tolerance: f64 = Number(0.0, 1.0), "0.2", "", "Loads within this share of each other count as equal";
    }
}

section! {
    /// Failover. Spec: RFC-0001 §4.
    Failover at "failover" {
        enabled: bool = Flag, "true", "", "Whether a job that could not be sent goes to its next candidate";
        max_redirects: usize = Integer(0, 100), "3", "regions", "Further regions after the first";
        on_unknown: OnUnknown = Choice(OnUnknown::NAMES), "fail", "",
            "What follows an enqueue whose outcome cannot be found out: an error, or the next region, which may store it twice";
        on_all_unhealthy: OnAllUnhealthy = Choice(OnAllUnhealthy::NAMES), "refuse", "",
            "What follows a job that no region can take: an error, or one try at the region that was well last; pinned jobs are refused always";
        // A server whose client has gone still ends the statement that it is at; two seconds are many times what one takes.
        late_write_grace: Duration = Kind::Duration(0, 60 * SECOND), "2s", "duration",
            "How long after the end of its connection a region may still store a job";
        read_lag: Duration = Kind::Duration(0, 60 * SECOND), "0s", "duration",
            "How far a region's reads may be behind its writes, as with read replicas; added to `late_write_grace`";
        .. retry_budget: RetryBudget;
        + /// Regions to prefer when failing over, in order. Every id is registered.
        prefer_regions: Vec<RegionId>;
        + /// Regions never failed over to; they stay usable as first choice and as pins.
        exclude_regions: Vec<RegionId>;
    }
}

section! {
    /// How many requests redirects may add.
    RetryBudget at "failover.retry_budget" {
        ratio: f64 = Number(0.0, 1.0), "0.2", "", "Share of requests that redirects may add";
        floor: f64 = Number(0.0, 1_000.0), "3", "per second", "Redirects that are allowed whatever the traffic";
    }
}

section! {
    /// The journal.
    Journal at "journal" {
        path: Option<PathBuf> = Path, none, "",
            "The file of the journal of unknown outcomes; without it, or with `off`, they are kept in memory and lost with the process", restart;
        required: bool = Flag, "false", "",
            "Whether an enqueue with an `Idempotency-Key`, or with the client's own id, is refused with 503 `journal_unavailable` while the journal's file cannot be written";
        rows_max: usize = Integer(100, 1_000_000), "10000", "rows",
            "Unknown outcomes that are kept, and as many calls with an `Idempotency-Key`; about 500 bytes each";
    }
}

section! {
    /// The outage spool.
    Spool at "spool" {
        path: Option<PathBuf> = Path, none, "",
            "The file of the outage spool; without it no job is spooled", restart;
        key_file: Option<PathBuf> = Path, none, "",
            "Needed with `spool.path`: a file with the key that seals spooled jobs, 32 bytes as 64 hexadecimal digits", restart;
        queues: Vec<String> = NAMES, "", "",
            "Needed with `spool.path`: globs over the queues whose jobs are spooled when no region can take them", restart;
        // Some 50 000 jobs of usual length, or 240 of the longest.
        max_bytes: usize = Size(1 << 20, 1 << 40), "64MiB", "bytes",
            "What spooled jobs may take, 1 KiB beside the content of each included; a job for which there is no room is refused", restart;
        max_age: Duration = Kind::Duration(SECOND, 7 * DAY), "24h", "duration",
            "A spooled job that is older is not sent any more, and set aside", restart;
    }
}

section! {
    /// Notes of how jobs were routed, for `GET /v1/federation/decisions`.
    Decisions at "decisions" {
        // A sidecar beside one pod routes a few jobs a second: some hours of them. 10000 notes of either kind are 10 MB at most.
        rows_max: usize = Integer(0, 1_000_000), "10000", "rows",
            "Jobs that went as planned, and as many others, of which it is noted how they were routed, for `ojs-sidecar why`; about 500 bytes each; 0: none";
    }
}

section! {
    /// `Idempotency-Key` on single enqueues.
    Idempotency at "idempotency" {
        enabled: bool = Flag, "true", "",
            "Whether a single enqueue with a known `Idempotency-Key` is answered from what is known";
        ttl: Duration = Kind::Duration(SECOND, 7 * DAY), "24h", "duration", "How long an `Idempotency-Key` is remembered";
        scope: KeyScope = Choice(KeyScope::NAMES), "sidecar", "",
            "Who knows a key: the sidecar that it came to, or all sidecars of the hub";
        // No default: either answer is wrong for some operator, and the wrong one is noticed in an outage only.
        on_hub_loss: Option<OnHubLoss> = Choice(OnHubLoss::NAMES), none, "",
            "Needed with `idempotency.scope: hub`: what a single enqueue with a key gets that the hub cannot claim: `local`, it is sent and the key is that of this sidecar alone; `refuse`, 503 `hub_unavailable`, and nothing is sent";
    }
}

section! {
    /// Bounds.
    Limits at "limits" {
        body_bytes: usize = Size(1 << 10, 1 << 30), "10MiB", "bytes", "The longest body that is interpreted";
        buffered_bytes: usize = Size(1 << 10, 1 << 36), "64MiB", "bytes",
            "Bodies in memory at once, of all requests together; at least `limits.body_bytes`";
        memory: Option<usize> = Size(1 << 24, 1 << 40), none, "bytes",
            "What unfinished requests, streams and unread answers of all clients may hold beside bodies; a third of the control group's limit, 1 GiB where there is none", restart;
        json_depth: usize = Integer(8, 1_024), "128", "levels", "Nesting of interpreted JSON";
        // The HTTP parser needs room for 8 KiB at least.
        head_bytes: usize = Size(8 << 10, 1 << 20), "64KiB", "bytes", "The longest request or response head", restart;
        headers: usize = Integer(8, 1_000), "100", "lines", "Header lines of a head", restart;
        head_timeout: Duration = SOME_TIME, "10s", "duration",
            "From the first byte of a request head to its end", restart;
        // SDKs keep idle connections for up to two minutes; a connection closed under them fails a request.
        idle_timeout: Duration = Kind::Duration(120 * SECOND, DAY), "130s", "duration",
            "How long a client's connection may be idle", restart;
        stream_idle_timeout: Duration = SOME_TIME, "5min", "duration", "Between two pieces of a streamed body";
        call_timeout: Duration = SOME_TIME, "25s", "duration",
            "A whole interpreted call, all attempts included; SDKs give up at 30s";
        connect_timeout: Duration = SOME_TIME, "5s", "duration", "To connect, TLS included";
        client_connections: usize = Integer(1, 1_000_000), "10000", "connections",
            "Client connections at once, over all listeners", restart;
        calls: u64 = Integer(1, 1_000_000), "8192", "calls",
            "Calls to all regions at once; reads get four fifths of it, and words about leased jobs are never refused";
        calls_per_region: u64 = Integer(1, 1_000_000), "4096", "calls",
            "Calls to one region at once; down to a third of it while the region is slower than usual";
        pool_idle_per_region: usize = Integer(0, 10_000), "256", "connections",
            "Idle connections kept per region and worker thread";
        pool_idle_timeout: Duration = SOME_TIME, "50s", "duration", "How long an idle region connection is kept";
        connection_lifetime: Duration = SOME_TIME, "5min", "duration", "The longest a region connection lives";
        worker_threads: usize = Integer(0, 64), "0", "threads",
            "Worker threads; 0 means the cores this process may use, at most 2", restart;
        owner_entries: usize = Integer(0, 100_000_000), "1000000", "jobs",
            "Jobs whose region is remembered; some 6 to 8 bytes each once they are there";
        lookups: usize = Integer(1, 10_000), "64", "lookups",
            "Searches of all regions for an unknown job at once; more wait their turn";
        // Every further hop multiplies a call that goes to all regions by their number.
        hops: u16 = Integer(1, 16), "3", "sidecars",
            "Sidecars that a call may pass on its way to a server; one more refuses it, because it goes in circles";
    }
}

section! {
    /// Switches for real clients.
    Compat at "compat" {
        json_content_type: JsonContentType = Choice(JsonContentType::NAMES), "auto", "",
            "Who gets `application/json`: clients known to need it, all clients, none";
        client_replicated_from: ClientReplicatedFrom = Choice(ClientReplicatedFrom::NAMES), "pass", "",
            "Whether a client's own `replicated_from` passes or is refused";
        unknown_federation_keys: UnknownKeys = Choice(UnknownKeys::NAMES), "pass", "",
            "What happens to a job with an undefined `ojs.federation.*` key that looks like no defined one; always counted";
        heartbeat_ids: bool = Flag, "true", "",
            "Whether a heartbeat that counts its jobs is sent again with their ids in an array to regions that refuse it";
        directive: bool = Flag, "true", "", "Whether a heartbeat's `directive` is copied to `state`, where SDKs look";
        retry_after: bool = Flag, "true", "", "Whether a region's `Retry-After` is made a positive whole number";
        event_stream: bool = Flag, "true", "",
            "Whether `GET /ojs/v1/events/stream?channel=` is translated to the stream of the job or queue";
    }
}

section! {
    /// Logging.
    Log at "log" {
        format: LogFormat = Choice(LogFormat::NAMES), "text", "", "For people or for machines", restart;
        level: String = Text(4096), "info", "", "The least severe level that is written, or a `tracing` filter";
        access: AccessLog = Choice(AccessLog::NAMES), "errors", "",
            "Which requests are logged; `errors` includes refusals, failovers and unknown outcomes";
    }
}

section! {
    /// The content of a scrape.
    MetricsConfig at "metrics" {
        detail: MetricsDetail = Choice(MetricsDetail::NAMES), "basic", "",
            "How many series a scrape has: at most 60 a region, or some 300 with every class, strategy and bucket";
    }
}

section! {
    /// The conditions of `/readyz`.
    Readiness at "readiness" {
        require_region: bool = Flag, "false", "", "Whether `/readyz` needs a usable region", restart;
    }
}

section! {
    /// How the process ends.
    Shutdown at "shutdown" {
        drain_idle: Duration = Kind::Duration(0, DAY), "5s", "duration",
            "The process ends once no client was seen for this long after the signal";
        drain_timeout: Duration = Kind::Duration(0, DAY), "60s", "duration", "The longest it waits";
    }
}
