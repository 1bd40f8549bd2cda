//! The requests for slots of quotas that bound active jobs, over the connection to the hub.

use std::time::Duration;

use super::super::failure::Failure;
use super::super::grant::{GrantAnswer, GrantRequest};
use super::super::request::Requests;
use super::super::status::Status;
use super::Link;
use crate::telemetry::event;

/// Between two looks whether workers lack slots, so that the hub is asked for more.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Before a refused request is sent again.
const REFUSED_WAIT: Duration = Duration::from_secs(2);

impl Link {
    /// Asks for the slots of quotas until that fails.
    pub(super) async fn keep_asking_for_slots(&self, requests: &Requests) -> Failure {
        let mut before = None;
        self.slotting.hub_reached();
        loop {
            if !self.quoting.is_named() || !self.slotting.is_due(self.clock.now()) {
                self.clock.sleep(LOOK_EVERY).await;
                continue;
            }
            match self.ask_for_slots(requests).await {
                Ok(()) => {
                    if before.take().is_some() {
                        event::hub_grants_return(&requests.url.text);
                    }
                }
                Err(Failure::Refused(error) | Failure::Slow(error)) => {
                    if before.as_ref() != Some(&error) {
                        event::hub_grants_refused(&requests.url.text, &error);
                    }
                    before = Some(error);
                    self.clock.sleep(REFUSED_WAIT).await;
                }
                Err(failure) => return failure,
            }
            self.clock.sleep(LOOK_EVERY).await;
        }
    }

    async fn ask_for_slots(&self, requests: &Requests) -> Result<(), Failure> {
        let asked = self.clock.now();
        let pools = self.slotting.ask(asked);
        let Status { name: sidecar, started_unix_ms, .. } = (self.status)();
        let (longest_call_ms, regions, quotas) = (0, Vec::new(), Vec::new());
        let request = GrantRequest { sidecar, started_unix_ms, longest_call_ms, regions, pools, quotas };
        let answer: GrantAnswer = requests.ask("/v1/hub/grants", &request).await?;
        self.slotting.take(&answer.pools, asked);
        self.slotting.take_refused().map_or(Ok(()), |error| Err(Failure::Refused(error)))
    }
}
