//! Requests that are repeated for as long as the connection to the hub lasts: for the calls of fleet limits, the tokens of quotas, and their slots.

use std::time::Duration;

use super::super::failure::Failure;
use super::super::request::Requests;
use super::Link;
use crate::telemetry::event;

/// Between two looks whether something lacks of which the hub may grant more.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Before a refused request is sent again, also where calls, jobs or workers wait for its answer.
const REFUSED_WAIT: Duration = Duration::from_secs(2);

impl Link {
    /// Waits until the hub is to be asked.
    pub(super) async fn wait_until(&self, is_due: impl Fn() -> bool) {
        while !is_due() {
            self.clock.sleep(LOOK_EVERY).await;
        }
    }

    /// Asks until that fails. `ask` waits until there is something to ask for, and asks once; `on_answer` gets the mistake of a refused request, and
    /// none of one that was granted. A mistake is logged once in a row.
    pub(super) async fn keep_asking(
        &self,
        requests: &Requests,
        mut ask: impl AsyncFnMut() -> Result<(), Failure>,
        on_answer: impl Fn(Option<&str>),
    ) -> Failure {
        let mut before = None;
        loop {
            match ask().await {
                Ok(()) => {
                    on_answer(None);
                    if before.take().is_some() {
                        event::hub_grants_return(&requests.url.text);
                    }
                }
                Err(Failure::Refused(error) | Failure::Slow(error)) => {
                    if before.as_ref() != Some(&error) {
                        event::hub_grants_refused(&requests.url.text, &error);
                    }
                    on_answer(Some(&error));
                    before = Some(error);
                    self.clock.sleep(REFUSED_WAIT).await;
                }
                Err(failure) => return failure,
            }
            self.clock.sleep(LOOK_EVERY).await;
        }
    }
}
