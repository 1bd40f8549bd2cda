//! Signed heads of the audit trail: for a client that asks, and each minute for the log of the process.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::audit_log::{AuditLog, Unsigned};
use super::follow::Failures;
use super::response::Refusal;
use super::state::Hub;
use crate::evidence::{Envelope, Head};
use crate::telemetry::event;

/// How often a head is signed where there are new rows.
const SIGN_EVERY: Duration = Duration::from_secs(60);
/// A head is logged also without new rows, once in so many minutes: a line may be lost, and silence must not look like no orders.
const ROUNDS_UNLOGGED_MAX: u32 = 60;
/// The pause between two parts of a long trail.
const READ_AGAIN: Duration = Duration::from_millis(10);

/// A head over all rows, signed now. A refusal to sign is logged.
async fn signed(hub: &Hub, log: &AuditLog) -> Result<(Head, Envelope), Unsigned> {
    let written = hub.current().head.clone();
    let signed = log.signed_head(&hub.record, &written, hub.clock.unix_ms()).await;
    if let Err(error @ (Unsigned::Changed(_) | Unsigned::Back(_) | Unsigned::Key(_))) = &signed {
        event::hub_audit_unsigned(&error.to_string());
    }
    signed
}

/// `GET /v1/hub/audit/head`: a head over all rows, signed now.
///
/// Errors: 404 `no_audit_key` without a key, 503 `record_unavailable`, also while a long trail is being read, 500 `audit_unsigned` where the record has
/// other rows than were written.
pub(super) async fn head(hub: &Hub) -> Result<Value, Refusal> {
    let Some(log) = &hub.audit_log else {
        let message = "this hub signs no heads of its audit trail: set `audit` in its configuration".to_owned();
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_audit_key", message));
    };
    signed(hub, log).await.map(|(_, envelope)| serde_json::json!(envelope)).map_err(|error| match error {
        Unsigned::Record(error) => error.into(),
        Unsigned::Reading(_) => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", error.to_string()),
        error => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "audit_unsigned", error.to_string()),
    })
}

/// Logs a signed head each minute in which rows were added, and each hour, for ever: the log is kept elsewhere, and proves later that they were there.
pub(super) async fn sign_heads(hub: &Hub) {
    let Some(log) = &hub.audit_log else { return std::future::pending().await };
    let (mut failures, mut logged, mut rounds) = (Failures::default(), None, 0);
    loop {
        match signed(hub, log).await {
            Ok((head, envelope)) => {
                failures.note::<()>(&Ok(()));
                rounds += 1;
                if logged != Some(head.size) || rounds >= ROUNDS_UNLOGGED_MAX {
                    event::hub_audit_head(head.size, &head.root, &serde_json::json!(envelope).to_string());
                    (logged, rounds) = (Some(head.size), 0);
                }
            }
            Err(Unsigned::Reading(_)) => {
                hub.clock.sleep(READ_AGAIN).await;
                continue;
            }
            Err(Unsigned::Record(error)) => failures.note::<()>(&Err(error)),
            Err(Unsigned::Changed(_) | Unsigned::Back(_) | Unsigned::Key(_)) => {}
        }
        hub.clock.sleep(SIGN_EVERY).await;
    }
}

/// Logs a signed head at the end of the process, so that the rows of its last minute are in one.
pub(super) async fn sign_last(hub: &Hub) {
    let Some(log) = &hub.audit_log else { return };
    if let Ok((head, envelope)) = signed(hub, log).await {
        event::hub_audit_head(head.size, &head.root, &serde_json::json!(envelope).to_string());
    }
}
