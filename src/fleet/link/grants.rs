//! The requests for grants of fleet limits, over the connection to the hub.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;

use super::super::grant::{GrantAnswer, GrantRequest};
use super::super::status::Status;
use super::{ANSWER_BYTES_MAX, Failure, Link, TIMEOUT};
use crate::telemetry::event;

/// Between two looks whether calls were refused by a fleet limit, so that the hub is asked for more.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Before a refused request is sent again, also where calls are refused.
const REFUSED_WAIT: Duration = Duration::from_secs(2);

impl Link {
    /// Asks for the calls of fleet limits until that fails.
    pub(super) async fn keep_asking_for_grants(&self, mut sender: SendRequest<Full<Bytes>>) -> Failure {
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
            match self.ask_for_grants(&mut sender).await {
                Ok(()) if before.take().is_some() => event::hub_grants_return(&self.url().text),
                Ok(()) => {}
                Err(Failure::Refused(error) | Failure::Slow(error)) => {
                    if before.as_ref() != Some(&error) {
                        event::hub_grants_refused(&self.url().text, &error);
                    }
                    before = Some(error);
                    self.clock.sleep(REFUSED_WAIT).await;
                }
                Err(failure) => return failure,
            }
            self.clock.sleep(LOOK_EVERY).await;
        }
    }

    async fn ask_for_grants(&self, sender: &mut SendRequest<Full<Bytes>>) -> Result<(), Failure> {
        let asked = self.clock.now();
        let regions = self.granting.ask(asked);
        let Status { name: sidecar, started_unix_ms, .. } = (self.status)();
        let longest_call_ms = self.granting.longest_call_ms();
        let request = GrantRequest { sidecar, started_unix_ms, longest_call_ms, regions };
        let body = serde_json::to_vec(&request).map_err(Failure::lost)?;
        let request = self.request(Method::POST, "/v1/hub/grants", body).map_err(Failure::Lost)?;
        let body = self.answered(sender, request).await?.into_body();
        let body = http_body_util::Limited::new(body, ANSWER_BYTES_MAX).collect();
        let silent = || Failure::Slow(format!("the grants did not arrive within {} s", TIMEOUT.as_secs()));
        let body = tokio::time::timeout(TIMEOUT, body).await.map_err(|_| silent())?.map_err(Failure::lost)?;
        let answer: GrantAnswer = serde_json::from_slice(&body.to_bytes())
            .map_err(|error| Failure::Refused(format!("the grants cannot be read: {error}")))?;
        self.granting.take(&answer, asked);
        if let Some(error) = self.granting.take_refused() {
            return Err(Failure::Refused(error));
        }
        Ok(())
    }
}
