//! Each job for itself: one answer with a line for every job, in any case.

use http::{Response, StatusCode};

use super::deliver::send_all;
use super::merge::{illegible, respond};
use super::plan::Attempted;
use super::region_part::RegionPart;
use crate::ojs::ErrorDocument;
use crate::ojs::batch::answer::{self, Line};
use crate::proxy::{
    call::{call_notes::CallNotes, exchange::Exchange, head::Head},
    state::{Proxy, Ran, Reply},
};
use crate::telemetry::AttemptOutcome;

/// Sends the parts whose regions can take them, and answers for all of them.
///
/// Errors: where no job is stored and none may be, the document of the first region that could not take its part.
pub(super) async fn send(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    parts: Vec<Attempted>,
    notes: &mut CallNotes,
) -> Result<Response<Reply>, ErrorDocument> {
    let (mut parcels, mut refused) = (Vec::new(), Vec::new());
    for part in parts {
        match part.parcel {
            Ok(parcel) => parcels.push(parcel),
            Err(document) => refused.push((part.members, document)),
        }
    }
    let all = send_all(proxy, exchange, head, &parcels, notes).await;
    // Documents of ours for whole parts; they outlive the lines.
    let own: Vec<Option<ErrorDocument>> =
        parcels.iter().zip(&all).map(|(parcel, ran)| document_of(proxy, parcel, ran)).collect();
    for (ran, _) in all.iter().zip(&own).filter(|(_, own)| own.as_ref().is_some_and(ErrorDocument::is_outcome_unknown))
    {
        illegible(proxy, exchange, ran);
    }
    let mut lines: Vec<(usize, Line<'_>)> = Vec::new();
    for (members, document) in &refused {
        lines.extend(members.iter().map(|&member| (member, Line::Failed(document))));
    }
    for ((parcel, ran), own) in parcels.iter().zip(&all).zip(&own) {
        let items = ran.result.as_ref().ok().and_then(|answer| answer::items(&answer.body, parcel.jobs.len()));
        match (items, own) {
            (_, Some(document)) => {
                lines.extend(parcel.members.iter().map(|&member| (member, Line::Failed(document))));
            }
            (Some(items), None) => {
                lines.extend(parcel.members.iter().copied().zip(items.into_iter().map(Line::Region)));
            }
            (None, None) => {}
        }
    }
    lines.sort_by_key(|(member, _)| *member);
    let lines: Vec<Line<'_>> = lines.into_iter().map(|(_, line)| line).collect();
    let stored = lines.iter().filter(|line| line.is_stored()).count();
    let unknown = own.iter().flatten().any(ErrorDocument::is_outcome_unknown);
    let nothing_sent = all.iter().all(|ran| matches!(ran.outcome, None | Some(AttemptOutcome::NotSent)));
    let first = refused.first().map(|(_, document)| document).or(own.iter().flatten().next());
    if let Some(document) = first.filter(|_| nothing_sent) {
        return Err(document.clone());
    }
    let status = match stored {
        stored if stored == lines.len() => StatusCode::CREATED,
        0 if !unknown => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::MULTI_STATUS,
    };
    Ok(respond(proxy, exchange, status, answer::bulk(&lines)))
}

/// The document for every job of a part, where the region does not list them one by one.
fn document_of(proxy: &Proxy, parcel: &RegionPart, ran: &Ran) -> Option<ErrorDocument> {
    let region = ran.region.as_ref().map_or("", |region| region.as_str());
    match &ran.result {
        Err(document) => Some(document.clone()),
        Ok(answer) if answer::items(&answer.body, parcel.jobs.len()).is_some() => None,
        // The region says that it has stored the jobs, and its answer does not show which.
        Ok(answer) if answer.status.is_success() => Some(ErrorDocument::outcome_unknown(region, None)),
        Ok(answer) => Some(ErrorDocument::part_refused(region, answer.status)),
    }
    .map(|document| match parcel.region() {
        Some(index) => document.with_region(proxy.region(index).id.as_str()),
        None => document,
    })
}
