//! The errors of calls that create several jobs, or that concern several regions.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::ErrorDocument;
use crate::base::Reason;

/// The fate of each job of a failed batch, by its place in the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fates {
    /// Stored now.
    pub created: Vec<usize>,
    /// Not stored.
    pub failed: Vec<usize>,
    /// Stored for a moment, and cancelled because the others failed.
    pub cancelled: Vec<usize>,
    /// Stored or not.
    pub unknown: Vec<usize>,
}

/// Refusals and failures of several jobs at once.
impl ErrorDocument {
    /// 400: the jobs demand different regions, and the operator keeps batches whole. `regions` names the jobs of each.
    #[must_use]
    pub fn mixed_batch(regions: Map<String, Value>) -> Self {
        Self::new(Reason::MixedBatch,
            "the jobs of this call may not all go to one region, and `batch.mixed` is `reject`; nothing was sent: send the jobs \
             of each region, as `details.regions` lists them, in a call of their own",
        )
        .with("regions", Value::Object(regions))
    }

    /// 400: a call that must go to one region is bound to several. `places` lists the parts of the body with their
    /// regions.
    #[must_use]
    pub fn contradicting_pins(places: Vec<Value>) -> Self {
        Self::new(Reason::ContradictingPins,
            "this call goes to one region as a whole, and parts of it are bound to different ones; nothing was sent: bind all of \
             them to the same region, or send them apart",
        )
        .with("places", places)
        .with("ojs_code", "OJS-1004")
    }

    /// 422: the call can only go to one region, and a part of it asks for another, or for routing.
    #[must_use]
    pub fn bound_elsewhere(region: &str) -> Self {
        Self::new(
            Reason::RoutingUnsupported,
            "this call can only go to the region in `details.region`, and something in it asks for, or is bound to, another one; \
             nothing was sent: leave the routing keys out, or send a new job with POST /ojs/v1/jobs",
        )
        .with_region(region)
    }

    /// A batch was split and failed, in part at least. `status` is the failure's class.
    ///
    /// `torn`: some of its jobs are stored, or may be, so that sending it again would store them twice.
    #[must_use]
    pub fn batch_failed(status: StatusCode, torn: bool, fates: &Fates) -> Self {
        let message = if !torn {
            "a region did not take its part of the batch; the jobs that others had stored were cancelled, so the batch may be \
             sent again"
        } else if fates.unknown.is_empty() {
            "a region did not take its part of the batch, and what others had stored could not be undone; do not send the \
             batch again as it is: look up `details.created`"
        } else {
            "a region that was sent a part of the batch did not answer, so those jobs may or may not be stored; look up \
             `details.jobs` before sending any of them again"
        };
        let reason = if !fates.unknown.is_empty() {
            Reason::OutcomeUnknown
        } else if torn {
            Reason::PartlyCreated
        } else {
            Reason::BatchFailed
        };
        let status = if torn { StatusCode::INTERNAL_SERVER_ERROR } else { status };
        let mut document = Self::new(reason, message)
            .of_status(status)
            .with("created", json!(fates.created))
            .with("failed", json!(fates.failed))
            .with("cancelled", json!(fates.cancelled))
            .with("unknown", json!(fates.unknown));
        document.retryable = status == StatusCode::SERVICE_UNAVAILABLE;
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            document.retry_after = Some(1);
        }
        document
    }

    /// 500: every part was cancelled, but the client's idempotency key would make regions repeat their first answer.
    #[must_use]
    pub fn key_is_spent(fates: &Fates) -> Self {
        let mut document = Self::batch_failed(StatusCode::INTERNAL_SERVER_ERROR, false, fates);
        document.message =
            "a region did not take its part of the batch, and the jobs that others had stored were cancelled; \
                            those regions remember the idempotency key, so send the batch again with a new one"
                .into();
        document
    }

    /// A region refused a part of a bulk enqueue as a whole.
    #[must_use]
    pub fn part_refused(region: &str, status: StatusCode) -> Self {
        Self::new(Reason::PartRefused, "the region refused this part of the call; nothing of it was stored")
            .of_status(status)
            .with_region(region)
            .with("status", status.as_u16())
    }

    /// 409: a cron job of this name lives in another region.
    #[must_use]
    pub fn cron_elsewhere(region: &str) -> Self {
        Self::new(Reason::CronInOtherRegion,
            "a cron job of this name lives in another region, and in both it would fire twice; change it by its name, delete it \
             first, or choose another name",
        )
        .with_region(region)
    }
}
