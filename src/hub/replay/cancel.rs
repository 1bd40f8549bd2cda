//! An order to cancel one job in the region that has it. Spec: source-job-orchestrator §4.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::super::access::Caller;
use super::super::audit::Entry;
use super::super::copies::note_ended;
use super::super::ledger;
use super::super::record::RecordError;
use super::super::replay_desk::CancelResult;
use super::super::response::{OUTCOME_UNKNOWN, Refusal};
use super::super::state::Hub;
use super::super::target::Word;
use super::super::views::Views;
use super::ending::unnoted;
use super::order::read_grounds;
use super::owner::{find, picked, reached};
use crate::base::RegionId;
use crate::base::text::{read_rfc3339, rfc3339};
use crate::ojs::answer::error_code;
use crate::ojs::{MOMENTS, moments};
use crate::region::JobQuestion;
use crate::switch::Grounds;
use crate::telemetry::event;

/// The state of a job that was cancelled, in the words of OJS.
const CANCELLED: &str = "cancelled";
/// Those of a job that has ended otherwise, and that no order cancels any more.
const ENDED: [&str; 2] = ["completed", "discarded"];

/// Cancels a job: the call goes to the region that has it, and to no other one. Shape of the answer: `{"job": {"id", "region", "state", and the
/// times that the region shows}, "durable"}`.
///
/// Errors: 400 for a member; 404 and 409 where no region, or several have the job; 409 and 404 where its region refuses; 503 where a region does not
/// answer, in which case nothing was sent unless the code is `outcome_unknown`.
pub(super) async fn cancel(
    hub: &Hub,
    caller: &Caller,
    job_id: &str,
    query: &str,
    body: &[u8],
) -> Result<Value, Refusal> {
    let views = reached(hub)?;
    let picked = picked(views, query)?;
    let grounds = read_grounds(caller, body)?;
    let owner = find(hub, views, job_id, picked.as_ref()).await?.map_err(|none| none.refusal())?;
    let region = owner.region;
    let subject = format!("job {job_id} in {region}");
    note(hub, caller, &grounds, "job_cancel_ordered", subject.clone()).await.map_err(|error| unnoted(&error))?;
    let (result, shown) = carry_out(hub, views, &region, job_id).await;
    let word = match &result {
        Ok(_) => CancelResult::Cancelled,
        Err(Failed::Refused(..) | Failed::Before(_)) => CancelResult::Refused,
        Err(Failed::Unknown(_)) => CancelResult::Unknown,
    };
    hub.replays.note_cancelled(word);
    let Grounds { reason, ticket, author } = &grounds;
    event::hub_job_cancelled(job_id, region.as_str(), word.as_str(), [reason, ticket, author]);
    let shown_as = result.as_ref().map_or(word.as_str(), |state| if state.is_empty() { word.as_str() } else { state });
    let noted = note(hub, caller, &grounds, "job_cancel_ended", format!("{subject}: {shown_as}")).await;
    let is_cancelled = matches!(&result, Ok(state) if state == CANCELLED) || matches!(result, Err(Failed::Before(_)));
    // Also what an earlier order has done, whose hub was killed behind it.
    let kept = if is_cancelled { keep(hub, &region, job_id).await } else { Ok(()) };
    let state = result.map_err(|failed| failed.refusal(&region))?;
    kept.map_err(|error| {
        let message =
            format!("the job was cancelled, and index and ledger do not have that yet ({error}): send the order again");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", message)
    })?;
    noted.map_err(|error| {
        let message = format!("the job was cancelled, and the audit trail lacks the row that says so: {error}");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", message)
    })?;
    let mut job = Map::new();
    job.extend(
        [("id", json!(job_id)), ("region", json!(region)), ("state", json!(state))].map(|(k, v)| (k.to_owned(), v)),
    );
    for (name, at) in MOMENTS.into_iter().zip(moments(&shown)) {
        if let Some(unix_ms) = at.as_deref().and_then(read_rfc3339) {
            job.insert(name.to_owned(), json!(rfc3339(unix_ms)));
        }
    }
    Ok(json!({ "job": job, "durable": hub.record.is_durable() }))
}

