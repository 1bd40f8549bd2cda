//! All parts or none: created jobs are cancelled when another part fails, and the answer has the fate of every job.
//!
//! A part with an unknown outcome cancels nothing by itself: it may be stored, and then the batch is whole.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::deliver::{own_headers, send_all};
use super::merge::{Came, came, illegible, merged};
use super::region_part::{RegionPart, Sent};
use super::undo::{Doomed, Undone, undo};
use crate::ojs::ErrorDocument;
use crate::ojs::error::Fates;
use crate::policy::RegionIndex;
use crate::proxy::{
    call::{call_notes::CallNotes, exchange::Exchange, head::Head},
    state::{Proxy, Reply},
};

/// Cancelling gets at least this long, also at the end of a call's time: SDKs wait 5 s longer than the usual call.
const UNDO_MIN: Duration = Duration::from_secs(4);

/// Sends all parts and merges the answers.
///
/// Errors: the error document with the fate of each job.
pub(super) async fn send(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    parcels: Vec<RegionPart>,
    keyed: bool,
    notes: &mut CallNotes,
) -> Result<Response<Reply>, ErrorDocument> {
    let all = send_all(proxy, exchange, head, &parcels, notes).await;
    let came: Vec<Came<'_>> = parcels.iter().zip(&all).map(|(parcel, ran)| came(parcel, ran)).collect();
    if came.iter().all(|came| matches!(came, Came::Stored(_))) {
        let stored = came.into_iter().filter_map(|came| match came {
            Came::Stored(listing) => Some(listing),
            _ => None,
        });
        return Ok(merged(proxy, exchange, &parcels, stored.collect()));
    }
    let mut torn = Torn::default();
    for ((parcel, came), ran) in parcels.iter().zip(&came).zip(&all) {
        torn.note(parcel, came);
        if matches!(came, Came::Unknown) {
            illegible(proxy, exchange, ran);
        }
    }
    let failure = Failure::of(proxy, &parcels, &came);
    // Cancelling may take a while, and the answers have been read.
    drop(came);
    drop(all);
    if let Some(failure) = &failure {
        let deadline = head.deadline.max(Instant::now() + UNDO_MIN);
        let doomed = std::mem::take(&mut torn.doomed);
        for (job, undone) in undo(proxy, &own_headers(exchange, &head.headers), doomed, deadline).await {
            torn.undone(&job, &undone);
        }
        return Err(torn.document(proxy, &parcels, failure, keyed));
    }
    Err(torn.document(proxy, &parcels, &Failure::default(), keyed))
}

/// Why the batch failed.
struct Failure {
    status: StatusCode,
    retry_after: Option<u64>,
    cause: Map<String, Value>,
}

impl Default for Failure {
    fn default() -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, retry_after: None, cause: Map::new() }
    }
}

impl Failure {
    /// The failure that decides the class: one that no repetition mends, else the first. None where no part has failed for
    /// certain.
    fn of(proxy: &Proxy, parcels: &[RegionPart], came: &[Came<'_>]) -> Option<Self> {
        let failures = parcels.iter().zip(came).filter_map(|(parcel, came)| Self::of_part(proxy, parcel, came));
        let is_final =
            |failure: &Self| failure.status.is_client_error() && failure.status != StatusCode::TOO_MANY_REQUESTS;
        failures.reduce(|first, next| if !is_final(&first) && is_final(&next) { next } else { first })
    }

    fn of_part(proxy: &Proxy, parcel: &RegionPart, came: &Came<'_>) -> Option<Self> {
        let (status, retry_after, code) = match came {
            Came::Stored(_) | Came::Unknown => return None,
            Came::NotSent(document) => {
                (document.status, document.retry_after, Some(document.reason.as_str().to_owned()))
            }
            Came::Refused { status, code, .. } => (*status, None, code.clone()),
        };
        let mut cause = Map::new();
        if let Some(index) = parcel.region() {
            cause.insert("region".to_owned(), json!(proxy.region(index).id.as_str()));
        }
        cause.insert("status".to_owned(), json!(status.as_u16()));
        cause.insert("code".to_owned(), json!(code));
        Some(Self { status, retry_after, cause })
    }
}

/// The fates of the jobs of a failed batch.
#[derive(Default)]
struct Torn {
    created: BTreeSet<usize>,
    failed: BTreeSet<usize>,
    cancelled: BTreeSet<usize>,
    unknown: BTreeSet<usize>,
    doomed: Vec<Doomed>,
}

impl Torn {
    fn note(&mut self, parcel: &RegionPart, came: &Came<'_>) {
        let places = parcel.members.iter().zip(&parcel.jobs).enumerate();
        match came {
            Came::Unknown => self.unknown.extend(&parcel.members),
            Came::NotSent(_) => self.failed.extend(&parcel.members),
            Came::Stored(listing) => {
                for (place, (&member, sent)) in places {
                    self.stored(parcel.region(), member, sent, listing.id(place));
                }
            }
            Came::Refused { status, stored, .. } => {
                for (place, (&member, sent)) in places {
                    match stored.iter().find(|(stored, _)| *stored == place) {
                        Some((_, id)) => self.stored(parcel.region(), member, sent, id.as_deref()),
                        None => self.refused(parcel.region(), member, sent, *status),
                    }
                }
            }
        }
    }

