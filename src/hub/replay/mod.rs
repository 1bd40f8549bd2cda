//! Orders of operators about single jobs: one is cancelled in its region, one or many are run again there.
//!
//! `owner` finds the region that has a job. `cancel` cancels one there. A replay is a row of the record, and so is each job that it is about,
//! so that a hub which is killed is followed by another one where it was: `order` reads the orders, `document` is the row of a replay, `carry`
//! takes one job from step to step, `single` and `bulk` answer operators, `manifest` is the proof of a replay, and `run` carries out what is open. Spec: source-job-orchestrator
//! §2, §4, §6.

mod bulk;
mod cancel;
mod carry;
mod digest;
mod document;
mod ending;
mod manifest;
mod order;
mod owner;
mod run;
mod shown;
mod single;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::access::Caller;
use super::endpoint::{Endpoint, LEDGER_JOBS, REPLAYS};
use super::response::{OUTCOME_UNKNOWN, Refusal};
use super::state::Hub;
use crate::ojs::query_text;
use crate::replica::{TEXT_BYTES_MAX, is_text};
pub use manifest::NotedManifest;
pub(super) use manifest::show as show_manifest;
pub(super) use order::read_grounds;
pub(super) use run::run;
pub(super) use shown::{list, show};

/// How long a client waits for its order: some answers of regions. The order goes on behind that.
const ORDER_WAIT: Duration = Duration::from_secs(30);

/// Carries out an order to its end, also where its client disconnects.
///
/// Errors: those of the order; 503 where as many are under way as may be, or where this one takes longer than a client waits.
pub(super) async fn ordered(
    hub: &Rc<Hub>,
    endpoint: Endpoint,
    caller: Rc<Caller>,
    (path, query): (&str, String),
    body: Bytes,
) -> Result<Value, Refusal> {
    let place = Arc::clone(&hub.replays.places).try_acquire_owned().map_err(|_| {
        let message = "too many orders about jobs are under way at this hub; send the order again later".to_owned();
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    })?;
    let (hub, path) = (Rc::clone(hub), path.to_owned());
    let task = tokio::task::spawn_local(async move {
        let _place = place;
        match endpoint {
            Endpoint::CancelJob => Box::pin(cancel::cancel(&hub, &caller, &job_id(&path)?, &query, &body)).await,
            Endpoint::ReplayJob => Box::pin(single::replay(&hub, &caller, &job_id(&path)?, &query, &body)).await,
            Endpoint::StopReplay => bulk::stop(&hub, &caller, path.strip_prefix(REPLAYS).unwrap_or_default()).await,
            _ => bulk::order(&hub, &caller, &query, &body).await,
        }
    });
    match tokio::time::timeout(ORDER_WAIT, task).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => {
            let message = "a defect ended this order; read the log, and look at the job and at `GET /api/replays`";
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message.to_owned()))
        }
        Err(_) => {
            let wait = ORDER_WAIT.as_secs();
            let message = format!(
                "the order took longer than {wait} s and goes on: look at the job and at `GET /api/replays` before it is sent again"
            );
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, OUTCOME_UNKNOWN, message))
        }
    }
}

/// The id in `/api/jobs/{id}/cancel` or `/replay`.
fn job_id(path: &str) -> Result<String, Refusal> {
    let within = path.strip_prefix(LEDGER_JOBS).and_then(|rest| rest.split_once('/'));
    let id = within.map(|(id, _)| query_text(id)).filter(|id| is_text(id));
    id.ok_or_else(|| {
        let message = format!(
            "`id` in the path: expected the id of a job, 1 to {TEXT_BYTES_MAX} bytes without control characters"
        );
        Refusal::bad_request(message)
    })
}
