//! The ledger of a hub that has one.

use http::StatusCode;

use super::super::ledger_desk::Ledger;
use super::super::response::Refusal;
use super::super::state::Hub;

/// The ledger.
///
/// Errors: 404 where this hub has none.
pub(super) fn present(hub: &Hub) -> Result<&Ledger, Refusal> {
    hub.ledger.as_ref().ok_or_else(|| {
        let message = "this hub keeps no ledger of jobs: set `ledger` in its configuration".to_owned();
        Refusal::new(StatusCode::NOT_FOUND, "no_ledger", message)
    })
}
