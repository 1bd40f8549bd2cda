//! The errors that a client can mend.

use std::borrow::Cow;

use serde_json::json;

use super::ErrorDocument;
use crate::base::{Reason, RegionId, UnknownStrategy};
use crate::ojs::fault::Fault;

/// Refusals of a client's request.
impl ErrorDocument {
    /// 400: the body cannot be accepted.
    #[must_use]
    pub fn from_fault(fault: &Fault) -> Self {
        let ojs_code = if fault.reason == Reason::InvalidFederationMeta { "OJS-1004" } else { "OJS-1000" };
        Self::new(fault.reason, fault.message.clone()).with("field", fault.field.as_ref()).with("ojs_code", ojs_code)
    }

    /// 400: the pin names a region that is not registered. Spec: federation-spec §3.3.
    #[must_use]
    pub fn unknown_region<'a>(region: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::new(Reason::RegionUnknown,
            "the job is pinned to a region that is not registered here; use one of `details.known_regions`, or add the region \
             to the sidecar's configuration",
        )
        .with_region(region)
        .with("known_regions", json!(known))
        .with("ojs_code", "OJS-1004")
    }

    /// 400: the call names a region that is not registered. Spec: federation-spec §3.3.
    #[must_use]
    pub fn unknown_address<'a>(region: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::new(
            Reason::RegionUnknown,
            "the call names a region that is not registered here; use one of `details.known_regions`",
        )
        .with_region(region)
        .with("known_regions", json!(known))
        .with("field", "OJS-Federation-Region")
    }

    /// 400: no strategy has the name that the job asks for.
    #[must_use]
    pub fn unknown_strategy() -> Self {
        Self::new(
            Reason::InvalidFederationMeta,
            format!("`ojs.federation.region_affinity` names no strategy: {}", UnknownStrategy),
        )
        .with("field", "ojs.federation.region_affinity")
        .with("ojs_code", "OJS-1004")
    }

    /// 409: a FETCH names another pool than that of the sidecar. Spec: fair-scheduling 6.2.
    #[must_use]
    pub fn pool_mismatch(pool: &str) -> Self {
        Self::new(Reason::PoolMismatch,
            "the worker names another pool than the one that all workers of this sidecar belong to; leave `pool` out, or call a sidecar of that pool",
        )
        .with("pool", pool)
        .with("field", "pool")
    }

    /// 409: the index of the hub knows the client's own tracking id. `existing`: the region, the id and the state of that job, unless they may not
    /// be shown here. Spec: federation-spec §2.3.
    #[must_use]
    pub fn federation_id_repeated(existing: Option<(&RegionId, &str, &str)>) -> Self {
        let field = "ojs.federation.federation_id";
        let Some((region, job_id, state)) = existing else {
            let message = "a job with this `ojs.federation.federation_id` is there already, in a region that it is bound to, and `residency.read` does not \
                           let it be shown here; nothing was sent: give another job another id, or none";
            return Self::new(Reason::FederationIdRepeated, message).with("field", field);
        };
        let message = "a job with this `ojs.federation.federation_id` is there already, in `details.region` as `details.existing_job_id`; nothing was \
                       sent: give another job another id, or none";
        Self::new(Reason::FederationIdRepeated, message)
            .with_region(region.as_str())
            .with("existing_job_id", job_id)
            .with("state", state)
            .with("field", field)
    }

    /// 400: a FETCH names a pool that is not configured.
    #[must_use]
    pub fn unknown_pool<'a>(known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::new(Reason::PoolUnknown,
            "the worker names a pool that this sidecar does not have; use one of `details.known_pools`, or add the pool to `scheduling.pools`",
        )
        .with("known_pools", json!(known))
        .with("field", "pool")
    }

    /// 400: a call names a shard of a queue.
    #[must_use]
    pub fn queue_is_a_shard(queue: &str) -> Self {
        let message = format!(
            "the call names a shard of the queue `{queue}`: name the queue itself, and the sidecar chooses the shard by the tenant of the job"
        );
        Self::new(Reason::QueueIsAShard, message).with("queue", queue).with("field", "queue")
    }

    /// 400: a FETCH does not say its queues, or how many jobs it wants, in a way that its pool can be kept to.
    #[must_use]
    pub fn pool_unclear(field: &'static str) -> Self {
        let message = format!(
            "pools of workers or quotas bound jobs here, and `{field}` is missing or not of its kind, so that servers could hand out other jobs than there may be: \
             send `queues` as a list of names, `count` as a number from 1 up, and `visibility_timeout_ms`, if at all, as a number"
        );
        Self::new(Reason::PoolUnclear, message).with("field", field)
    }

    /// 400: a call leases a job of a pool of the fleet for longer than the hub counts it. Units: milliseconds.
    #[must_use]
    pub fn pool_lease(longest_ms: u64) -> Self {
        let message = format!(
            "the hub bounds the jobs of this pool for the fleet, and counts each for {longest_ms} ms of a lease at most: send `visibility_timeout_ms` as a number up to \
             that (a FETCH without one asks for 30000), or have the operator raise `longest_lease` of the pool"
        );
        Self::new(Reason::PoolLease, message)
            .with("field", "visibility_timeout_ms")
            .with("longest_lease_ms", longest_ms)
    }

    /// 403: a routing rule of the operator does not permit the region that the job is pinned to.
    #[must_use]
    pub fn pin_not_permitted(region: &str) -> Self {
        Self::new(Reason::PinNotPermitted,
            "a routing rule of this sidecar does not permit the region that the job is pinned to; change the pin, or ask the \
             operator to change `routing.rules`",
        )
        .with_region(region)
    }

    /// 400: a rule reads a member of the job that servers could read in another way.
    #[must_use]
    pub fn unclear_member(field: &str) -> Self {
        let message = format!(
            "a routing rule or a switch of this sidecar reads `{field}`, which servers could read in another way: it is repeated, differs between \
             the job and its `options`, or is no text; send it once, or the same in both places"
        );
        Self::new(Reason::AmbiguousMember, message).with("field", field).with("ojs_code", "OJS-1000")
    }

    /// 400: a job has undefined keys under `ojs.federation.`, and the operator refuses them. `keys`: as the client wrote them.
    #[must_use]
    pub fn unknown_federation_keys(keys: &[Cow<'_, str>]) -> Self {
        Self::new(Reason::InvalidFederationMeta,
            "the job has keys under `ojs.federation.` that are not defined, which this sidecar refuses; leave them out, or choose \
             names that do not begin with `ojs.federation.`",
        )
        .with("field", "meta")
        .with("keys", keys)
    }

    /// 413: a compressed body that grows too much.
    #[must_use]
    pub fn compression_ratio(ratio_max: usize) -> Self {
        Self::new(
            Reason::CompressionRatio,
            format!("the body grows to more than 1 MiB and more than {ratio_max} times its size; send it uncompressed"),
        )
    }

    /// 413: an interpreted body above the bound.
    #[must_use]
    pub fn body_too_large(limit: usize) -> Self {
        Self::new(
            Reason::BodyTooLarge,
            format!("the body is longer than {limit} bytes; send less, or raise `limits.body_bytes`"),
        )
        .with("limit_bytes", limit)
    }

    /// 404: no such path here.
    #[must_use]
    pub fn not_found(path: &str) -> Self {
        let shown: String = path.chars().take(200).collect();
        Self::new(
            Reason::NoSuchPath,
            "there is no such path here; the OJS API is below /ojs/v1, the federation API below /v1/federation",
        )
        .with("path", shown)
    }

    /// 405: the path is known, with other methods; `allow` is for the `Allow` header too.
    #[must_use]
    pub fn method_not_allowed(allow: &'static str) -> Self {
        Self::not_allowed(allow, format!("this path answers to {allow}; use that method"))
    }

    /// 405: pools of workers are changed at the hub, or in the configuration.
    #[must_use]
    pub fn pools_are_configured(has_hub: bool) -> Self {
        let message = if has_hub {
            "a sidecar changes no pools of workers: send this PUT or DELETE to the hub, whose pools all sidecars take over within seconds, or change \
             `scheduling.pools` in the configuration, which is read again without a restart; nothing was sent to a region"
        } else {
            "the pools of workers are those of `scheduling.pools` in this sidecar's configuration, which is read again without a restart: change \
             them there, or configure a hub and put them at the hub; nothing was sent to a region"
        };
        Self::not_allowed("GET", message)
    }

    /// 400: the request is not strict HTTP/1.1.
    #[must_use]
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Reason::MalformedRequest, message)
    }
}
