//! A failover drill, as the record keeps it.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::record::SavedDrill;
use crate::base::text::rfc3339;
use crate::base::{RegionId, Share, words};
use crate::switch::{DrillCounts, DrillGroup, SentDrill};

words! {
    /// Why a drill has ended.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Cause {
        /// Its time is over.
        TimeOver = "time_over",
        /// An operator has stopped it.
        Stopped = "stopped",
        /// More of the diverted jobs failed than the order permits.
        Failures = "failures",
        /// The diverted jobs took longer than the order permits.
        Latency = "latency",
        /// Another region than the drilled one is unhealthy.
        RegionUnhealthy = "region_unhealthy",
        /// A sidecar's breaker of another region is open.
        BreakerOpen = "breaker_open",
        /// The drilled region itself is not well: the drill would hide it.
        DrilledRegionLost = "drilled_region_lost",
    }
}

/// The end of a drill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) cause: Cause,
    /// The figures or the region that were the cause, for people.
    pub(super) detail: String,
    /// Units: milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
}

/// A drill: its order, and its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Drill {
    /// Its name.
    pub(super) id: String,
    /// The region whose flexible jobs go elsewhere.
    pub(super) region: RegionId,
    /// The share of them.
    pub(super) share: Share,
    /// When it was ordered. Units: milliseconds since the Unix epoch.
    pub(super) began_ms: u64,
    /// When it ends by itself. Units: milliseconds since the Unix epoch.
    pub(super) ends_ms: u64,
    /// The most diverted jobs that may fail, besides the share of the control group that does.
    pub(super) abort_failures: Share,
    /// The longest mean wait of diverted jobs for regions. Units: milliseconds.
    pub(super) abort_latency_ms: Option<u64>,
    /// The regions that the hub's probes found healthy when it began.
    pub(super) well: Vec<RegionId>,
    /// Those that they did not find so.
    pub(super) unwell: Vec<RegionId>,
    pub(super) reason: String,
    pub(super) ticket: String,
    pub(super) author: String,
    /// None while it is on.
    pub(super) ended: Option<Ended>,
}

impl Drill {
    /// As the record keeps it under a number, made from a version.
    pub(super) fn saved(&self, number: u64, version: u64) -> SavedDrill {
        let (document, is_open) = (json!(self).to_string(), self.ended.is_none());
        SavedDrill { id: self.id.clone(), number, version, document, is_open, began_ms: self.began_ms }
    }

    /// The part that sidecars get; none where it is over.
    pub(super) fn sent(&self, unix_ms: u64) -> Option<SentDrill> {
        let ends_in_ms = self.ends_ms.saturating_sub(unix_ms.max(self.began_ms));
        let is_on = self.ended.is_none() && ends_in_ms > 0;
        is_on.then(|| SentDrill { id: self.id.clone(), region: self.region.clone(), share: self.share, ends_in_ms })
    }

    /// The subject of its rows in the audit trail.
    pub(super) fn subject(&self) -> String {
        format!("drill {} {}", self.region, self.share)
    }

    /// The order and the end, as answers show them.
    pub(super) fn shown(&self) -> Value {
        let ended = self.ended.as_ref();
        json!({
            "id": self.id, "region": self.region, "share": self.share.to_string(), "on": ended.is_none(),
            "began_at": rfc3339(self.began_ms), "ends_at": rfc3339(self.ends_ms), "ended_at": ended.map(|it| rfc3339(it.at_ms)),
            "cause": ended.map(|it| it.cause), "detail": ended.map(|it| &it.detail),
            "abort_failures": self.abort_failures.to_string(), "abort_latency_ms": self.abort_latency_ms,
            "reason": self.reason, "ticket": self.ticket, "author": self.author,
        })
    }

    /// The same with the counts of the sidecars with these names.
    pub(super) fn report(&self, counts: &DrillCounts, sidecars: &[&str]) -> Value {
        let mut report = self.shown();
        let mut diverted = group(&counts.all_diverted());
        diverted["returned"] = counts.returned.into();
        let regions = counts.diverted.iter().map(|(region, it)| {
            let mut shown = group(it);
            shown["region"] = region.as_str().into();
            shown
        });
        report["diverted"] = diverted;
        report["regions"] = regions.collect();
        report["control"] = group(&counts.control);
        report["stayed"] = json!(counts.stayed);
        report["unwell"] = json!(counts.unwell);
        report["sidecars"] = json!(sidecars);
        report
    }
}

/// The figures of a group. Latencies are of the time spent waiting for regions.
fn group(it: &DrillGroup) -> Value {
    let ms = |us: u64| us as f64 / 1_000.0;
    let failure_share = if it.jobs() == 0 { 0.0 } else { it.troubled() as f64 / it.jobs() as f64 };
    let mean_ms = it.mean().map(|mean| mean.as_secs_f64() * 1_000.0);
    json!({
        "jobs": it.jobs(), "stored": it.stored, "refused": it.refused, "failed": it.failed, "unknown": it.unknown,
        "failure_share": failure_share, "mean_ms": mean_ms, "max_ms": ms(it.waited_us_max),
    })
}
