//! The index of jobs: it takes the facts that sidecars report, answers look-ups, and shows other hubs the facts of its own region.
//!
//! Only facts that sidecars have reported here are shown to other hubs, and none about a job that was replicated itself, so that nothing is
//! replicated twice. Spec: federation-spec §5.1, §6.3; RFC-0001 §5, §8.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access::Caller;
use super::index::Index;
use super::isolations;
use super::ledger;
use super::record::{Conflicts, INDEX_ROWS_MAX, IndexPlace, IndexedChange, RecordError, Wanted};
use super::response::Refusal;
use super::sidecar_request::read as read_request;
use super::state::Hub;
use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::fleet::{ChangesRequest, JOB_NOT_INDEXED};
use crate::ojs::query_text;
use crate::replica::{Change, Copy, Record, Standing, TEXT_BYTES_MAX, is_text};
use crate::switch::Isolation;

/// For facts to be durable; shorter than the sidecar's wait for the answer.
const SAVE_WAIT: Duration = Duration::from_secs(4);
/// For a place among the requests that the record has.
const PLACE_WAIT: Duration = Duration::from_secs(1);
/// Facts in one answer to another hub. A fact has some 300 bytes and at most [`crate::replica::CHANGE_BYTES_MAX`].
pub(super) const SHOWN_MAX: usize = 1_000;
/// Tracking ids of one job whose conflicts are shown: its copies have one, unless clients give them several.
const CONFLICT_IDS_MAX: usize = 4;

/// An answer to another hub. Shape: JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Shown {
    /// The region of this hub.
    pub(super) region: RegionId,
    /// The name of its record.
    pub(super) epoch: String,
    /// Its time. Units: milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// Facts behind the asked place, in order.
    pub(super) changes: Vec<Change>,
    /// The place of the last one of them, or of the last one that was left out; none where there is none.
    pub(super) end: Option<(u64, u64)>,
    /// Whether there are more behind it.
    pub(super) more: bool,
    /// When this hub learnt the first fact in the answer. Units: milliseconds since the Unix epoch.
    pub(super) oldest_ms: Option<u64>,
    /// The isolations that were set at this hub; none from a hub of a version that has no isolations.
    #[serde(default)]
    pub(super) isolations: Option<Vec<Isolation>>,
}

