//! The one table of metric families: registration, `docs/reference/metrics.md` and the expectations of tests come from it.

use std::fmt::Write as _;

/// The prefix of the names of most families.
pub(super) const PREFIX: &str = "ojs_federation";
/// The prefix of the others, which the specification of fair scheduling names.
pub(super) const SCHEDULING_PREFIX: &str = "ojs_scheduling";

/// One metric family.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Its name without the prefix; whole where it begins with that of scheduling.
    pub name: &'static str,
    /// How it counts.
    pub kind: Kind,
    /// Its meaning, in one sentence without a full stop.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The part of it in a scrape with `metrics.detail: basic`.
    pub basic: Basic,
}

/// The part of a family in a scrape with `metrics.detail: basic`.
#[derive(Debug, Clone, Copy)]
pub enum Basic {
    /// Every series.
    Whole,
    /// None.
    Absent,
    /// One series for all values of this label, which is `all`.
    Added(&'static str),
    /// Of the classes `enqueue` and `rest`, and of a histogram these buckets; none: all of them.
    ByEnqueues(Option<&'static [f64]>),
}

/// How a family counts.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts observations below each of these bounds.
    Histogram(&'static [f64]),
}

/// Whole calls, seconds. A call within a region takes one to a few milliseconds, one across an ocean 60 to 300; 25 s is
/// the deadline of an interpreted call, so that a longer one can only be a stream.
const CALL_SECONDS: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0];

/// The bounds among them that distinguish a near region, a far one, and one in trouble.
const BASIC_CALL_SECONDS: &[f64] = &[0.01, 0.1, 1.0, 10.0];

/// The sidecar's own share of a call, seconds. The work is tens of microseconds and wake-ups make about a hundred; beyond
/// 10 ms the pod is starved of CPU, and how badly no longer matters.
const OVERHEAD_SECONDS: &[f64] = &[0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01];

/// Health probes, seconds. A probe that needs a new connection across an ocean takes about three round trips; 5 s is the
/// default timeout.
const PROBE_SECONDS: &[f64] = &[0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// The wait of a job in its queue, seconds: at once, within the patience of people, of batches, and a backlog.
const QUEUE_SECONDS: &[f64] = &[0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0];

macro_rules! families {
    ($($id:ident = $kind:expr, $name:literal, [$($label:literal),*], $help:literal $(, $basic:expr)?;)+) => {
        $(pub(super) const $id: Family = Family {
            name: $name,
            kind: $kind,
            help: $help,
            labels: &[$($label),*],
            basic: [$($basic,)? Basic::Whole][0],
        };)+

        /// Every family, in the order in which the reference shows them.
        pub const FAMILIES: &[Family] = &[$($id,)+];
    };
}

families! {
    REQUESTS = Kind::Counter, "requests_total", ["class", "status_class"], "Requests of clients, by what they were answered";
    REQUEST_DURATION = Kind::Histogram(CALL_SECONDS), "request_duration_seconds", ["region", "class"],
        "From the start of a try that the region answered until its answer was there; of a streamed answer, its head", Basic::ByEnqueues(Some(BASIC_CALL_SECONDS));
    OVERHEAD = Kind::Histogram(OVERHEAD_SECONDS), "overhead_seconds", ["class"],
        "The part of a request's duration in which the sidecar did not wait for a region; the reading of the client's body included", Basic::ByEnqueues(None);
    REFUSALS = Kind::Counter, "refusals_total", ["reason", "region"],
        "Requests that the sidecar answered with an error of its own; the region is that of the pin, and none for reasons without one";
    ATTEMPTS = Kind::Counter, "attempts_total", ["region", "class", "outcome"], "Tries at a region, by how they ended", Basic::Added("class");
    ENQUEUES = Kind::Counter, "enqueues_total", ["region", "strategy"], "Jobs that a region stored, by the strategy that chose it", Basic::Added("strategy");
    CROSS_REGION = Kind::Counter, "cross_region_total", ["from", "to"],
        "Jobs that another region than the local one stored; from is the local region";
    FAILOVERS = Kind::Counter, "failovers_total", ["from_region", "reason"], "Jobs that left a region for another";
    REDIRECTS = Kind::Counter, "redirects_total", ["region"], "Attempts at a region after another had been tried", Basic::Absent;
    UNKNOWN_OUTCOMES = Kind::Counter, "unknown_outcomes_total", ["region"], "Enqueues that the region may or may not have stored";
    OUTCOMES = Kind::Counter, "outcomes_resolved_total", ["result"], "Unknown outcomes that were cleared up, by what became of the job";
    OUTCOMES_PENDING = Kind::Gauge, "outcomes_pending", ["state"], "Jobs by what the sidecar still has to find out: `unknown`, whether they are stored; `watched`, whether a late copy comes";
    FENCES = Kind::Counter, "fences_total", [], "Ids that were taken by a tombstone, so that a late write is refused";
    REPLAYS = Kind::Counter, "replays_total", ["by"], "Enqueues that were recognised as a repetition and answered from what is known";
    JOURNAL_WRITES = Kind::Counter, "journal_writes_total", ["result"], "Records for the journal, by whether they were on disk in time";
    JOURNAL_EVICTIONS = Kind::Counter, "journal_evictions_total", ["kind"], "Rows of the journal that had to make room for others before their time";
    JOURNAL_DURABLE = Kind::Gauge, "journal_durable", [], "1 while the journal is in its file; 0 while it is in memory only";
    SPOOL_JOBS = Kind::Gauge, "spool_jobs", ["state"], "Jobs in the outage spool: `waiting` for a region, or set aside as `refused`, `expired` or `damaged`";
    SPOOL_BYTES = Kind::Gauge, "spool_bytes", [], "The used part of `spool.max_bytes`";
    SPOOL_OLDEST_AGE = Kind::Gauge, "spool_oldest_age_seconds", [], "Age of the oldest job that waits in the outage spool; 0 without one";
    SPOOL_UNUSABLE = Kind::Gauge, "spool_unusable", [], "1 while the file of the outage spool cannot be used; 0 also without a spool";
    SPOOL_RESULTS = Kind::Counter, "spool_results_total", ["result"], "Jobs that were stored in the outage spool, and that left it or were set aside, by how";
    DRILL_ACTIVE = Kind::Gauge, "drill_active", [], "1 while this sidecar takes part in a failover drill";
    DRILL_JOBS = Kind::Counter, "drill_jobs_total", ["part"], "Enqueues for the region of a failover drill: `diverted` to another one first, not drawn (`control`), or `kept` because they could not go elsewhere";
    IN_FLIGHT = Kind::Gauge, "in_flight", ["region"], "Requests that a region has not answered yet";
    RETRY_BUDGET = Kind::Gauge, "retry_budget_available", [], "Redirects that the retry budget would pay for now";
    REGION_HEALTHY = Kind::Gauge, "region_healthy", ["region"], "1 while health probes say that the region is usable; 0 before the first";
    BREAKER_STATE = Kind::Gauge, "breaker_state", ["region", "state"], "1 for the state that the breaker is in; closed means that traffic flows";
    BREAKER_TRANSITIONS = Kind::Counter, "breaker_transitions_total", ["region", "to"], "Changes of the breaker's state", Basic::Absent;
    GUARD_OPEN = Kind::Gauge, "guard_open", ["region", "class"], "1 while calls of this class are kept from the region, because they fail there";
    HELD_DOWN = Kind::Gauge, "held_down", ["region"], "1 while the region is left alone because it came and went too often";
    CALLS_LIMIT = Kind::Gauge, "calls_limit", ["region"], "Calls at once that the region is trusted with; reads get four fifths of it";
    SELF_SUSPECT = Kind::Gauge, "self_suspect", [], "1 while failures are held to be those of the sidecar's own network";
    PROBES = Kind::Counter, "probes_total", ["region", "result"], "Health probes, by how they ended";
    PROBE_DURATION = Kind::Histogram(PROBE_SECONDS), "probe_duration_seconds", ["region"], "From the start of a health probe to its end", Basic::Absent;
    REGION_LATENCY = Kind::Gauge, "region_latency_seconds", ["region"], "Decaying mean of the probes' round trips; NaN before the first";
    REGION_LOAD = Kind::Gauge, "region_load", ["region"], "Jobs available and active, over the queues polled; NaN before the first poll";
    REGION_LOAD_AGE = Kind::Gauge, "region_load_age_seconds", ["region"], "Age of the load figure; NaN before the first poll", Basic::Absent;
    CONNECTIONS = Kind::Counter, "connections_total", ["region", "result"], "Connections to a region, by how their making ended", Basic::Absent;
    POOL_CONNECTIONS = Kind::Gauge, "pool_connections", ["region", "state"], "Connections to a region that are open now";
    DNS_FAILURES = Kind::Counter, "dns_failures_total", ["region"], "Look-ups of a region's name that failed; the last good answer is kept";
    CERTIFICATE_EXPIRY = Kind::Gauge, "certificate_expiry_timestamp_seconds", ["region", "kind"],
        "When the certificate expires, as Unix time; NaN when there is none";
    DROPPED_AUTHORIZATIONS = Kind::Counter, "dropped_authorizations_total", ["region"],
        "Requests whose Authorization was not passed on to the region", Basic::Absent;
    CLIENT_REPLICATED_FROM = Kind::Counter, "client_replicated_from_total", [], "Jobs whose client set ojs.federation.replicated_from itself";
    QUOTA_DELAYED = Kind::Counter, "quota_delayed_jobs_total", [], "Jobs that got a later time because their quota had no token for now";
    BREAKER_DELAYED = Kind::Counter, "breaker_delayed_jobs_total", [], "Jobs that got a later time because a breaker has stopped their type";
    QUOTA_HELD = Kind::Counter, "quota_held_fetches_total", ["reason"],
        "FETCHes that left queues out because a quota with `maxActive` has no slot, once for each quota", Basic::Absent;
    UNKNOWN_FEDERATION_KEYS = Kind::Counter, "unknown_federation_keys_total", [],
        "Keys under ojs.federation. in jobs that are not defined; POST /v1/federation/route names them";
    REMOTE_FETCHES = Kind::Counter, "remote_fetch_jobs_total", ["region", "result"],
        "Jobs that another region than the local one handed out to workers here, by what became of them", Basic::Absent;
    SWITCHES = Kind::Gauge, "switches", ["switch"], "Switches of operators that are in force";
    HUB_VIEWS = Kind::Gauge, "hub_views", [], "Regions whose last verdict is that of the hub's probe, with `health_check.source: hub`";
    HUB_CONNECTED = Kind::Gauge, "hub_connected", [], "1 while the feed of the hub is open; 0 also without a hub";
    HUB_CUT_OFF = Kind::Gauge, "hub_cut_off", [],
        "1 while a spoke of `topology: hub-spoke` does not hear its hub and sends nothing to other regions; 0 also without such a topology";
    HUB_FETCH_WAITS = Kind::Gauge, "hub_fetch_waits", [],
        "1 while `hub.fetch: heard` does not hear the hub and workers get no jobs; 0 also without that setting";
    HUB_SWITCHES_UNKNOWN = Kind::Gauge, "hub_switches_unknown", [],
        "Switches of the hub that this version of the program cannot read; the others are followed";
    HUB_BODIES_DROPPED = Kind::Gauge, "hub_bodies_dropped", [],
        "Jobs since the start of the process whose bytes the hub never gets: for want of room, longer than 1 MiB, or because the hub keeps none";
    HUB_BODIES_WAITING = Kind::Gauge, "hub_bodies_waiting", [], "Jobs whose bytes the hub does not have yet, with `hub.report_bodies`";
    HUB_CHANGES_DROPPED = Kind::Gauge, "hub_changes_dropped", [],
        "Changes of jobs since the start of the process that the index of the hub never gets, for want of room or because their id is none";
    HUB_CHANGES_WAITING = Kind::Gauge, "hub_changes_waiting", [], "Changes of jobs that the hub does not have yet";
    HUB_KEYS = Kind::Counter, "hub_keys_total", ["result"],
        "Enqueues with an `Idempotency-Key` that the hub was asked for, with `idempotency.scope: hub`, by result";
    HUB_QUESTIONS = Kind::Counter, "hub_questions_total", ["result"],
        "Jobs whose region the hub was to decide, with `hub.decide: ask`, by the end of the question";
    HUB_REPEATED_IDS = Kind::Counter, "hub_repeated_ids_total", ["result"],
        "Enqueues with the client's own `federation_id`, with `hub.repeated_ids: refuse`, by the answer of the hub's index";
    HUB_KEYS_UNSETTLED = Kind::Gauge, "hub_keys_unsettled", [], "Keys whose end is known here and not at the hub yet";
    DISCOVERY_REGIONS = Kind::Gauge, "discovery_regions", ["state"],
        "Discovered regions: `in_force`; `unproven`, which get nothing but handshakes; and `waiting`, those of either whose change is held down";
    DISCOVERY_CHANGES = Kind::Counter, "discovery_changes_total", ["change"], "Discovered regions that came, changed and went";
    DISCOVERY_REJECTED = Kind::Counter, "discovery_rejected_total", ["reason"],
        "Regions that a source named and that were turned away, once a look or a proof";
    DISCOVERY_LOOKS = Kind::Counter, "discovery_looks_total", ["source", "result"],
        "Looks at a source of regions, by whether they found any; others keep what was known";
    DISCOVERY_GOOD_LOOK = Kind::Gauge, "discovery_good_look_timestamp_seconds", ["source"],
        "When the source last named a region, as Unix time; 0 where it is not looked at, the start of the process before the first";
    SCHEDULING_DISPATCHED = Kind::Counter, "ojs_scheduling_dispatch_total", ["queue", "pool"],
        "Jobs that workers of a pool got of each queue that the configuration names; `pool` is empty for workers of no pool";
    SCHEDULING_RATIO = Kind::Gauge, "ojs_scheduling_dispatch_ratio", ["queue"], "The share of a queue in the jobs that workers got in the last minute";
    SCHEDULING_WAIT = Kind::Histogram(QUEUE_SECONDS), "ojs_scheduling_queue_wait_duration_seconds", ["queue"],
        "From the enqueueing of a job until a worker got it, where its region shows both", Basic::Absent;
    SCHEDULING_UTILIZATION = Kind::Gauge, "ojs_scheduling_pool_utilization", ["pool"], "The part of the `concurrency` of a pool that its workers hold in jobs";
    SCHEDULING_STARVED = Kind::Counter, "ojs_scheduling_starvation_events_total", ["queue"],
        "How often jobs waited in a queue while the workers that ask for it got none of it for longer than its interval";
    KEPT_JOBS = Kind::Counter, "kept_jobs_total", ["result"], "Jobs claimed for workers that had disconnected by then, by result";
    LOOKUPS = Kind::Counter, "lookups_total", ["result"], "Jobs whose region was needed, by how it was found";
    OWNERS = Kind::Gauge, "owner_entries", [], "Jobs whose region is remembered";
    CLIENT_CONNECTIONS = Kind::Gauge, "client_connections", [], "Client connections that are open now";
    CLIENT_CONNECTIONS_REFUSED = Kind::Counter, "client_connections_refused_total", [], "Client connections turned away because too many were open";
    REJECTED_HEADS = Kind::Counter, "rejected_heads_total", ["reason"], "Request heads that were not accepted";
    RELOADS = Kind::Counter, "reloads_total", ["kind", "result"],
        "Changed configurations and identities that were loaded while the program runs, by what became of them";
    RELOAD_REFUSED = Kind::Gauge, "reload_refused", ["kind"],
        "1 while what is in the files cannot be used and what was in force before is kept; 0 once the files are mended";
    CONFIG_WARNINGS = Kind::Counter, "config_warnings_total", [], "Settings that were accepted with a warning";
    LOG_LINES_DROPPED = Kind::Counter, "log_lines_dropped_total", [], "Log lines given up because standard error was not read fast enough";
    DEFECTS = Kind::Counter, "defects_total", [], "Tasks that ended by a panic: defects of the program, to be reported with the place that the log names";
    READY = Kind::Gauge, "ready", [], "1 while /readyz says that the sidecar is ready";
    DRAINING = Kind::Gauge, "draining", [], "1 once the process is draining before its end";
    BUILD_INFO = Kind::Gauge, "build_info", ["version", "os", "arch"], "Always 1; the labels name the build";
    INFO = Kind::Gauge, "info", ["federation_id", "local_region", "version"], "Always 1; the labels name the federation and region that it serves";
    UPTIME = Kind::Gauge, "uptime_seconds", [], "Since the process started";
}

impl Family {
    /// The name as Prometheus sees it.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.is_of_scheduling() { self.name.to_owned() } else { format!("{PREFIX}_{}", self.name) }
    }

    /// Whether it is one of those that the specification of fair scheduling names.
    #[must_use]
    pub fn is_of_scheduling(&self) -> bool {
        self.name.starts_with(SCHEDULING_PREFIX)
    }

    pub(super) fn is_called(&self, full_name: &str) -> bool {
        let rest = full_name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('_'));
        rest == Some(self.name) || (self.is_of_scheduling() && self.name == full_name)
    }
}

impl Kind {
    /// The kind as Prometheus spells it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// The table of families as `docs/reference/metrics.md` shows it, header and last line end included.
#[must_use]
#[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tables in documents"))]
pub fn table_markdown() -> String {
    let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for family in FAMILIES {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (family.full_name(), family.kind.as_str(), labels.join(", "));
        let basic = match family.basic {
            Basic::Whole => String::new(),
            Basic::Absent => "; only with `metrics.detail: full`".to_owned(),
            Basic::Added(label) => format!("; `{label}` is `all` unless `metrics.detail` is `full`"),
            Basic::ByEnqueues(_) => "; `class` is `enqueue` or `rest` unless `metrics.detail` is `full`".to_owned(),
        };
        let _ = writeln!(table, "| `{name}` | {kind} | {labels} | {}{basic} |", family.help);
    }
    table
}
