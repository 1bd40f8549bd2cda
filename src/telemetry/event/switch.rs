//! Switches of operators.

use tracing::warn;

use super::TARGET;
use crate::base::{RegionId, SwitchKind, SwitchSubject};

/// An operator has set a switch; `region` is empty where it is about none, and so is `paused`; `calls` are those of a throttle. At the level of warnings, so that most levels
/// show it.
pub fn switch_set(
    switch: SwitchKind,
    subject: &SwitchSubject,
    calls: Option<u64>,
    lasts_seconds: u64,
    [reason, ticket, author]: [&str; 3],
) {
    let (region, paused) = parts(subject);
    warn!(
        target: TARGET, event = "ojs.federation.switch_set", switch = switch.as_str(), region, paused, calls, lasts_seconds, reason, ticket, author,
        "an operator has set a switch"
    );
}

/// A switch is not in force any more: an operator has ended it, for a reason, by a ticket and a name; without these its time is over.
pub fn switch_ended(switch: SwitchKind, subject: &SwitchSubject, by: Option<[&str; 3]>) {
    let (region, paused) = parts(subject);
    let (how, [reason, ticket, author]) = by.map_or(("expired", [""; 3]), |by| ("ended", by));
    warn!(
        target: TARGET, event = "ojs.federation.switch_ended", switch = switch.as_str(), region, paused, how, reason, ticket, author,
        "a switch is not in force any more"
    );
}

/// The region, and the paused subject, such as `queue email`; each empty where there is none.
fn parts(subject: &SwitchSubject) -> (&str, String) {
    match subject.region().map(RegionId::as_str) {
        Some(region) => (region, String::new()),
        None => ("", subject.to_string()),
    }
}
