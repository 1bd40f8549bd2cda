//! The failover drill of the hub: this sidecar takes part in it while the feed that named it is open, and reports its counts.

use std::time::Duration;

use http::Method;

use super::super::failure::Failure;
use super::super::request::Requests;
use super::Link;
use crate::switch::{DrillReport, FeedDrill};
use crate::telemetry::event;

/// Between two reports, and between two looks at the time of the drill.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Between two reports to a hub that refuses them: it may be of an earlier version, or know the drill no longer.
const REFUSED_WAIT: Duration = Duration::from_secs(30);

impl Link {
    /// Takes an event. One that cannot be read ends the drill that is on: it may have been to end it.
    pub(super) fn take_drill(&self, data: &str) {
        let sent = match serde_json::from_str::<FeedDrill>(data) {
            Ok(FeedDrill { drill }) => drill,
            Err(error) => {
                tracing::debug!(target: "ojs_federation", %error, "an event `drill` of the hub cannot be read");
                None
            }
        };
        let Some(sent) = sent else {
            self.end_drill("ended");
            return;
        };
        let (was_on, now) = (self.drills.until().is_some(), self.clock.now());
        let seed = seed(&[&sent.id, &(self.status)().name]);
        let is_new = self.drills.begin(&self.registry, &sent, now, seed);
        if is_new || !was_on {
            let lasts = sent.lasts().as_secs();
            event::drill_started(&self.metrics, &sent.id, sent.region.as_str(), &sent.share.to_string(), lasts);
        }
    }

    /// Takes part in no drill from now on.
    pub(super) fn end_drill(&self, cause: &'static str) {
        if let Some((id, region)) = self.drills.end(&self.registry) {
            event::drill_ended(&self.metrics, &id, region.as_str(), cause);
        }
    }

    /// Ends the drill in its time, and reports the counts after each change of them, until the connection is lost. They are counted from the beginning of the drill
    /// on, so that a report which comes twice, or late, changes nothing.
    pub(super) async fn keep_reporting_drill(&self, requests: &Requests) -> Failure {
        let status = (self.status)();
        let (mut taken, mut refused) = (None, None);
        loop {
            if self.drills.until().is_some_and(|until| self.clock.now() >= until) {
                self.end_drill("time_over");
            }
            let counted = self.drills.counts(&self.registry.view());
            let mut wait = REPORT_EVERY;
            if let Some((drill, counts)) = counted.filter(|it| taken.as_ref() != Some(it)) {
                let (sidecar, started_unix_ms) = (status.name.clone(), status.started_unix_ms);
                let report = DrillReport { sidecar, started_unix_ms, drill, counts };
                match requests.send(Method::PUT, "/v1/hub/drill", &report).await {
                    Ok(()) => taken = Some((report.drill, report.counts)),
                    Err(Failure::Slow(_)) => {}
                    Err(Failure::Refused(error)) => {
                        if refused.as_ref() != Some(&error) {
                            event::hub_drill_refused(&self.url().text, &error);
                        }
                        (taken, refused) = (Some((report.drill, report.counts)), Some(error));
                        wait = REFUSED_WAIT;
                    }
                    Err(failure) => return failure,
                }
            }
            let until = self.drills.until().map_or(wait, |until| until.saturating_duration_since(self.clock.now()));
            self.clock.sleep(wait.min(until.max(Duration::from_millis(1)))).await;
        }
    }
}

/// A number that differs from sidecar to sidecar, so that not all of them divert the same ones of their first jobs. FNV-1a.
fn seed(names: &[&str]) -> u64 {
    let bytes = names.iter().flat_map(|name| name.bytes().chain(std::iter::once(0)));
    bytes.fold(0xcbf2_9ce4_8422_2325, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
