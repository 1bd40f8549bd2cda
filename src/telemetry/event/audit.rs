//! The audit trail of a hub.

use tracing::{error, info};

use super::TARGET;

/// The head of the audit trail was signed.
pub fn hub_audit_head(size: u64, root: &str, envelope: &str) {
    info!(
        target: TARGET, event = "ojs.federation.hub_audit_head", size, root, envelope,
        "the audit trail was signed; a later change of these rows is found by this line"
    );
}

/// The records of a day of the ledger were signed.
pub fn hub_ledger_head(day: &str, size: u64, root: &str, envelope: &str) {
    info!(
        target: TARGET, event = "ojs.federation.hub_ledger_head", day, size, root, envelope,
        "the ledger was signed; a later change of these records is found by this line"
    );
}

/// No head of the ledger can be signed.
pub fn hub_ledger_unsigned(error: &str) {
    error!(target: TARGET, event = "ojs.federation.hub_ledger_unsigned", error, "the ledger is not signed");
}

/// No head of the audit trail can be signed.
pub fn hub_audit_unsigned(error: &str) {
    error!(target: TARGET, event = "ojs.federation.hub_audit_unsigned", error, "the audit trail is not signed");
}
