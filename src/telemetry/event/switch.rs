//! Switches of operators.

use tracing::warn;

use super::TARGET;
use crate::base::SwitchKind;

/// An operator has set a switch; `region` is empty where it is about none. At the level of warnings, so that most levels show it.
pub fn switch_set(switch: SwitchKind, region: &str, lasts_seconds: u64, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.switch_set", switch = switch.as_str(), region, lasts_seconds, reason, ticket, author,
        "an operator has set a switch"
    );
}

/// A switch is not in force any more: an operator has ended it, for a reason, by a ticket and a name; without these its time is over.
pub fn switch_ended(switch: SwitchKind, region: &str, by: Option<[&str; 3]>) {
    let (how, [reason, ticket, author]) = by.map_or(("expired", [""; 3]), |by| ("ended", by));
    warn!(
        target: TARGET, event = "ojs.federation.switch_ended", switch = switch.as_str(), region, how, reason, ticket, author,
        "a switch is not in force any more"
    );
}
