//! The hub of a sidecar, and its share in `Idempotency-Key`s.

use std::time::Duration;

use super::{Ledger, RegionTls, RegionUrl};

/// Where the hub is, and how this sidecar shows itself there.
#[derive(Debug, Clone, PartialEq)]
pub struct HubConfig {
    /// Where its replicas are, at least one; always `https`.
    pub urls: Vec<RegionUrl>,
    /// Certificates and the expected identity.
    pub tls: RegionTls,
    /// The name of this sidecar in the inventory; the host and the port of the first client listener when absent.
    pub name: Option<String>,
    /// Whether it reports the changes of jobs to the hub.
    pub report_jobs: bool,
    /// The jobs that these reports describe for the ledger of the hub, where no rule says it.
    pub ledger: Ledger,
    /// Globs over the queues whose jobs are handed to the hub with their bytes.
    pub report_bodies: Vec<String>,
    /// The fate of an enqueue with an own `federation_id` that the index of the hub knows already.
    pub repeated_ids: RepeatedIds,
    /// How long after the last sign of life of its hub a spoke still sends to other regions, and workers get jobs with [`FetchWith::Heard`].
    pub lease: Duration,
    /// When workers get jobs.
    pub fetch: FetchWith,
    /// How a spoke finds the region of a flexible job.
    pub decide: Decide,
    /// How long an answer of the hub is in force, with [`Decide::Ask`].
    pub decide_cache: Duration,
    /// How long a job waits for the hub, with [`Decide::Ask`].
    pub decide_wait: Duration,
}

/// The picture of the regions that decides about the jobs of a spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decide {
    /// The sidecar's view, which the hub sends beforehand.
    View,
    /// The hub's, which is asked about each kind of job.
    Ask,
}

/// The fate of an enqueue with an own `federation_id` that the index of the hub knows already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatedIds {
    /// It is sent, and the hub is not asked.
    Pass,
    /// 409, and nothing is sent.
    Refuse,
}

/// When the workers of a sidecar with a hub get jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchWith {
    /// With and without the hub.
    Always,
    /// Only while the hub is heard.
    Heard,
}

/// The sidecars that know an `Idempotency-Key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScope {
    /// The sidecar that it came to.
    Sidecar,
    /// All sidecars of the hub.
    Hub,
}

/// The answer to an enqueue with an `Idempotency-Key` that the hub cannot claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHubLoss {
    /// The key is that of this sidecar alone, and the job is sent.
    Local,
    /// 503, and nothing is sent.
    Refuse,
}
