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
/// Between two reports to a hub that refuses them while a drill is on: it may be about to read the drill, or have too much to do.
const REFUSED_WAIT: Duration = Duration::from_millis(1_500);
/// The same behind the drill, and how often: the hub may know the drill no longer, or be of an earlier version.
const LATE_WAIT: Duration = Duration::from_secs(30);
const LATE_TRIES: u32 = 10;

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
        let Some(is_new) = self.drills.begin(&self.registry, &sent, now, seed) else {
            self.end_drill("replaced");
            tracing::debug!(target: "ojs_federation", region = sent.region.as_str(), "a drill of a region that is not known here");
            return;
        };
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
        let (mut taken, mut refused, mut late) = (None, None, 0);
        loop {
            if self.drills.until().is_some_and(|until| self.clock.now() >= until) {
                self.end_drill("time_over");
            }
            let counted = self.drills.counts(&self.registry.view());
            let mut wait = REPORT_EVERY;
            if let Some((drill, counts)) = counted.filter(|it| taken.as_ref() != Some(it)) {
                let (sidecar, started_unix_ms) = (status.name.clone(), status.started_unix_ms);
                let seq = self.drills.next_report();
                let report = DrillReport { sidecar, started_unix_ms, seq, drill, counts };
                match requests.send(Method::PUT, "/v1/hub/drill", &report).await {
                    Ok(()) => (taken, refused, late) = (Some((report.drill, report.counts)), None, 0),
                    Err(Failure::Slow(_)) => {}
                    Err(Failure::Refused(error)) => {
                        if refused.as_ref() != Some(&error) {
                            event::hub_drill_refused(&self.url().text, &error);
                        }
                        refused = Some(error);
                        let is_on = self.drills.until().is_some();
                        (wait, late) = if is_on { (REFUSED_WAIT, 0) } else { (LATE_WAIT, late + 1) };
                        if late >= LATE_TRIES {
                            (taken, late) = (Some((report.drill, report.counts)), 0);
                        }
                    }
                    Err(failure) => return failure,
                }
            }
            let until = self.drills.until().map_or(wait, |until| until.saturating_duration_since(self.clock.now()));
            tokio::select! {
                () = self.clock.sleep(wait.min(until.max(Duration::from_millis(1)))) => {}
                () = self.drills.begun() => {}
            }
        }
    }
}

/// A number that differs from sidecar to sidecar, so that not all of them divert the same ones of their first jobs. FNV-1a.
fn seed(names: &[&str]) -> u64 {
    let bytes = names.iter().flat_map(|name| name.bytes().chain(std::iter::once(0)));
    bytes.fold(0xcbf2_9ce4_8422_2325, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