    /// The region says that it stored this job. Only a job that the region cannot have had before is cancelled.
    fn stored(&mut self, region: Option<RegionIndex>, member: usize, sent: &Sent, id: Option<&str>) {
        self.created.insert(member);
        let is_ours = match (sent.id.as_deref(), id) {
            (Some(sent), Some(id)) => sent == id,
            (None, Some(_)) => !sent.unique,
            (_, None) => sent.minted,
        };
        let id = id.or(sent.id.as_deref()).filter(|_| is_ours);
        if let (Some(region), Some(id)) = (region, id) {
            self.doomed.push(Doomed { member, region, id: id.to_owned(), certain: true });
        }
    }

    /// The region refused the part. Some servers store jobs one by one and leave those before the one that failed.
    fn refused(&mut self, region: Option<RegionIndex>, member: usize, sent: &Sent, status: StatusCode) {
        self.failed.insert(member);
        let may_be_left = status == StatusCode::CONFLICT || status.is_server_error();
        let id = sent.id.as_deref().filter(|_| sent.minted && may_be_left);
        if let (Some(region), Some(id)) = (region, id) {
            self.doomed.push(Doomed { member, region, id: id.to_owned(), certain: false });
        }
    }

    fn undone(&mut self, job: &Doomed, undone: &Undone) {
        if job.may_be_there(undone) {
            self.created.remove(&job.member);
            self.failed.remove(&job.member);
            self.unknown.insert(job.member);
            return;
        }
        match (undone, job.certain) {
            (Undone::Cancelled, true) | (Undone::Absent, true) => {
                self.created.remove(&job.member);
                self.cancelled.insert(job.member);
            }
            (Undone::Cancelled, false) => {
                self.failed.remove(&job.member);
                self.cancelled.insert(job.member);
            }
            // As it was said before.
            (Undone::Absent, false) | (Undone::Not | Undone::Unknown, _) => {}
        }
    }

    fn document(&self, proxy: &Proxy, parcels: &[RegionPart], failure: &Failure, keyed: bool) -> ErrorDocument {
        let list = |members: &BTreeSet<usize>| members.iter().copied().collect();
        let fates = Fates {
            created: list(&self.created),
            failed: list(&self.failed),
            cancelled: list(&self.cancelled),
            unknown: list(&self.unknown),
        };
        let torn = !self.created.is_empty() || !self.unknown.is_empty();
        let mut document = if keyed && !torn && !self.cancelled.is_empty() {
            ErrorDocument::key_is_spent(&fates)
        } else {
            ErrorDocument::batch_failed(failure.status, torn, &fates)
        };
        if document.retry_after.is_some() {
            document.retry_after = document.retry_after.max(failure.retry_after);
        }
        if !failure.cause.is_empty() {
            document = document.with("cause", Value::Object(failure.cause.clone()));
        }
        document.with("jobs", self.to_look_up(proxy, parcels))
    }

    /// The jobs that are stored or may be, with the data for a look-up.
    fn to_look_up(&self, proxy: &Proxy, parcels: &[RegionPart]) -> Vec<Value> {
        let mut jobs: Vec<(usize, Value)> = Vec::new();
        for parcel in parcels {
            let region = parcel.region().map(|index| proxy.region(index).id.as_str());
            let left = |member: &usize| self.created.contains(member) || self.unknown.contains(member);
            let members = parcel.members.iter().zip(&parcel.jobs).filter(|(member, _)| left(member));
            jobs.extend(
                members.map(|(&index, sent)| (index, json!({ "index": index, "id": sent.id, "region": region }))),
            );
        }
        jobs.sort_by_key(|(index, _)| *index);
        jobs.into_iter().map(|(_, job)| job).collect()
    }
}
