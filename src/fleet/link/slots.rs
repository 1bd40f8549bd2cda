//! The requests for slots of quotas that bound active jobs, over the connection to the hub.

use super::super::failure::Failure;
use super::super::grant::{GrantAnswer, GrantRequest};
use super::super::request::Requests;
use super::super::status::Status;
use super::Link;

impl Link {
    /// Asks for the slots of quotas until that fails.
    pub(super) async fn keep_asking_for_slots(&self, requests: &Requests) -> Failure {
        self.slotting.hub_reached();
        let ask = async || {
            self.wait_until(|| self.quoting.is_named() && self.slotting.is_due(self.clock.now())).await;
            self.ask_for_slots(requests).await
        };
        self.keep_asking(requests, ask, |_| {}).await
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
