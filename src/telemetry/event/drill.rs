//! Failover drills, at sidecars and at hubs.

use tracing::{info, warn};

use super::TARGET;
use crate::telemetry::Metrics;

/// This sidecar takes part in a drill: a share of the flexible jobs of a region goes elsewhere. At the level of warnings, as a switch.
pub fn drill_started(metrics: &Metrics, id: &str, region: &str, share: &str, lasts_seconds: u64) {
    metrics.drill.active.set(1);
    warn!(
        target: TARGET, event = "ojs.federation.drill_started", id, region, share, lasts_seconds,
        "a failover drill is on: a share of the flexible jobs of a region goes to others"
    );
}

/// This sidecar takes part in it no longer. `cause`: `ended` by the hub, `time_over`, `hub_lost`, `renewal` of the connection, or `replaced` by another drill.
pub fn drill_ended(metrics: &Metrics, id: &str, region: &str, cause: &str) {
    metrics.drill.active.set(0);
    warn!(
        target: TARGET, event = "ojs.federation.drill_ended", id, region, cause,
        "the failover drill is over here: all jobs go where they went before"
    );
}

/// A hub has begun a drill by the order of an operator.
pub fn hub_drill_started(id: &str, region: &str, share: &str, lasts_seconds: u64, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_drill_started", id, region, share, lasts_seconds, reason, ticket, author,
        "an operator has begun a failover drill"
    );
}

/// A hub has ended a drill.
pub fn hub_drill_ended(id: &str, region: &str, cause: &str, detail: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_drill_ended", id, region, cause, detail, "a failover drill has ended");
}

/// The record of a hub does not take the counts of a drill, or its end.
pub fn hub_drill_waits(error: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_drill_waits", error, "a failover drill cannot be judged or kept; it is tried again");
}

/// The hub does not take the counts of a drill.
pub fn hub_drill_refused(url: &str, error: &str) {
    info!(target: TARGET, event = "ojs.federation.hub_drill_refused", url, error, "the hub does not take the counts of a failover drill");
}
