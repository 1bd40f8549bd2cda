//! The rows of replays in the audit trail, and their end.

use http::StatusCode;

use super::super::audit::Entry;
use super::super::record::{Kept, RecordError, ReplayStep};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::document::Replay;
use super::manifest::{NotedManifest, noted};
use crate::telemetry::event;

/// Adds a row about a replay to the audit trail. `by`: the client that asked for it, or the hub's own word.
///
/// Errors: the record's.
pub(super) async fn note(
    hub: &Hub,
    replay: &Replay,
    by: &str,
    action: &'static str,
    subject: String,
) -> Result<(), RecordError> {
    let entry = Entry {
        unix_ms: hub.clock.unix_ms(),
        caller: by.to_owned(),
        action,
        subject,
        lasts_ms: None,
        force: false,
        reason: replay.reason.clone(),
        ticket: replay.ticket.clone(),
        author: replay.author.clone(),
    };
    hub.change(|_, _| ((), vec![entry.clone()])).await
}

/// For an order whose row the audit trail does not take, before anything was sent.
pub(super) fn unnoted(error: &RecordError) -> Refusal {
    let message = format!("nothing was sent, because the audit trail does not take the order: {error}");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", message)
}

/// Ends a replay whose jobs have all come to their end: in the audit trail, and then in its row. A kill in between makes a second row there, and
/// loses none. Returns whether it has ended.
///
/// Errors: it goes on from the record.
pub(super) async fn finish(hub: &Hub, replay: &Replay, version: u64) -> Result<bool, RecordError> {
    let counts = hub.record.replay_counts(&replay.id).await?;
    let is_left = |step: &str| [ReplayStep::Waiting, ReplayStep::Sending].iter().any(|it| it.as_str() == step);
    if counts.iter().any(|(step, _, _)| is_left(step)) {
        return Ok(false);
    }
    let (action, result) = if replay.is_bulk {
        let each = counts.iter().map(|(step, why, count)| match why {
            Some(why) => format!("{count} {step} {why}"),
            None => format!("{count} {step}"),
        });
        let each: Vec<String> = each.collect();
        ("replay_ended", format!("replay {}: {}", replay.id, each.join(", ")))
    } else {
        ("job_replay_ended", result_of_one(hub, replay).await?)
    };
    let noted = noted(hub, replay).await?;
    let suffix = noted.as_ref().map(NotedManifest::suffix).unwrap_or_default();
    note(hub, replay, &replay.caller, action, format!("{result}{suffix}")).await?;
    let ended_ms = Some(hub.clock.unix_ms());
    let manifest = noted.map(|it| it.root);
    let ended = Replay { ended_ms, counts, trouble: None, runner: None, manifest, ..replay.clone() };
    let kept = hub.record.change_replay(ended.saved(version)).await?;
    if kept == Kept::Kept {
        event::hub_replay_ended(&replay.id, &result);
    }
    Ok(kept == Kept::Kept)
}

async fn result_of_one(hub: &Hub, replay: &Replay) -> Result<String, RecordError> {
    let jobs = hub.record.replay_jobs(&replay.id, &ReplayStep::ALL, 0, 1).await?;
    let Some(job) = jobs.into_iter().next() else { return Ok(format!("replay {}", replay.id)) };
    let [region, new_id, why] = [job.region, job.new_id, job.why].map(Option::unwrap_or_default);
    Ok(format!("job {} in {region} as {new_id}: {} {why}", job.job_id, job.step).trim_end().to_owned())
}
