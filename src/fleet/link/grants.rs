//! The requests for grants of fleet limits, over the connection to the hub.

use super::super::failure::Failure;
use super::super::grant::{GrantAnswer, GrantRequest};
use super::super::request::Requests;
use super::super::status::Status;
use super::Link;

impl Link {
    /// Asks for the calls of fleet limits until that fails.
    pub(super) async fn keep_asking_for_grants(&self, requests: &Requests) -> Failure {
        if self.granting.is_empty() {
            return std::future::pending().await;
        }
        self.granting.hub_reached();
        let ask = async || {
            self.wait_until(|| self.granting.is_due(self.clock.now())).await;
            self.ask_for_grants(requests).await
        };
        self.keep_asking(requests, ask, |error| (self.on_grants)(error)).await
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