/// Keeps the facts of a sidecar; they are durable when this returns.
///
/// Errors: the sidecar sends them again.
pub(super) async fn take(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<(), Refusal> {
    let request: ChangesRequest = read_request(hub, caller, body)?;
    let index = present(hub)?;
    let place = tokio::time::timeout(PLACE_WAIT, hub.change_places.acquire()).await;
    let _place = place.ok().and_then(Result::ok).ok_or(RecordError::Busy)?;
    let save = async {
        ledger::take(hub, &request.sidecar, &request.changes).await?;
        let changes = request.changes.into_iter().map(|it| it.change).collect();
        hub.record.save_changes(index.settings.region.as_str(), joined(changes), None).await
    };
    Ok(tokio::time::timeout(SAVE_WAIT, save).await.map_err(|_| RecordError::Slow)??)
}

/// Each fact once.
pub(super) fn joined(changes: Vec<Change>) -> Vec<Change> {
    let mut all: BTreeMap<_, Change> = BTreeMap::new();
    for it in changes {
        let name = (it.job_id.clone(), it.region.clone(), it.kind, it.lease_ms);
        let fact = match all.remove(&name) {
            Some(known) => known.joined(it),
            None => it,
        };
        all.insert(name, fact);
    }
    all.into_values().collect()
}

/// The record of one tracking id, or of the job of a query `job_id=ID`. Spec: RFC-0001 §5.
///
/// Errors: 404 where the index has no such job.
pub(super) async fn look_up(hub: &Hub, federation_id: Option<&str>, query: &str) -> Result<Value, Refusal> {
    let index = present(hub)?;
    let wanted = match (federation_id, query.strip_prefix("job_id=")) {
        (Some(id), _) if query.is_empty() => Wanted::Federation(query_text(id)),
        (None, Some(id)) if !id.contains('&') => Wanted::Job(query_text(id)),
        _ => {
            let message = "expected /v1/federation/jobs/FEDERATION_ID, or the query `job_id=ID`, or one that begins with `region=REGION`";
            return Err(Refusal::bad_request(message.to_owned()));
        }
    };
    let (Wanted::Federation(id) | Wanted::Job(id)) = &wanted;
    if !is_text(id) {
        let message = format!("expected an id of 1 to {TEXT_BYTES_MAX} bytes without control characters");
        return Err(Refusal::bad_request(message));
    }
    let found = hub.record.find_changes(wanted).await?;
    if found.is_empty() {
        let message =
            "the index has no such job: no sidecar has reported it and no event has shown it, or its time is over"
                .to_owned();
        return Err(Refusal::new(StatusCode::NOT_FOUND, JOB_NOT_INDEXED, message));
    }
    let is_whole = found.len() < INDEX_ROWS_MAX;
    let record = Record::of(found.into_iter().map(|it| it.change));
    let mut shown = record.shown(&index.settings.region);
    note_bytes(hub, &mut shown).await?;
    note_conflicts(hub, &record, is_whole, &mut shown).await?;
    Ok(shown)
}

/// Adds to each copy of a record whether this hub has its bytes.
async fn note_bytes(hub: &Hub, shown: &mut Value) -> Result<(), RecordError> {
    let copies = shown["copies"].as_array_mut().into_iter().flatten();
    let mut copies: Vec<&mut Value> = copies.collect();
    let text = |copy: &Value, member: &str| copy[member].as_str().unwrap_or_default().to_owned();
    let names = copies.iter().map(|copy| (text(copy, "job_id"), text(copy, "region"))).collect();
    let is_kept = hub.index.as_ref().is_some_and(|index| index.bodies.is_some());
    let having = if is_kept { hub.record.having_bodies(names).await? } else { Vec::new() };
    for copy in &mut copies {
        let is_here = having.contains(&(text(copy, "job_id"), text(copy, "region")));
        copy["bytes_here"] = Value::Bool(is_here);
    }
    Ok(())
}

/// Adds to each copy of a record whether it counts, and the result of this hub about one of its own region. `is_whole`: whether the record has
/// all facts, so that no copy is missing.
async fn note_conflicts(hub: &Hub, record: &Record, is_whole: bool, shown: &mut Value) -> Result<(), Refusal> {
    let here = &present(hub)?.settings.region;
    let ids: BTreeSet<&str> = record.copies.iter().filter_map(|it| it.federation_id.as_deref()).collect();
    let mut known = Vec::new();
    for id in ids.into_iter().take(CONFLICT_IDS_MAX) {
        known.push((id, hub.record.conflicts_of(id).await?));
    }
    let copies = shown["copies"].as_array_mut().into_iter().flatten();
    for ((copy, standing), shown) in record.copies.iter().zip(record.standings()).zip(copies) {
        shown["counts"] = match standing {
            _ if !is_whole => Value::Null,
            Standing::Untold => Value::Null,
            standing => Value::Bool(standing == Standing::Counts),
        };
        let of_id = known.iter().find(|(id, _)| copy.federation_id.as_deref() == Some(*id)).map(|(_, it)| it);
        shown["conflict"] = conflict(copy, standing, of_id.filter(|_| copy.region == *here));
    }
    Ok(())
}

/// The conflict of a copy of this hub's region: its result or step, or that it is open; null where there is none.
fn conflict(copy: &Copy, standing: Standing<'_>, known: Option<&Conflicts>) -> Value {
    let Some(known) = known else { return Value::Null };
    let may_lose = standing == Standing::Untold || standing.winner().is_some();
    let own = known.copies.iter().find(|it| it.job_id == copy.job_id && it.region == copy.region.as_str());
    let of_group = known.copies.iter().find(|it| may_lose && it.is_of_group());
    if let Some(it) = own.or(of_group) {
        let winner = it.winner.as_ref().map(|(region, job_id)| json!({ "region": region, "job_id": job_id }));
        return json!({ "result": it.step.as_str(), "why": it.why, "at": rfc3339(it.changed_ms), "winner": winner });
    }
    let result = if known.is_queued { Some("open") } else { known.is_crowd.then_some("reported") };
    let why = known.is_crowd.then_some("group");
    result
        .filter(|_| may_lose)
        .map_or(Value::Null, |it| json!({ "result": it, "why": why, "at": null, "winner": null }))
}

/// The facts of this region behind the place of a query `epoch=E&written=W&mark=M`, and the isolations that were set here, for another hub.
///
/// Errors: 400 for another query.
pub(super) async fn show(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let index = present(hub)?;
    let asked = place(query)?;
    // An isolation that another hub of this record has just set must not seem to have ended.
    hub.refresh_in_time().await?;
    let isolations = Some(isolations::own(hub));
    let epoch = hub.record.index_epoch().await?;
    // A place in another record says nothing about this one.
    let after = if asked.epoch == epoch { asked } else { IndexPlace { epoch: epoch.clone(), ..IndexPlace::default() } };
    let region = index.settings.region.as_str();
    let mut found = hub.record.changes_behind(region, after, SHOWN_MAX + 1).await?;
    let more = found.len() > SHOWN_MAX;
    found.truncate(SHOWN_MAX);
    let (now_ms, oldest_ms) = (hub.clock.unix_ms(), found.iter().map(|it| it.learned_ms).min());
    let end = found.last().map(|it| (it.written, it.mark));
    let shown = |it: IndexedChange| (!it.is_replica).then(|| index.shown(it.change));
    let changes = found.into_iter().filter_map(shown).collect();
    let shown =
        Shown { region: index.settings.region.clone(), epoch, now_ms, changes, end, more, oldest_ms, isolations };
    Ok(serde_json::json!(shown))
}

/// The place of a query `epoch=E&written=W&mark=M`.
///
/// Errors: 400 for another query.
pub(super) fn place(query: &str) -> Result<IndexPlace, Refusal> {
    let mut place = IndexPlace::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = value.parse::<u64>().ok().filter(|number| i64::try_from(*number).is_ok());
        match (name, number) {
            ("epoch", _) => place.epoch = query_text(value),
            ("written", Some(number)) => place.written = number,
            ("mark", Some(number)) => place.mark = number,
            _ => {
                let message = format!("`{name}`: expected `epoch`, `written` and `mark`, the last two as numbers");
                return Err(Refusal::bad_request(message));
            }
        }
    }
    Ok(place)
}

/// The index.
///
/// Errors: 404 where this hub has none.
pub(super) fn present(hub: &Hub) -> Result<&Index, Refusal> {
    hub.index.as_ref().ok_or_else(|| {
        let message = "this hub keeps no index of jobs: set `index` in its configuration".to_owned();
        Refusal::new(StatusCode::NOT_FOUND, "no_index", message)
    })
}
