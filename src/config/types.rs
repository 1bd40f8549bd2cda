//! The checked configuration, as the rest of the program reads it.
//!
//! A value of these types has passed every rule, so nothing downstream checks again. Defaults and ranges stand in the key
//! table, `keys/rows.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::base::{RegionId, Strategy};

mod compat;
mod discovery;
mod fleet_limit;
mod hub;
mod journal;
mod ledger;
mod listen;
mod process;
mod scheduling;
mod surface;
mod tenant;
mod topology;
mod uwer;

pub use compat::{ClientReplicatedFrom, JsonContentType, UnknownKeys};
pub use discovery::{DiscoveryConfig, DiscoveryDefaults, DnsDiscovery, REGION_IN_IDENTITY, Sighting};
pub use fleet_limit::{FleetLimit, LimitWithoutHub};
pub use hub::{Decide, FetchWith, HubConfig, KeyScope, OnHubLoss, RepeatedIds};
pub use journal::{DuplicateIds, OnAllUnhealthy, OnUnknown};
pub use ledger::Ledger;
pub use listen::{ClientListen, Listen};
pub use process::{HealthSource, MetricsDetail};
pub use scheduling::{FleetPool, PoolConfig, QueueFloor, Scheduling, TenantMode, TenantQueueConfig};
pub use surface::{ListReplicas, MixedBatch, QueueControl, ReadResidency};
pub use tenant::Tenant;
pub use topology::Topology;
pub use uwer::{Uwer, UwerOrigin};

/// One region of the registry. Spec: federation-spec §4.1.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionConfig {
    /// Its identifier.
    pub id: RegionId,
    /// Where its OJS server is.
    pub url: RegionUrl,
    /// Share of traffic in `weighted`, in overflow and in ties; 0 means drained.
    pub weight: u32,
    /// Free tags, shown, and read by `regions_with`.
    pub tags: Vec<String>,
    /// Affinity leaves the region while its queue is at least this deep.
    pub max_queue_depth: Option<u64>,
    /// Certificates and the expected identity.
    pub tls: RegionTls,
    /// A file with the token that is sent as `Authorization: Bearer …` to this region.
    pub bearer_token_file: Option<PathBuf>,
    /// Whether a client's own `Authorization` travels to this region. Already resolved: by default the local region only,
    /// and nowhere where the region has a token of its own.
    pub forward_authorization: bool,
    /// The behaviour of its server for a taken id.
    pub duplicate_ids: DuplicateIds,
    /// Whether it is the hub of a hub-spoke federation.
    pub is_hub: bool,
    /// Headers with a client's credentials that do not travel to this region, in lower case. Already resolved: none for the local
    /// region and for one with `forward_authorization`.
    pub withheld_headers: Vec<String>,
    /// Where it is known from.
    pub source: RegionSource,
}

/// The source of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegionSource {
    /// The configuration file.
    Static,
    /// A file in a watched directory.
    Directory,
    /// The hub, by its feed.
    Hub,
    /// A name server.
    Dns,
}

impl RegionSource {
    /// The source of this word; none for another word, and for that of the file.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Directory, Self::Hub, Self::Dns].into_iter().find(|source| source.as_str() == word)
    }

    /// Its word in documents, metrics and the cache.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Directory => "directory",
            Self::Hub => "hub",
            Self::Dns => "dns",
        }
    }
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

/// The identity that a region's certificate must prove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ServerIdentity {
    /// The host of the region's URL.
    #[default]
    UrlHost,
    /// This DNS name or address, in place of the URL's host (`tls.server_name`).
    Name(String),
    /// This URI subject alternative name, such as a SPIFFE id (`tls.uri_san`).
    Uri(String),
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
    /// The conditions on a job; an empty matcher matches every job.
    pub matcher: Matcher,
    /// The regions the job may go to; empty means all. Narrows a pin and never widens it. Every id is registered.
    pub regions: Vec<RegionId>,
    /// The strategy for jobs that name none.
    pub strategy: Option<Strategy>,
    /// Whether the job is described for the ledger of the hub; none where `hub.ledger` says it.
    pub ledger: Option<Ledger>,
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

/// Where load figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadSource {
    /// `GET /ojs/v1/queues/{queue}/stats` of the queues lately used: available + active.
    Queue,
    /// `GET /ojs/v1/admin/stats`, the region's total.
    Admin,
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
