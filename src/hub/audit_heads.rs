//! Signed heads of the audit trail: for a client that asks, and each minute for the log of the process.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::audit_log::Unsigned;
use super::follow::Failures;
use super::response::Refusal;
use super::state::Hub;
use crate::telemetry::event;

/// How often a head is signed where there are new rows.
const SIGN_EVERY: Duration = Duration::from_secs(60);

/// `GET /v1/hub/audit/head`: a head over all rows, signed now.
///
/// Errors: 404 `no_audit_key` without a key, 503 `record_unavailable`, 500 `audit_changed` where the record has other rows than were written.
pub(super) async fn head(hub: &Hub) -> Result<Value, Refusal> {
    let Some(log) = &hub.audit_log else {
        let message = "this hub signs no heads of its audit trail: set `audit` in its configuration".to_owned();
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_audit_key", message));
    };
    match log.signed_head(&hub.record, hub.clock.unix_ms()).await {
        Ok((_, envelope)) => Ok(serde_json::json!(envelope)),
        Err(Unsigned::Record(error)) => Err(error.into()),
        Err(error) => Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "audit_changed", error.to_string())),
    }
}

/// Logs a signed head each minute in which rows were added, for ever: the log is kept elsewhere, and proves later that they were there.
pub(super) async fn sign_heads(hub: &Hub) {
    let Some(log) = &hub.audit_log else { return std::future::pending().await };
    let (mut failures, mut signed, mut refused) = (Failures::default(), None, None);
    loop {
        match log.signed_head(&hub.record, hub.clock.unix_ms()).await {
            Ok((head, envelope)) => {
                failures.note::<()>(&Ok(()));
                refused = None;
                if signed != Some(head.size) {
                    event::hub_audit_head(head.size, &head.root, &serde_json::json!(envelope).to_string());
                    signed = Some(head.size);
                }
            }
            Err(Unsigned::Record(error)) => failures.note::<()>(&Err(error)),
            Err(error) => {
                let error = error.to_string();
                if refused.as_ref() != Some(&error) {
                    event::hub_audit_unsigned(&error);
                }
                refused = Some(error);
            }
        }
        hub.clock.sleep(SIGN_EVERY).await;
    }
}
