//! The reports of the changes of jobs, over the connection to the hub.

use std::time::Duration;

use http::Method;

use super::super::changes::ChangesRequest;
use super::super::failure::Failure;
use super::super::request::Requests;
use super::Link;
use crate::replica::{REPORT_LINES_MAX, without_trials};
use crate::telemetry::event;

/// Between two looks for changes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Before changes are sent again that the hub did not take, at least and by the place of this sidecar among many.
const REFUSED_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// A hub that has not named its breakers for so long since the connection knows none, and refuses the names of permissions.
const NAMED_WAIT: Duration = Duration::from_secs(5);

impl Link {
    /// Sends changes until that fails. They stay in the outbox until the hub has taken them.
    pub(super) async fn keep_reporting_changes(&self, requests: &Requests, share: f64) -> Failure {
        let Some(outbox) = &self.outbox else { return std::future::pending().await };
        let sidecar = (self.status)().name;
        let (mut before, began) = (None, self.clock.now());
        loop {
            let Some(report) = outbox.first() else {
                self.clock.sleep(LOOK_EVERY).await;
                continue;
            };
            let mut lines = report.lines.clone();
            if !self.breakers.is_named()
                && let Some(bare) = without_trials(&lines)
            {
                if self.clock.now().saturating_duration_since(began) < NAMED_WAIT {
                    self.clock.sleep(LOOK_EVERY).await;
                    continue;
                }
                lines = bare;
            }
            let body = ChangesRequest::body(&sidecar, &lines);
            match requests.send_bytes(Method::POST, "/v1/hub/changes", body).await {
                Ok(()) => outbox.taken(&report),
                Err(Failure::Refused(error) | Failure::Slow(error)) => {
                    if before.as_ref() != Some(&error) {
                        event::hub_changes_refused(&self.url().text, &error);
                    }
                    before = Some(error);
                    self.clock.sleep(REFUSED_WAIT.0 + REFUSED_WAIT.1.mul_f64(share)).await;
                    continue;
                }
                Err(failure) => return failure,
            }
            before = None;
            if report.count < REPORT_LINES_MAX {
                self.clock.sleep(LOOK_EVERY).await;
            }
        }
    }
}
