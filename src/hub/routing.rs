//! `POST /v1/federation/route` at the hub: a question of a spoke about one job, or of an operator, answered by the hub's view of the regions.
//!
//! The hub has no rules and no tenants, which are those of the spoke. It sees no job: a question has no arguments and no meta but that of routing.

use http::StatusCode;
use serde_json::Value;

use super::response::Refusal;
use super::state::Hub;
use crate::policy::{RouteQuestion, View, answer};

/// Shape: the document of RFC-0001 §6; `refusal` of a candidate, `orders` and `retry_after_ms` are added.
///
/// Errors: 400 for a body that is no question, 409 where this hub probes no regions, so that it has no view.
pub(super) fn answered(hub: &Hub, body: &[u8]) -> Result<Value, Refusal> {
    let question = RouteQuestion::read(body).map_err(Refusal::bad_request)?;
    let views = hub.views.as_ref().ok_or_else(|| {
        let message = "this hub probes no regions, and has no view to decide by: set `regions` in its configuration";
        Refusal::new(StatusCode::CONFLICT, "no_view", message.to_owned())
    })?;
    let (view, now) = views.present();
    let mut view = View::clone(&view);
    let switches = hub.current().in_force();
    for region in &mut view.regions {
        region.switch = switches.of_region(&region.id);
    }
    let answer = answer(&view, &question, now);
    serde_json::to_value(&answer).map_err(|_| {
        let message = "a defect kept this answer from being written; read the log";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message.to_owned())
    })
}
