//! The checked configuration: what the rest of the program reads.
//!
//! A value of these types has passed every rule, so nothing downstream checks again. Defaults and ranges stand in the key
//! table, `keys/rows.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::{RegionId, Strategy};

mod compat;
mod journal;
mod listen;
mod process;
mod surface;
mod tenant;

pub use compat::{ClientReplicatedFrom, Compat, JsonContentType, UnknownKeys};
pub use journal::{Decisions, DuplicateIds, Idempotency, Journal, OnAllUnhealthy, OnUnknown};
pub use listen::{ClientListen, Listen};
pub use process::{MetricsConfig, MetricsDetail, Readiness, Shutdown};
pub use surface::{Batch, Lists, MixedBatch, QueueControl, Queues, ReadResidency, Residency, Workers};
pub use tenant::Tenant;

/// Everything that an operator can set.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The name of this federation, as `GET /v1/federation/regions` shows it. Spec: RFC-0001 §3.
    pub federation_id: String,
    /// The region that this pod runs in; always one of [`Config::regions`].
    pub local_region: RegionId,
    /// Permits `http://` region URLs on loopback addresses, for development.
    pub insecure_dev: bool,
    /// Where clients and scrapers reach us.
    pub listen: Listen,
    /// The registry: at least one region, ids unique, in the operator's order.
    pub regions: Vec<RegionConfig>,
    /// Where the jobs of tenants may go; the first pattern that fits decides.
    pub tenants: Vec<Tenant>,
    /// How a region is chosen and what is stamped.
    pub routing: Routing,
    /// Batches.
    pub batch: Batch,
    /// Workers.
    pub workers: Workers,
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
    /// What happens when an attempt was not sent.
    pub failover: Failover,
    /// What is kept of unknown outcomes.
    pub journal: Journal,
    /// What is noted of how jobs were routed.
    pub decisions: Decisions,
    /// What is kept of calls with an `Idempotency-Key`.
    pub idempotency: Idempotency,
    /// Bounds on sizes, times and counts.
    pub limits: Limits,
    /// Switches for clients that cannot read what the specification says.
    pub compat: Compat,
    /// Logging.
    pub log: Log,
    /// What a scrape holds.
    pub metrics: MetricsConfig,
    /// What `/readyz` waits for.
    pub readiness: Readiness,
    /// How the process ends.
    pub shutdown: Shutdown,
}

/// One region of the registry. Spec: federation-spec §4.1.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionConfig {
    /// Its identifier.
    pub id: RegionId,
    /// Where its OJS server is.
    pub url: RegionUrl,
    /// Share of traffic in `weighted`, in overflow and in ties; 0 means drained.
    pub weight: u32,
    /// Free tags, shown and never interpreted.
    pub tags: Vec<String>,
    /// Affinity leaves the region while its queue is at least this deep.
    pub max_queue_depth: Option<u64>,
    /// Certificates and the expected identity.
    pub tls: RegionTls,
    /// A file whose content is sent as `Authorization: Bearer …` to this region.
    pub bearer_token_file: Option<PathBuf>,
    /// Whether a client's own `Authorization` travels to this region. Already resolved: by default the local region only,
    /// and nowhere where the region has a token of its own.
    pub forward_authorization: bool,
    /// What its server does with an id that it has already.
    pub duplicate_ids: DuplicateIds,
    /// Headers with a client's credentials that do not travel to this region, in lower case. Already resolved: none for the local
    /// region and for one with `forward_authorization`.
    pub withheld_headers: Vec<String>,
}

/// The parts of a region's base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionUrl {
    /// False only for `http://` on loopback with `insecure_dev`.
    pub tls: bool,
    /// Host name or address literal, without brackets.
    pub host: String,
    /// Port, the scheme's default filled in.
    pub port: u16,
    /// Path prefix without a trailing slash; empty for none.
    pub base_path: String,
    /// The URL as configured, as `GET /v1/federation/regions` shows it; it holds no user information.
    pub text: String,
}

