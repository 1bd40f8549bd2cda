//! The reports of the bytes of jobs, over the connection to the hub.

use std::time::Duration;

use super::super::bodies::BodiesRequest;
use super::super::failure::Failure;
use super::super::request::Requests;
use super::Link;
use crate::telemetry::event;

/// Between two looks for stored jobs.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Before bytes are sent again that the hub did not take, at least and by the place of this sidecar among many.
const REFUSED_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Before a hub that keeps none is tried again: its operator restarts it to change that.
const NONE_WAIT: Duration = Duration::from_secs(30);

impl Link {
    /// Sends the bytes of jobs until that fails. They stay in the outbox until the hub has taken them, or keeps none.
    pub(super) async fn keep_reporting_bodies(&self, requests: &Requests, share: f64) -> Failure {
        let Some(outbox) = &self.bodies else { return std::future::pending().await };
        let sidecar = (self.status)().name;
        let mut before = None;
        loop {
            let Some(report) = outbox.first() else {
                self.clock.sleep(LOOK_EVERY).await;
                continue;
            };
            let wait = match requests.send_bodies(BodiesRequest::body(&sidecar, &report.bodies)).await {
                Ok(None) => {
                    outbox.taken(&report, true);
                    outbox.note_refused(false);
                    before = None;
                    if report.more { Duration::ZERO } else { LOOK_EVERY }
                }
                Ok(Some(error)) => {
                    outbox.taken(&report, false);
                    if outbox.note_refused(true) {
                        event::hub_bodies_refused(&self.url().text, &error, true);
                    }
                    NONE_WAIT
                }
                Err(Failure::Refused(error) | Failure::Slow(error)) => {
                    if before.as_ref() != Some(&error) {
                        event::hub_bodies_refused(&self.url().text, &error, false);
                    }
                    before = Some(error);
                    REFUSED_WAIT.0 + REFUSED_WAIT.1.mul_f64(share)
                }
                Err(failure) => return failure,
            };
            self.clock.sleep(wait).await;
        }
    }
}