/// Keeps that a job is cancelled, in the index of its region and in the ledger.
///
/// Errors: the record's; the order can be repeated.
async fn keep(hub: &Hub, region: &RegionId, job_id: &str) -> Result<(), RecordError> {
    if hub.index.as_ref().is_some_and(|index| index.settings.region == *region) {
        // The index of another region's jobs is that of its own hub.
        note_ended(hub, region, (job_id, None), Some(CANCELLED)).await?;
    }
    ledger::cancelled(hub, region, job_id).await
}

/// Why a job was not cancelled.
enum Failed {
    /// It was cancelled before; more about it.
    Before(String),
    /// Its region refuses, with this status; more about it.
    Refused(StatusCode, String),
    /// Its region does not say; why.
    Unknown(String),
}

impl Failed {
    fn refusal(self, region: &RegionId) -> Refusal {
        match self {
            Self::Refused(StatusCode::NOT_FOUND, _) => {
                let message = format!("{region} does not have this job any more; nothing was cancelled");
                Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
            }
            Self::Refused(_, why) | Self::Before(why) => {
                let message = format!("{region} does not cancel this job: {why}");
                Refusal::new(StatusCode::CONFLICT, "cancel_refused", message)
            }
            Self::Unknown(why) => {
                let message = format!(
                    "the job may have been cancelled ({why}); send the order again, which changes nothing where it was"
                );
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, OUTCOME_UNKNOWN, message)
            }
        }
    }
}

/// Sends the order, and returns the state of the job after it with the answer that shows it.
async fn carry_out(
    hub: &Hub,
    views: &Views,
    region: &RegionId,
    job_id: &str,
) -> (Result<String, Failed>, bytes::Bytes) {
    let regions = &hub.replays.regions;
    let (word, answer) = regions.ask_whole(views, region, job_id, &JobQuestion::Cancel).await;
    let sent: Result<String, Option<(StatusCode, String)>> = match word {
        Word::Has { state, .. } if state == CANCELLED => return (Ok(state), answer),
        Word::Has { state, .. } if ENDED.contains(&state.as_str()) => {
            let why = format!("it takes the order, and the job is {state} there");
            return (Err(Failed::Refused(StatusCode::CONFLICT, why)), answer);
        }
        // It shows the job as it was before, or without a state.
        Word::Has { .. } => Err(None),
        Word::Absent => return (Err(Failed::Refused(StatusCode::NOT_FOUND, String::new())), answer),
        Word::Refused(status) => Err(Some((status, error_code(&answer).unwrap_or_default()))),
        Word::NotSent(why) => return (Err(Failed::Unknown(why)), answer),
        Word::Other(_) | Word::Silent(_) => Err(None),
    };
    // A lost answer may have been that of a cancellation, and a refusal has the state of the job as its cause.
    let (word, shown) = regions.ask_whole(views, region, job_id, &JobQuestion::Look).await;
    let failed = match (sent, word) {
        (Err(None), Word::Has { state, .. }) if state == CANCELLED => return (Ok(state), shown),
        (Err(None), Word::Has { state, .. }) if ENDED.contains(&state.as_str()) => {
            Failed::Refused(StatusCode::CONFLICT, format!("the job is {state} there"))
        }
        (Err(None), Word::Has { state, .. }) if !state.is_empty() => {
            Failed::Unknown(format!("{region} shows it as {state}"))
        }
        (Err(Some((status, code))), Word::Has { state, .. }) if state == CANCELLED => {
            Failed::Before(format!("it answers {} {code}, and the job is {state} there", status.as_u16()))
        }
        (Err(Some((status, code))), Word::Has { state, .. }) => {
            Failed::Refused(status, format!("it answers {} {code}, and the job is {state} there", status.as_u16()))
        }
        (Err(Some((status, code))), _) => Failed::Refused(status, format!("it answers {} {code}", status.as_u16())),
        (_, Word::NotSent(why) | Word::Silent(why)) => Failed::Unknown(why),
        (_, _) => Failed::Unknown(format!("{region} has not answered the order")),
    };
    (Err(failed), shown)
}

async fn note(
    hub: &Hub,
    caller: &Caller,
    grounds: &Grounds,
    action: &'static str,
    subject: String,
) -> Result<(), RecordError> {
    let Grounds { reason, ticket, author } = grounds.clone();
    let (unix_ms, caller) = (hub.clock.unix_ms(), caller.name.clone());
    let entry = Entry { unix_ms, caller, action, subject, lasts_ms: None, force: false, reason, ticket, author };
    hub.change(|_, _| ((), vec![entry.clone()])).await
}
