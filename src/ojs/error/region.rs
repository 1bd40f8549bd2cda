//! The errors that only time, or an operator, can mend.

use serde_json::json;

use super::ErrorDocument;
use crate::base::{Reason, SwitchKind, SwitchSubject};

/// Failures of regions, or of our own.
impl ErrorDocument {
    /// 503: the pinned region is down. `breaker` is its state on the wire; Units: `retry_after` in seconds.
    #[must_use]
    pub fn region_unavailable(region: &str, breaker: &str, retry_after: u64) -> Self {
        Self::unavailable(Reason::RegionUnavailable,
            retry_after,
            "the job is pinned to a region that is unavailable now, and it may go nowhere else; nothing was sent, try again later",
        )
        .with_region(region)
        .with("circuit_breaker", breaker)
        .with("ojs_code", "OJS-2001")
    }

    /// 503: no region can take the job. Units: `retry_after` in seconds.
    #[must_use]
    pub fn no_healthy_region(retry_after: u64) -> Self {
        Self::unavailable(
            Reason::NoHealthyRegion,
            retry_after,
            "no region can take the job now; nothing was stored, try again later",
        )
        .with("ojs_code", "OJS-2001")
    }

    /// 503: the region that holds the job is down. Units: `retry_after` in seconds.
    #[must_use]
    pub fn owner_unavailable(region: Option<&str>, retry_after: u64) -> Self {
        let document = Self::unavailable(
            Reason::OwnerUnavailable,
            retry_after,
            "the region that may hold this is unavailable, and no other may answer for it; try again later",
        )
        .with("ojs_code", "OJS-2001");
        match region {
            Some(region) => document.with_region(region),
            None => document,
        }
    }

    /// 503: another job with this id may be in that region. Units: `retry_after` in seconds.
    #[must_use]
    pub fn id_in_use(region: &str, id: &str, retry_after: u64) -> Self {
        Self::unavailable(
            Reason::IdInUse,
            retry_after,
            "another job was sent with this `id`, and it is not known yet whether it is stored; nothing was sent: send this job \
             again later, or under another `id`",
        )
        .with_region(region)
        .with("job_id", id)
    }

