//! Questions of operators about replays.

use serde_json::{Value, json};

use super::super::record::ReplayStep;
use super::super::response::Refusal;
use super::super::state::Hub;
use super::document::{Replay, find, shown_job};
use crate::ojs::query_text;

/// Replays in one answer.
const REPLAYS_MAX: usize = 100;
/// Jobs in one answer.
const JOBS_MAX: usize = 1_000;

/// The last replays, the last one first; of a query `cursor=C` those behind a place.
///
/// Errors: 400 for another query.
pub(in crate::hub) async fn list(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let first = (i64::MAX.unsigned_abs(), String::new());
    let before = match query.strip_prefix("cursor=").map(query_text) {
        None if query.is_empty() => first,
        cursor => {
            let place = cursor.as_deref().and_then(|text| text.split_once('.'));
            let place = place.and_then(|(ms, id)| Some((ms.parse::<u64>().ok()?, id.to_owned())));
            place.filter(|(ms, _)| i64::try_from(*ms).is_ok()).ok_or_else(|| {
                Refusal::bad_request("`cursor`: expected `next_cursor` of an answer, and no other parameter".to_owned())
            })?
        }
    };
    let mut found = hub.record.replays_before(before, REPLAYS_MAX + 1).await?;
    let more = found.len() > REPLAYS_MAX;
    found.truncate(REPLAYS_MAX);
    let next = found.last().filter(|_| more).map(|it| format!("{}.{}", it.began_ms, it.id));
    let (mut replays, mut later) = (Vec::new(), Vec::new());
    for saved in found {
        // One of a later version of the program is named at least.
        let Ok(replay) = serde_json::from_str::<Replay>(&saved.document) else {
            later.push(saved.id);
            continue;
        };
        let counts = if replay.is_open() { hub.record.replay_counts(&replay.id).await? } else { replay.counts.clone() };
        replays.push(replay.shown(&counts));
    }
    Ok(json!({ "replays": replays, "later": later, "next_cursor": next }))
}

/// One replay with its jobs, in the order of the replay: of a query `step=S` those at a step, `cursor=C` from a place on.
///
/// Errors: 400 for another query, 404 where there is no such replay.
pub(in crate::hub) async fn show(hub: &Hub, id: &str, query: &str) -> Result<Value, Refusal> {
    let (_, replay) = find(hub, id).await?;
    let (mut steps, mut from): (&'static [ReplayStep], u64) = (&ReplayStep::ALL, 0);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
        match name {
            "step" => {
                let place = ReplayStep::ALL.iter().position(|step| step.as_str() == value);
                let place = place.ok_or_else(|| wrong(&ReplayStep::ALL.map(ReplayStep::as_str).join(", ")))?;
                steps = &ReplayStep::ALL[place..=place];
            }
            "cursor" => {
                let place = value.parse::<u64>().ok().filter(|it| i64::try_from(*it).is_ok());
                from = place.ok_or_else(|| wrong("`next_cursor` of an answer"))?;
            }
            _ => return Err(wrong("`step` and `cursor` only")),
        }
    }
    let counts = hub.record.replay_counts(id).await?;
    let mut jobs = hub.record.replay_jobs(id, steps, from, JOBS_MAX + 1).await?;
    let next = jobs.get(JOBS_MAX).map(|it| it.place.to_string());
    jobs.truncate(JOBS_MAX);
    let rows: Vec<Value> = jobs.iter().map(shown_job).collect();
    Ok(json!({ "replay": replay.shown(&counts), "jobs": rows, "next_cursor": next }))
}