/// A region's TLS material, as files, and the identity its server must prove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionTls {
    /// PEM trust roots; the system's roots when absent.
    pub ca: Option<PathBuf>,
    /// PEM client certificate chain; always together with `key`.
    pub cert: Option<PathBuf>,
    /// PEM private key of the client certificate.
    pub key: Option<PathBuf>,
    /// The identity expected of the server.
    pub identity: ServerIdentity,
}

/// What a region's certificate must prove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ServerIdentity {
    /// The host of the region's URL.
    #[default]
    UrlHost,
    /// This DNS name or address, whatever the URL says (`tls.server_name`).
    Name(String),
    /// This URI subject alternative name, such as a SPIFFE id (`tls.uri_san`).
    Uri(String),
}

/// Routing: strategy, rules and stamping.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    /// The strategy of jobs that name none and match no rule. `geo-pin` here pins such jobs to the local region.
    pub strategy: Strategy,
    /// Which jobs get federation keys added.
    pub stamp: Stamp,
    /// Whether `source_region` and `routed_at` are stamped too.
    pub stamp_origin: bool,
    /// Whether a job without `id` gets one.
    pub mint_id: bool,
    /// Whether minted ids carry a hint of the job's region.
    pub id_hint: bool,
    /// First match wins; at most 1024, so that matching stays cheap.
    pub rules: Vec<Rule>,
    /// The table of the `geographic` strategy.
    pub geographic: Option<Geographic>,
}

/// Which jobs are stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Every job.
    Always,
    /// Only jobs that carry an `ojs.federation.*` key.
    FederatedOnly,
    /// None.
    Never,
}

/// A routing rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What a job must look like; an empty matcher matches every job.
    pub matcher: Matcher,
    /// The regions the job may go to; empty means all. Narrows a pin and never widens it. Every id is registered.
    pub regions: Vec<RegionId>,
    /// The strategy for jobs that name none.
    pub strategy: Option<Strategy>,
}

/// The conditions of a rule; all that are set must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matcher {
    /// Glob over the job type: `*` stands for any run of characters, `?` for one.
    pub job_type: Option<String>,
    /// Glob over the queue.
    pub queue: Option<String>,
    /// Tags that the job must have.
    pub tags: Vec<String>,
    /// Meta members, key to text, that the job must have.
    pub meta: BTreeMap<String, String>,
}

/// The table of the `geographic` strategy.
#[derive(Debug, Clone, PartialEq)]
pub struct Geographic {
    /// The meta key that holds the hint.
    pub meta_key: String,
    /// Hint to region. Every region is registered.
    pub regions: BTreeMap<String, RegionId>,
}

/// Health probes. Spec: federation-spec §4.2.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthCheck {
    /// Between two probes of a region; jittered by a tenth.
    pub interval: Duration,
    /// For one probe, connecting included.
    pub timeout: Duration,
    /// Consecutive failures until a region counts as unhealthy.
    pub unhealthy_threshold: u32,
    /// Consecutive successes until it counts as healthy again.
    pub healthy_threshold: u32,
    /// The `status` values that count as healthy.
    pub accepted_status: Vec<String>,
}

/// Circuit breakers. Spec: federation-spec §4.3.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitBreaker {
    /// Consecutive failures, probes and requests counted apart, that open it.
    pub failure_threshold: u32,
    /// From open to half-open.
    pub cooldown: Duration,
    /// Each further opening multiplies the cooldown by this; 1 keeps it.
    pub cooldown_multiplier: f64,
    /// The longest cooldown; at most 60 s, so that a recovered region is not ignored for long, but never below `cooldown`.
    pub cooldown_max: Duration,
    /// While jobs are refused for lack of any region, one health request decides this soon instead of after the cooldown; 0: never.
    pub early_probe: Duration,
    /// Failure ratio over `ratio_window` that opens it; above 1 switches the ratio off.
    pub failure_ratio: f64,
    /// The window of the ratio.
    pub ratio_window: Duration,
    /// Requests in the window below which the ratio says nothing.
    pub ratio_min_requests: u32,
    /// How long flexible traffic ramps up after a recovery; 0 switches the ramp off.
    pub slow_start: Duration,
    /// So many changes between usable and not, within `hold_down_window`, keep flexible jobs away; 0 switches this off.
    pub hold_down_changes: u32,
    /// The window of the changes.
    pub hold_down_window: Duration,
    /// How long the region must then be usable without a change.
    pub hold_down_quiet: Duration,
}

