//! The figures of pools of workers, over the connection to the hub: those of this sidecar go there, and the sums come back.

use std::time::Duration;

use http::Method;
use tokio::sync::oneshot;

use super::super::failure::Failure;
use super::super::figures::FiguresReport;
use super::super::request::Requests;
use super::Link;
use crate::region::FiguresAnswer;

/// Between two reports: as often as the status.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// Between two reports to a hub that refuses them: it may be of an earlier version.
const REFUSED_WAIT: Duration = Duration::from_secs(60);

impl Link {
    /// Reports the figures of this sidecar until the connection is lost. A hub that refuses them costs only the sums.
    pub(super) async fn keep_reporting_figures(&self, requests: &Requests) -> Failure {
        let Some(figures) = &self.figures else { return std::future::pending().await };
        let sidecar = (self.status)().name;
        loop {
            let report = FiguresReport { sidecar: sidecar.clone(), figures: figures() };
            let wait = match requests.send(Method::PUT, "/v1/hub/figures", &report).await {
                Ok(()) | Err(Failure::Slow(_)) => REPORT_EVERY,
                Err(Failure::Refused(error)) => {
                    tracing::debug!(target: "ojs_federation", error, "the hub refuses the figures of pools");
                    REFUSED_WAIT
                }
                Err(failure) => return failure,
            };
            self.clock.sleep(wait).await;
        }
    }

    /// Answers questions for the sums until the connection is lost. One at a time: the others wait for little.
    pub(super) async fn keep_asking_for_figures(&self, requests: &Requests) -> Failure {
        let mut asked = self.fleet_figures.questions().await;
        loop {
            let Some(ask) = asked.recv().await else { return std::future::pending().await };
            if let Some(failure) = answer_one(requests, ask).await {
                return failure;
            }
        }
    }
}

/// Answers one; returns the failure that ends the connection.
async fn answer_one(requests: &Requests, mut ask: oneshot::Sender<FiguresAnswer>) -> Option<Failure> {
    // A call that waits no longer leaves its place to the next one.
    let asked = tokio::select! {
        biased;
        () = ask.closed() => return None,
        asked = requests.ask_figures() => asked,
    };
    let (answer, lost) = match asked {
        Ok(answer) => (answer, None),
        Err(Failure::Refused(_) | Failure::Slow(_)) => (FiguresAnswer::Failed, None),
        Err(failure) => (FiguresAnswer::Failed, Some(failure)),
    };
    // Its call may have ended.
    let _ = ask.send(answer);
    lost
}