    /// 503: a change for all regions did not reach all of them. Units: `retry_after` in seconds.
    #[must_use]
    pub fn regions_missing<'a>(
        followed: impl IntoIterator<Item = &'a str>,
        missing: impl IntoIterator<Item = &'a str>,
        retry_after: u64,
    ) -> Self {
        let followed: Vec<&str> = followed.into_iter().collect();
        let missing: Vec<&str> = missing.into_iter().collect();
        Self::unavailable(Reason::RegionsMissing,
            retry_after,
            "the regions in `details.followed` did it, those in `details.missing` did not, or did not say so; send the call \
             again, or address one region with `OJS-Federation-Region`",
        )
        .with("followed", json!(followed))
        .with("missing", json!(missing))
        .with("ojs_code", "OJS-2001")
    }

    /// 409: an acknowledgement whose lease is over, and whose job the region shows in another state or with another
    /// worker.
    #[must_use]
    pub fn lease_lost(region: &str) -> Self {
        Self::new(Reason::LeaseLost,
            "the lease of this job is over and the region shows it in another state or with another worker, so nothing was sent; \
             drop the result, and send heartbeats within the visibility timeout for jobs that take longer",
        )
        .with_region(region)
    }

    /// 503: the next region may not be tried, because redirects are rationed. Units: `retry_after` in seconds.
    #[must_use]
    pub fn retry_budget(retry_after: u64) -> Self {
        Self::unavailable(Reason::RetryBudget,
            retry_after,
            "the first region could not take the job and the retry budget is spent; nothing was stored, try again later",
        )
        .with("ojs_code", "OJS-2001")
    }

    /// 500: the job may have been stored or not. Never 502 or 504, which SDKs replay and so duplicate.
    #[must_use]
    pub fn outcome_unknown(region: &str, job_id: Option<&str>) -> Self {
        let document = Self::new(Reason::OutcomeUnknown,
            "the request was sent and no answer came, so the job may or may not be stored; look it up in `details.region` \
             before sending it again",
        )
        .with_region(region);
        match job_id {
            Some(id) => document.with("job_id", id),
            None => document,
        }
    }

    /// 504: a region did not answer a call that changes nothing, or that may safely be repeated.
    #[must_use]
    pub fn upstream_timeout(region: &str) -> Self {
        Self::new(Reason::UpstreamTimeout, "the region did not answer in time; try again").with_region(region)
    }

    /// 502: the answer of a region to a call that may safely be repeated could be read in two ways, or is no HTTP.
    #[must_use]
    pub fn broken_answer(region: &str) -> Self {
        Self::new(Reason::BrokenAnswer,
            "the region's answer is not HTTP that is read one way only (look for two lengths, an unknown transfer coding, or bytes \
             behind its end), and was not passed on; mend the region or what stands before it",
        )
        .with_region(region)
    }

    /// 405: TRACE, which would show the sidecar's own credentials to its caller.
    #[must_use]
    pub fn echo_refused() -> Self {
        let allow = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
        Self::not_allowed(allow, "TRACE is not forwarded; use another method")
    }

    /// 508: sidecars send the call to each other. No SDK replays that status, which would only make the circle busier.
    #[must_use]
    pub fn too_many_hops(hops: u16) -> Self {
        Self::new(Reason::TooManyHops,
            "the call has come back to a sidecar, or has passed as many as `limits.hops` allows, and was not sent any further: a \
             region's URL leads to a sidecar; correct it, or raise the limit if the chain is meant to be this long",
        )
        .with("hops", hops)
        .with("ojs_code", "OJS-2001")
    }

    /// 503: the hub could not claim the key of an enqueue. Units: `retry_after` in seconds.
    #[must_use]
    pub fn hub_unavailable(retry_after: u64) -> Self {
        Self::unavailable(
            Reason::HubUnavailable,
            retry_after,
            "the hub, which knows the `Idempotency-Key`s of all sidecars, does not answer; nothing was sent, try again later",
        )
    }

    /// 503: the hub does not answer a look-up in its index. Units: `retry_after` in seconds.
    #[must_use]
    pub fn index_unavailable(retry_after: u64) -> Self {
        Self::unavailable(
            Reason::HubUnavailable,
            retry_after,
            "the hub, which keeps the index of jobs, does not answer; try again later",
        )
    }

    /// 503: the hub does not answer a question for the figures of the fleet. Units: `retry_after` in seconds.
    #[must_use]
    pub fn figures_unavailable(retry_after: u64) -> Self {
        Self::unavailable(
            Reason::HubUnavailable,
            retry_after,
            "the hub, which sums the figures of the fleet, does not answer; try again later, or leave `X-Scope: fleet` out",
        )
    }

    /// 503: the call needs another region than the local one, and this sidecar is a spoke that does not hear its hub. `region`: where it would
    /// have gone, where that is one region. Units: `retry_after` in seconds.
    #[must_use]
    pub fn hub_lost(region: Option<&str>, retry_after: u64) -> Self {
        let document = Self::unavailable(
            Reason::HubUnavailable,
            retry_after,
            "this sidecar does not hear its hub, and sends nothing to other regions until it does; nothing was sent, try again later",
        )
        .with("ojs_code", "OJS-2001");
        match region {
            Some(region) => document.with_region(region),
            None => document,
        }
    }

    /// 503: an operator has paused the type or the tenant of a new job. The reason of the switch is the operator's. Units: `retry_after` in
    /// seconds.
    #[must_use]
    pub fn source_paused(subject: &SwitchSubject, retry_after: u64) -> Self {
        Self::unavailable(
            Reason::SourcePaused,
            retry_after,
            "an operator has paused this type of jobs, or this tenant; nothing was stored, try again later",
        )
        .with("switch", format!("{} {subject}", SwitchKind::Pause.as_str()))
    }

    /// 429: the quota of a job has no token for it. Units: `retry_after` in seconds.
    #[must_use]
    pub fn quota_exceeded(tenant: &str, job_type: &str, retry_after: u64) -> Self {
        let message = "as many jobs have started as the quota permits; nothing was sent, try again later";
        let document = Self::unavailable(Reason::QuotaExceeded, retry_after, message);
        document.with("quota", json!({ "tenant": tenant, "job_type": job_type }))
    }

    /// 429: a breaker has stopped the jobs of a type and a tenant, and this one cannot be delayed. Units: `retry_after` in seconds.
    #[must_use]
    pub fn type_stopped(job_type: &str, tenant: Option<&str>, retry_after: u64) -> Self {
        let message =
            "the jobs of this type fail too often and are stopped for a time; nothing was sent, try again later";
        let document = Self::unavailable(Reason::TypeStopped, retry_after, message);
        document.with("breaker", json!({ "job_type": job_type, "tenant": tenant }))
    }

    /// 503: the process ends within seconds and finishes only calls in progress. Units: `retry_after` in seconds.
    #[must_use]
    pub fn draining(retry_after: u64) -> Self {
        Self::unavailable(
            Reason::Draining,
            retry_after,
            "the sidecar is about to end and takes no further call; try again later",
        )
    }

    /// 503: the fleet's limit leaves this sidecar no call to the region. Units: `retry_after` in seconds.
    #[must_use]
    pub fn fleet_limit(region: &str, retry_after: u64) -> Self {
        Self::unavailable(
            Reason::FleetLimit,
            retry_after,
            "the limit of calls to this region over all sidecars leaves no call to this one, or its hub grants none; nothing was sent, try again later",
        )
        .with("region", region)
    }

    /// 503: an operator's throttle of the region leaves no call. Units: `retry_after` in seconds.
    #[must_use]
    pub fn throttled(region: &str, retry_after: u64) -> Self {
        Self::unavailable(
            Reason::Throttled,
            retry_after,
            "an operator has set a bound on the calls to this region, and as many are under way; nothing was sent, try again later",
        )
        .with("region", region)
    }

    /// 503: too many connections, requests or calls. Units: `retry_after` in seconds.
    #[must_use]
    pub fn overloaded(retry_after: u64) -> Self {
        Self::unavailable(
            Reason::Overloaded,
            retry_after,
            "the sidecar has as many requests as it may hold; try again later",
        )
    }
}
