//! A quota as operators put it.

use serde::{Deserialize, Serialize};

use super::rate::Rate;
use crate::base::words;

/// Quotas of a hub: each sidecar asks for each of them in one request.
pub const QUOTAS_MAX: usize = 128;
/// Quotas with `maxActive`: each sidecar asks for the slots of each of them in one request, as for pools of workers.
pub const ACTIVE_MAX: usize = 64;
/// Queues that one quota lists.
pub const QUOTA_QUEUES_MAX: usize = 32;
/// Any tenant, or any type.
pub const ANY: &str = "*";

words! {
    /// The fate of a job without a token.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    OverLimit {
        /// It is refused.
        Refuse = "refuse",
        /// It is scheduled for a later time.
        Delay = "delay",
    }

    /// The limit at a sidecar that reaches no hub.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    OnHubLoss {
        /// Its last block holds until it ends; then jobs are refused.
        Hold = "hold",
        /// Then it has a limit of its own.
        Local = "local",
        /// Jobs are refused at once.
        Refuse = "refuse",
    }
}

/// A quota: so many jobs of a tenant and a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// The tenant, or [`ANY`]: then all tenants together.
    pub tenant: String,
    /// The type, or [`ANY`]: then all types together.
    pub job_type: String,
    /// The profile that it was put with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The most jobs in any hour; 0 where the quota does not count new jobs.
    #[serde(default, skip_serializing_if = "is_none")]
    pub max_per_hour: u64,
    /// The most jobs at once; 0 without `max_per_hour`.
    #[serde(default, skip_serializing_if = "is_none")]
    pub burst: u64,
    /// The most jobs that workers hold at once; none without such a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u64>,
    /// The queues that hold its jobs alone, and all of them, by the word of the operator. Only with `max_active`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// The fate of further ones.
    pub over_limit: OverLimit,
    /// The limit of a sidecar without a hub.
    pub on_hub_loss: OnHubLoss,
    /// The most jobs in any hour at one sidecar without a hub, with [`OnHubLoss::Local`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_per_hour: Option<u64>,
    /// The most jobs that workers hold at once at one sidecar without a hub, with [`OnHubLoss::Local`] and `max_active`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_active: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
const fn is_none(number: &u64) -> bool {
    *number == 0
}

impl Quota {
    /// Whether it counts new jobs.
    #[must_use]
    pub const fn has_rate(&self) -> bool {
        self.max_per_hour > 0
    }

    /// Whether the shards of its tenant are bounded: it is of one tenant and of all types.
    #[must_use]
    pub fn is_of_one_tenant(&self) -> bool {
        self.tenant != ANY && self.job_type == ANY
    }

    /// Whether sidecars bound the jobs of some queues by it.
    #[must_use]
    pub fn bounds_queues(&self) -> bool {
        self.max_active.is_some() && (!self.queues.is_empty() || self.is_of_one_tenant())
    }

    /// The most jobs that workers hold at once at one sidecar without a hub; none where they get no slots there.
    #[must_use]
    pub fn slots_without_hub(&self) -> Option<u64> {
        self.local_active.filter(|_| self.on_hub_loss == OnHubLoss::Local)
    }

    /// Its rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        Rate { max_per_hour: self.max_per_hour, burst: self.burst }
    }

    /// The rate of one sidecar without a hub.
    #[must_use]
    pub fn local_rate(&self) -> Option<Rate> {
        let max_per_hour = self.local_per_hour?;
        Some(Rate { max_per_hour, burst: Rate::burst_usual(max_per_hour).max(Rate::burst_min(max_per_hour)) })
    }

    /// Its name among the others, which stays while its numbers change. Neither part has a control character.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}\t{}", self.tenant, self.job_type)
    }
}
