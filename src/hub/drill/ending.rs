//! The end of a drill.

use super::super::audit::Entry;
use super::super::drill_desk::Latest;
use super::super::drill_order::{Cause, Drill, Ended};
use super::super::record::{Kept, RecordError};
use super::super::state::Hub;
use crate::telemetry::event;

/// Keeps the counts that the record does not have.
///
/// Errors: they are kept a further time.
pub(super) async fn keep_counts(hub: &Hub, id: &str) -> Result<(), RecordError> {
    let unsaved = hub.drills.take_unsaved(id);
    if unsaved.is_empty() {
        return Ok(());
    }
    let kept = hub.record.keep_drill_counts(id, unsaved.clone()).await;
    if kept.is_err() {
        hub.drills.give_back(id, unsaved);
    }
    kept
}

/// Ends a drill in the record, and at the sidecars of this hub. `by`: the client that asked for it, or the hub's own word. Returns the drill; none where the
/// record has another version of it.
///
/// Errors: it may have ended.
pub(super) async fn end(
    hub: &Hub,
    latest: &Latest,
    (cause, detail): (Cause, String),
    by: &str,
) -> Result<Option<Drill>, RecordError> {
    let ended = Ended { cause, detail: detail.clone(), at_ms: hub.clock.unix_ms() };
    let drill = Drill { ended: Some(ended), ..latest.drill.clone() };
    // Before the counts: a record that does not take so much has to take the end.
    if hub.record.change_drill(drill.saved(latest.number, latest.version)).await? == Kept::Behind {
        return Ok(None);
    }
    hub.drills.set(Latest { drill: drill.clone(), version: latest.version + 1, ..*latest }, hub.clock.now());
    event::hub_drill_ended(&drill.id, drill.region.as_str(), cause.as_str(), &detail);
    let why = if detail.is_empty() { cause.as_str().to_owned() } else { format!("{}: {detail}", cause.as_str()) };
    // The end is kept and logged, also where the trail does not take its row, or the record the counts, which the next round tries again.
    let noted = note(hub, &drill, by, "drill_ended", None, why).await;
    let counted = keep_counts(hub, &drill.id).await;
    for error in noted.err().into_iter().chain(counted.err()) {
        event::hub_drill_waits(&error.to_string());
    }
    Ok(Some(drill))
}

/// Adds a row about a drill to the audit trail.
///
/// Errors: the record's.
pub(super) async fn note(
    hub: &Hub,
    drill: &Drill,
    by: &str,
    action: &'static str,
    lasts_ms: Option<u64>,
    reason: String,
) -> Result<(), RecordError> {
    let entry = Entry {
        unix_ms: hub.clock.unix_ms(),
        caller: by.to_owned(),
        action,
        subject: drill.subject(),
        lasts_ms,
        force: false,
        reason,
        ticket: drill.ticket.clone(),
        author: drill.author.clone(),
    };
    hub.change(|_, _| ((), vec![entry.clone()])).await
}
