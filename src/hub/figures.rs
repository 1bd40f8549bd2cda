//! The figures of pools of workers that sidecars report, and their sums.

use serde_json::{Value, json};

use super::access::Caller;
use super::response::Refusal;
use super::sidecar_request::read;
use super::state::Hub;
use crate::fleet::FiguresReport;

/// Takes the figures of a sidecar in place of those before. They are in memory only: a hub that was run again has them within seconds.
///
/// Errors: as for [`read`].
pub(super) fn take(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<(), Refusal> {
    let FiguresReport { sidecar, figures } = read(hub, caller, body)?;
    hub.fleet.borrow_mut().take_figures(&sidecar, figures, hub.clock.unix_ms());
    Ok(())
}

/// The sums over the sidecars that follow this hub. Shape: [`crate::policy::FleetFigures`] as JSON.
pub(super) fn show(hub: &Hub) -> Value {
    json!(hub.fleet.borrow().figures(hub.clock.unix_ms(), |pool| hub.limits.bound_of_pool(pool)))
}
