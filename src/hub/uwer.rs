//! The central store of UWER: which task has which job, and the documents that were refused. Spec: UWER §3 and §4.
//!
//! Every answer comes once the record has committed: a sidecar accepts no task without it.

mod letters;
mod tasks;

use std::rc::Rc;

use http::StatusCode;
use serde_json::Value;

use super::access::Caller;
use super::endpoint::{Endpoint, LETTERS};
use super::response::Refusal;
use super::state::Hub;
pub(super) use tasks::prune;

/// Answers a request to the store.
pub(super) async fn answered(
    hub: &Rc<Hub>,
    endpoint: Endpoint,
    caller: &Caller,
    (path, query): (&str, &str),
    body: &[u8],
) -> Result<Value, Refusal> {
    let Some(store) = &hub.uwer else {
        let message = "this hub keeps no tasks of UWER: set `uwer` in its configuration".to_owned();
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_store", message));
    };
    match endpoint {
        Endpoint::ClaimTask => tasks::claim(hub, body).await,
        Endpoint::SettleTask => tasks::settle(hub, body).await,
        Endpoint::UwerTasks => tasks::show(hub, query).await,
        Endpoint::KeepLetter => letters::keep(hub, store, caller, body).await,
        Endpoint::Letters => letters::list(hub, query).await,
        Endpoint::DropLetter => letters::drop(hub, caller, path.strip_prefix(LETTERS).unwrap_or(path), query).await,
        _ => letters::show(hub, store, path.strip_prefix(LETTERS).unwrap_or(path), query).await,
    }
}
