//! The record of an enqueue while it is tried: its regions, the end of each try, and the end of the call.

use super::job::Job;
use super::known::RETRY_AFTER;
use super::{Names, identity, key_end, rules};
use crate::journal::{Hold, ID_BYTES_MAX};
use crate::ojs::ErrorDocument;
use crate::ojs::answer::job_id_of;
use crate::outcome::{Copy, Event, Lost, Place, Told};
use crate::policy::{Answer, Ending, RegionIndex};
use crate::proxy::{
    body::shown_job::is_shown,
    call::attempt::Tried,
    state::{Proxy, RegionAnswer},
};

impl Job {
    /// The job in a region, under its present id; without an id where that id cannot be looked up.
    fn place_in(&self, proxy: &Proxy, index: RegionIndex) -> Place {
        let job_id = self.job_id.as_deref().filter(|id| id.len() <= ID_BYTES_MAX).unwrap_or("");
        Place { region: proxy.region(index).id.clone(), job_id: job_id.to_owned() }
    }
}

/// The job goes to a region: where it may be repeated, or has been elsewhere, that is durable before anything is sent.
///
/// Errors: 503 where it may be repeated and that is not durable, with `journal.required`.
pub(crate) async fn sending(proxy: &Proxy, job: &mut Job, index: RegionIndex) -> Result<(), ErrorDocument> {
    if job.trail.hold.is_none() {
        return Ok(());
    }
    let (place, stamp, is_named) = (job.place_in(proxy, index), job.trail.stamp(), job.trail.is_named());
    let Some(hold) = &mut job.trail.hold else { return Ok(()) };
    hold.apply(Event::Sending(place, stamp));
    if let Some(taken) = &mut job.trail.spooled {
        // Its row is its record.
        return match taken.record(&hold.placement().copies).await {
            true => Ok(()),
            false => Err(not_recorded(hold)),
        };
    }
    let is_kept = hold.save_durably().await;
    let in_memory = proxy.shared.journal.is_in_memory();
    job.trail.volatile |= is_named && (!is_kept || (in_memory && hold.placement().identity.key.is_some()));
    if is_kept || !is_named || !proxy.shared.config.journal.required {
        return Ok(());
    }
    forget_last(hold);
    Err(ErrorDocument::journal_unavailable())
}

/// Nothing is sent of a spooled job whose send is not on disk.
#[cold]
fn not_recorded(hold: &mut Hold) -> ErrorDocument {
    forget_last(hold);
    ErrorDocument::spool_busy("not_recorded", RETRY_AFTER)
}

fn forget_last(hold: &mut Hold) {
    if let Some(last) = hold.placement().copies.len().checked_sub(1) {
        hold.apply(Event::NotStored(last));
    }
}

/// A 2xx that does not show the job is an answer of a balancer or to another call, and proves nothing.
pub(crate) fn believe(job: &Job, tried: &mut Tried) {
    let is_doubtful = tried.is_stored()
        && tried.answer.as_ref().is_some_and(|answer| !is_shown(job.trail.expected, answer, job.job_id.as_deref()));
    if is_doubtful {
        tried.ending = Ending::Answered(Answer::Unknown);
    }
}

/// A try has ended with an answer, or with nothing sent.
pub(crate) fn tried(job: &mut Job, tried: &Tried) {
    let Some(hold) = &mut job.trail.hold else { return };
    let Some(last) = hold.placement().copies.len().checked_sub(1) else { return };
    match tried.ending {
        Ending::Answered(_) if tried.is_stored() => hold.apply(Event::Stored(last)),
        ending if ending.outcome() == crate::policy::Outcome::Unknown => {}
        _ => hold.apply(Event::NotStored(last)),
    }
}

/// Records that the answer of a try is lost: the copy and its place in the placement. `None` for a job that cannot be
/// looked up, because it has no id.
pub(super) fn lost(proxy: &Proxy, job: &mut Job, index: RegionIndex, lost: Lost) -> Option<(usize, Copy)> {
    let place = job.place_in(proxy, index);
    let stamp = job.trail.stamp();
    if job.trail.hold.is_none() {
        let headers = job.call.headers.all();
        let names = Names { own_id: job.job_id.as_deref().filter(|_| !job.trail.minted()), key: None };
        let identity = identity(proxy, &headers, names, &job.trail.received.pieces(&job.call.body));
        let mut hold = proxy.shared.journal.begin(identity, rules(&proxy.shared.config));
        hold.apply(Event::Sending(place, stamp));
        job.trail.hold = Some(Box::new(hold));
    }
    let hold = job.trail.hold.as_mut()?;
    let last = hold.placement().copies.len().checked_sub(1)?;
    hold.apply(Event::Lost(last, lost));
    let copy = hold.placement().copies.get(last)?.clone();
    Some((last, copy)).filter(|(_, copy)| !copy.place.job_id.is_empty())
}

/// Ends the call with this answer, unless a place is left that may hold the job. Such a place is durable before the
/// client's answer is sent.
pub(crate) async fn ended(
    proxy: &Proxy,
    job: &mut Job,
    index: Option<RegionIndex>,
    result: Result<RegionAnswer, ErrorDocument>,
) -> Result<RegionAnswer, ErrorDocument> {
    let Some(mut hold) = job.trail.hold.take().map(|hold| *hold) else { return result };
    if let Some(taken) = &mut job.trail.spooled {
        taken.copies.clone_from(&hold.placement().copies);
        if result.as_ref().is_ok_and(|answer| answer.status.is_success()) {
            // A repetition is recognised by the journal once the row is removed.
            hold.keep_end();
        }
    }
    match &result {
        Ok(answer) if answer.status.is_success() => {
            let shown = job_id_of(&answer.body).filter(|id| id.len() <= ID_BYTES_MAX);
            // A region has answered, so that there is one; without an id the place says where to look.
            if let Some(index) = index {
                let here = job.place_in(proxy, index);
                let place = Place { job_id: shown.unwrap_or(here.job_id), ..here };
                let told = Told::Stored { place, status: answer.status.as_u16() };
                if hold.placement().key_claim.is_some() {
                    key_end::settle(proxy, &mut hold, &told).await;
                }
                if job.trail.spooled.is_some() {
                    hold.end_durably(told).await;
                } else {
                    hold.end(told);
                }
            }
            return result;
        }
        Err(document) if document.is_outcome_unknown() => {
            hold.end_durably(Told::Unknown).await;
            return result;
        }
        _ => {}
    }
    let doubt = hold.placement().doubt().map(|Place { region, job_id }| {
        ErrorDocument::outcome_unknown(region.as_str(), Some(job_id.as_str()).filter(|id| !id.is_empty()))
    });
    match doubt {
        Some(document) => {
            hold.end_durably(Told::Unknown).await;
            Err(document)
        }
        None if hold.placement().has_traces() => {
            job.trail.left.clone_from(&hold.placement().copies);
            hold.end_durably(Told::Refused).await;
            result
        }
        None => {
            if hold.placement().key_claim.is_some() {
                key_end::settle(proxy, &mut hold, &Told::Refused).await;
            }
            hold.end(Told::Refused);
            result
        }
    }
}
