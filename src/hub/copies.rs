//! The present state of one job in the region of this hub, for the hubs of other regions: facts can be missing, such as the end of a job that
//! a client without a sidecar has cancelled, and a copy elsewhere must not be cancelled for the sake of a job that never runs.
//!
//! An answer has the state and the times of the job and nothing else, so that it may be asked about a job that is bound to this region.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::jobs::present;
use super::record::{RecordError, Wanted};
use super::response::Refusal;
use super::state::Hub;
use super::target::Word;
use crate::base::RegionId;
use crate::ojs::query_text;
use crate::replica::{Change, ChangeKind, Life, Record};

/// An answer to another hub. Shape: JSON.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShownCopy {
    /// The state, in the words of OJS; none where the region or the index does not have the job, or this hub cannot ask its region.
    pub(super) state: Option<String>,
    /// Whether a worker has it or has had it.
    #[serde(default)]
    pub(super) is_started: bool,
    /// When it was enqueued, by its region. Units: milliseconds since the Unix epoch.
    #[serde(default)]
    pub(super) enqueued_ms: Option<u64>,
}

impl ShownCopy {
    /// Its life, by the word of its region.
    pub(super) fn life(&self) -> Option<Life> {
        self.state.as_deref().map(|state| Life::of(state, self.is_started))
    }
}

/// The state of the job of a query `job_id=ID` in this region; one that has ended unseen is noted in the index.
///
/// Errors: 400 for another query; 503 where the region does not answer.
pub(super) async fn show(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let own = &present(hub)?.settings.region;
    let job_id = query.strip_prefix("job_id=").filter(|id| !id.is_empty() && !id.contains('&')).map(query_text);
    let job_id = job_id.ok_or_else(|| Refusal::bad_request("expected the query `job_id=ID`".to_owned()))?;
    let found = hub.record.find_changes(Wanted::Job(job_id.clone())).await?;
    let copies = Record::of(found.into_iter().map(|it| it.change)).copies;
    let copy = copies.into_iter().find(|it| it.region == *own && it.replicated_from.is_none());
    let (Some(copy), Some(views)) = (copy, &hub.views) else { return Ok(json!(ShownCopy::default())) };
    match hub.copies_in.look(views, own, &job_id).await {
        Word::Has { state, enqueued_ms, is_started } if !state.is_empty() => {
            let shown = ShownCopy { state: Some(state), is_started: is_started || copy.is_started, enqueued_ms };
            if shown.life() == Some(Life::EndedUnrun) && copy.life() != Life::EndedUnrun {
                note_ended(hub, own, (&job_id, copy.federation_id.as_deref()), shown.state.as_deref()).await?;
            }
            Ok(json!(shown))
        }
        Word::Absent => Ok(json!(ShownCopy::default())),
        _ => {
            let message = format!("the region {own} does not say whether it has this job: ask again");
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "region_unavailable", message))
        }
    }
}

/// Notes in the index that a job of this region has ended before any worker had it, by the word of the region.
///
/// Errors: [`RecordError`]; a second time changes nothing.
pub(super) async fn note_ended(
    hub: &Hub,
    region: &RegionId,
    (job_id, federation_id): (&str, Option<&str>),
    state: Option<&str>,
) -> Result<(), RecordError> {
    let change = Change {
        job_id: job_id.to_owned(),
        region: region.clone(),
        kind: ChangeKind::Cancelled,
        lease_ms: 0,
        at_ms: hub.clock.unix_ms(),
        federation_id: federation_id.map(str::to_owned),
        state: state.map(str::to_owned),
        replicated_from: None,
        job: None,
        observed_by: None,
    };
    hub.record.save_changes(region.as_str(), vec![change], None).await
}