/// Load polling. Spec: federation-spec §3.2.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Which figure is polled.
    pub source: LoadSource,
    /// Between two polls of a region.
    pub interval: Duration,
    /// Lately used queues that are polled per region.
    pub queues_max: usize,
    /// Loads within this share of each other cannot be told apart; grows with the figures' age.
    pub tolerance: f64,
}

/// Where load figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadSource {
    /// `GET /ojs/v1/queues/{queue}/stats` of the queues lately used: available + active.
    Queue,
    /// `GET /ojs/v1/admin/stats`, the region's total.
    Admin,
}

/// Failover. Spec: RFC-0001 §4.
#[derive(Debug, Clone, PartialEq)]
pub struct Failover {
    /// False: a job is attempted in its first candidate only.
    pub enabled: bool,
    /// Further regions after the first.
    pub max_redirects: usize,
    /// Regions to prefer when failing over, in order. Every id is registered.
    pub prefer_regions: Vec<RegionId>,
    /// Regions never failed over to; they stay usable as first choice and as pins.
    pub exclude_regions: Vec<RegionId>,
    /// Share of requests that redirects may add.
    pub retry_budget_ratio: f64,
    /// Redirects a second that are allowed whatever the traffic.
    pub retry_budget_floor: f64,
    /// What follows an enqueue whose outcome cannot be found out within the call.
    pub on_unknown: OnUnknown,
    /// What follows a job that may go to several regions of which none is usable.
    pub on_all_unhealthy: OnAllUnhealthy,
    /// How long after the end of its connection a region may still store a job.
    pub late_write_grace: Duration,
    /// How far a region's reads may be behind its writes.
    pub read_lag: Duration,
}

/// Bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// A body that is interpreted is at most this long (bytes); longer is 413.
    pub body_bytes: usize,
    /// Bodies in memory at once, of all requests together (bytes), never less than `body_bytes`; beyond it a request is 503.
    pub buffered_bytes: usize,
    /// What unfinished requests, streams and unread answers may hold (bytes); by the control group when absent.
    pub memory: Option<usize>,
    /// Nesting of interpreted JSON.
    pub json_depth: usize,
    /// A request or response head, in bytes.
    pub head_bytes: usize,
    /// Header lines of a head.
    pub headers: usize,
    /// From the first byte of a request head to its end.
    pub head_timeout: Duration,
    /// How long a client's connection may be idle; at least 120 s, longer than any SDK keeps one.
    pub idle_timeout: Duration,
    /// Between two pieces of a streamed body.
    pub stream_idle_timeout: Duration,
    /// A whole interpreted call, all attempts included; SDKs give up at 30 s.
    pub call_timeout: Duration,
    /// To connect, TLS included.
    pub connect_timeout: Duration,
    /// Client connections at once, over all listeners.
    pub client_connections: usize,
    /// Calls to all regions at once; beyond it a call is 503.
    pub calls: u64,
    /// Calls to one region at once, less while it is slow.
    pub calls_per_region: u64,
    /// Idle connections kept per region and worker thread.
    pub pool_idle_per_region: usize,
    /// How long an idle region connection is kept; shorter than regions keep theirs.
    pub pool_idle_timeout: Duration,
    /// The longest a region connection lives.
    pub connection_lifetime: Duration,
    /// Worker threads; 0 means the cores this process may use, at most 2.
    pub worker_threads: usize,
    /// Jobs whose region is remembered.
    pub owner_entries: usize,
    /// Searches of all regions for an unknown job, at once.
    pub lookups: usize,
    /// Sidecars that a call may have passed.
    pub hops: u16,
}

/// Logging.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// Text for people or JSON for machines.
    pub format: LogFormat,
    /// The least severe level that is written, or a filter in `tracing` syntax.
    pub level: String,
    /// Which requests are logged.
    pub access: AccessLog,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Which requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLog {
    /// None.
    Off,
    /// Refusals, failovers, unknown outcomes and 5xx.
    Errors,
    /// All.
    All,
}
