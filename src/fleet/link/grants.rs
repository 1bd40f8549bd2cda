//! The requests for grants of fleet limits, over the connection to the hub.

use std::time::Duration;

use super::super::failure::Failure;
use super::super::grant::{GrantAnswer, GrantRequest};
use super::super::request::Requests;
use super::super::status::Status;
use super::Link;
use crate::telemetry::event;

/// Between two looks whether calls were refused by a fleet limit, so that the hub is asked for more.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Before a refused request is sent again, also where calls are refused.
const REFUSED_WAIT: Duration = Duration::from_secs(2);

impl Link {
    /// Asks for the calls of fleet limits until that fails.
    pub(super) async fn keep_asking_for_grants(&self, requests: &Requests) -> Failure {
        if self.granting.is_empty() {
            return std::future::pending().await;
        }
        let mut before = None;
        self.granting.hub_reached();
        loop {
            if !self.granting.is_due(self.clock.now()) {
                self.clock.sleep(LOOK_EVERY).await;
                continue;
            }
            match self.ask_for_grants(requests).await {
                Ok(()) => {
                    (self.on_grants)(None);
                    if before.take().is_some() {
                        event::hub_grants_return(&requests.url.text);
                    }
                }
                Err(Failure::Refused(error) | Failure::Slow(error)) => {
                    if before.as_ref() != Some(&error) {
                        event::hub_grants_refused(&requests.url.text, &error);
                    }
                    (self.on_grants)(Some(&error));
                    before = Some(error);
                    self.clock.sleep(REFUSED_WAIT).await;
                }
                Err(failure) => return failure,
            }
            self.clock.sleep(LOOK_EVERY).await;
        }
    }

    async fn ask_for_grants(&self, requests: &Requests) -> Result<(), Failure> {
        let asked = self.clock.now();
        let (regions, pools) = self.granting.ask(asked);
        let quotas = Vec::new();
        let Status { name: sidecar, started_unix_ms, .. } = (self.status)();
        let longest_call_ms = self.granting.longest_call_ms();
        let request = GrantRequest { sidecar, started_unix_ms, longest_call_ms, regions, pools, quotas };
        let answer: GrantAnswer = requests.ask("/v1/hub/grants", &request).await?;
        self.granting.take(&answer, asked);
        match self.granting.take_refused() {
            Some(error) => Err(Failure::Refused(error)),
            None => Ok(()),
        }
    }
}
