//! Takes over the isolations that hubs of other regions show, so that every hub keeps jobs from a region that one of them has isolated.
//!
//! A hub shows only the isolations that were set at it, so that none goes round in a circle.

use super::audit::Entry;
use super::state::Hub;
use super::taken::Followed;
use crate::base::RegionId;
use crate::switch::{Isolation, SWITCHES_MAX};
use crate::telemetry::event;

/// The isolations that were set at this hub.
pub(super) fn own(hub: &Hub) -> Vec<Isolation> {
    hub.current().switches.iter().filter_map(Isolation::of).collect()
}

/// Takes the isolations that a source shows; they are durable and in force when this returns.
///
/// Errors: a sentence for the operator; none of them was taken.
pub(super) async fn take_over(hub: &Hub, source: &RegionId, shown: &[Isolation]) -> Result<(), String> {
    let mut taken = hub.current().taken.clone();
    taken.follow(source, shown, hub.now());
    // Most answers change nothing, and then the record is not asked.
    if taken == hub.current().taken {
        return Ok(());
    }
    let followed = hub.change(|state, now| {
        let mut after = state.clone();
        let followed = after.taken.follow(source, shown, now);
        if after.in_force().are_too_many() {
            let message = format!("its isolations are not taken: a hub has at most {SWITCHES_MAX} switches");
            return (Err(message), Vec::new());
        }
        *state = after;
        let entries = entries(hub, source, &followed);
        (Ok(followed), entries)
    });
    let followed = followed.await.map_err(|error| error.to_string())??;
    for it in &followed.set {
        let Isolation { since_ms, ends_ms, reason, ticket, author, .. } = it;
        let switch = it.switch();
        let lasts = ends_ms.saturating_sub(*since_ms) / 1_000;
        event::switch_set(switch.kind, &switch.subject, None, lasts, [reason, ticket, author]);
    }
    for it in &followed.ended {
        let switch = it.switch();
        event::switch_ended(switch.kind, &switch.subject, Some([&ended_by(source), &it.ticket, &it.author]));
    }
    Ok(())
}

fn ended_by(source: &RegionId) -> String {
    format!("ended at the hub of {}", source.as_str())
}

/// The entries of the audit trail. No rule of safety stops an isolation of another hub, as if it was forced.
fn entries(hub: &Hub, source: &RegionId, followed: &Followed) -> Vec<Entry> {
    let entry = |isolation: &Isolation, action, lasts_ms: Option<u64>, reason: String| Entry {
        unix_ms: hub.clock.unix_ms(),
        caller: format!("hub {}", source.as_str()),
        action,
        subject: isolation.switch().name(),
        lasts_ms,
        force: lasts_ms.is_some(),
        reason,
        ticket: isolation.ticket.clone(),
        author: isolation.author.clone(),
    };
    let set = followed.set.iter().map(|it| {
        let lasts_ms = it.ends_ms.saturating_sub(it.since_ms);
        entry(it, "switch_set", Some(lasts_ms), it.reason.clone())
    });
    let ended = followed.ended.iter().map(|it| entry(it, "switch_ended", None, ended_by(source)));
    set.chain(ended).collect()
}
