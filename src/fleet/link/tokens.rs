//! The quotas of the feed, and the requests for their tokens, over the connection to the hub.

use super::super::failure::Failure;
use super::super::grant::{GrantAnswer, GrantRequest};
use super::super::quota_tokens::FeedQuotas;
use super::super::request::Requests;
use super::super::status::Status;
use super::Link;
use crate::policy::QUOTAS_MAX;
use crate::telemetry::event;

impl Link {
    /// Takes an event, which names all quotas. One that cannot be read changes nothing, and the switches of the feed go on.
    pub(super) fn take_quotas(&self, data: &str) {
        match serde_json::from_str::<FeedQuotas>(data) {
            Ok(FeedQuotas { mut quotas }) => {
                quotas.truncate(QUOTAS_MAX);
                self.quoting.named(&quotas);
                self.journal.set_quotas(quotas);
            }
            Err(error) => {
                event::hub_quotas_refused(&format!("those in force stay: the event `quotas` cannot be read: {error}"));
            }
        }
    }

    /// Asks for the tokens of quotas until that fails.
    pub(super) async fn keep_asking_for_tokens(&self, requests: &Requests) -> Failure {
        let ask = async || {
            self.quoting.wait_for_names().await;
            self.ask_for_tokens(requests).await
        };
        self.keep_asking(requests, ask, |_| {}).await
    }

    async fn ask_for_tokens(&self, requests: &Requests) -> Result<(), Failure> {
        let asked = self.clock.now();
        let quotas = self.quoting.ask(asked);
        if quotas.is_empty() {
            return Ok(());
        }
        let Status { name: sidecar, started_unix_ms, .. } = (self.status)();
        let (longest_call_ms, regions, pools) = (0, Vec::new(), Vec::new());
        let request = GrantRequest { sidecar, started_unix_ms, longest_call_ms, regions, pools, quotas };
        let answer: GrantAnswer = requests.ask("/v1/hub/grants", &request).await?;
        self.quoting.take(&answer.quotas, asked);
        self.quoting.take_refused().map_or(Ok(()), |error| Err(Failure::Refused(error)))
    }
}
