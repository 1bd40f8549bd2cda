//! Where an enqueue has been: regions that it has left although nobody can swear that it is not there, or will not be.
//!
//! What is left behind is in the journal before the job is sent on, and the background leaves it alone until the call is over.
//! Where the job is going is one thing, and that it is stored there another, which only the region's answer tells.

use bytes::Bytes;
use http::HeaderValue;
use tokio::time::Instant;

use super::Proxy;
use super::attempt::RegionAnswer;
use super::job::Job;
use super::received::Received;
use crate::base::RegionId;
use crate::journal::{Digest, Hold, Place, State, Unknown};
use crate::ojs::ErrorDocument;
use crate::ojs::answer::job_id_of;
use crate::policy::RegionIndex;

/// Where an enqueue has been.
#[derive(Debug)]
pub(super) struct Trail {
    /// Until when the whole call may take.
    pub(super) until: Instant,
    /// The job's tracking id.
    pub(super) federation_id: Option<HeaderValue>,
    /// What the client sent.
    pub(super) received: Received,
    /// Whether the job's id is ours.
    pub(super) minted: bool,
    /// The fingerprint of the key that the job is remembered by, too.
    pub(super) key: Option<Digest>,
    /// Whether it was sent to the same region twice.
    pub(super) sent_again: bool,
    /// Where it was sent on from while nobody knew whether it was there.
    pub(super) gone_on_unknown: Option<Place>,
    /// What it has left behind.
    pub(super) left: Vec<Hold>,
    /// What earlier calls of the same name have left, and is only watched.
    pub(super) watched: Vec<Watched>,
    /// A try whose job was proved absent, and whose place it has not left: it may go there again under the id that it has.
    pub(super) proved: Option<Box<Unknown>>,
}

/// What an earlier call of the same name has left where it was proved absent, and may still come late.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) hold: Hold,
    pub(super) place: Place,
    /// Whether it is the job that is sent now; else another one under its id.
    pub(super) same_body: bool,
}

impl Trail {
    /// An enqueue that has been nowhere yet.
    pub(super) const fn new(until: Instant, federation_id: Option<HeaderValue>) -> Self {
        Self {
            until,
            federation_id,
            received: Received::Held(Bytes::new(), Vec::new()),
            minted: false,
            key: None,
            sent_again: false,
            gone_on_unknown: None,
            left: Vec::new(),
            watched: Vec::new(),
            proved: None,
        }
    }

    /// The job leaves a region for another place, which [`sending`] will name.
    pub(super) fn leave(&mut self, proxy: &Proxy, unknown: Unknown) {
        // Without an id nobody could tell the copies apart.
        if unknown.job_id.is_some() {
            self.left.push(proxy.shared.journal.hold_unknown(unknown));
        }
    }

    /// The key will lead to this id: whatever else it has led to is found by it, durably.
    pub(super) async fn rename(&self, job_id: Option<&str>) {
        for hold in self.left.iter().chain(self.watched.iter().map(|it| &it.hold)) {
            rename(hold, job_id).await;
        }
    }
}

/// What is held will be looked for by this id, too.
pub(super) async fn rename(hold: &Hold, job_id: Option<&str>) {
    hold.change_durably(|it| it.known_as = job_id.map(str::to_owned).filter(|id| it.job_id.as_ref() != Some(id))).await;
}

/// The job goes to a region: what it has left behind says so, durably, before anything is sent.
pub(super) async fn sending(proxy: &Proxy, job: &mut Job, index: RegionIndex) {
    if let Some(unknown) = job.trail.proved.take_if(|it| it.region != proxy.region(index).id) {
        job.trail.leave(proxy, *unknown);
    }
    for hold in &job.trail.left {
        let place = Place { region: proxy.region(index).id.clone(), job_id: job.job_id.clone().unwrap_or_default() };
        hold.change_durably(|unknown| unknown.going = Some(place)).await;
    }
}

/// The call is over. Where it ended with a refusal after a try that was proved absent, a write that comes later than anybody expects
/// would be a job that its client was told is not there: that is watched, and in the journal before the client hears of the refusal.
pub(super) async fn refused(proxy: &Proxy, job: &Job, result: &Result<RegionAnswer, ErrorDocument>) {
    if let (Some(unknown), End::Other) = (&job.trail.proved, End::of(job, result)) {
        proxy.shared.journal.record_unknown(Unknown::clone(unknown)).await;
    }
}

/// Whether a job under an id of ours may still be stored where the call, or an earlier one with its key, has been.
pub(super) fn may_come_late(job: &Job) -> bool {
    let Trail { left, watched, proved, minted, .. } = &job.trail;
    !left.is_empty() || (*minted && (proved.is_some() || !watched.is_empty()))
}

/// How a call ended.
enum End {
    /// A region has said that it stored this very job.
    Stored,
    /// Nobody knows.
    Unknown,
    /// Refused, or answered with another job.
    Other,
}

impl End {
    fn of(job: &Job, result: &Result<RegionAnswer, ErrorDocument>) -> Self {
        match result {
            // A unique policy may have answered with another job, which is none of ours.
            Ok(answer) if answer.status.is_success() => match job_id_of(&answer.body) {
                Some(id) if Some(&id) != job.job_id.as_ref() => Self::Other,
                _ => Self::Stored,
            },
            Err(document) if document.reason() == "outcome_unknown" => Self::Unknown,
            _ => Self::Other,
        }
    }
}

/// The call is over, in a region if it came to one, and what was left behind says how. Returns the place that decides the client's answer
/// where that is not the last region's: nobody knows whether the job is there, and no region has said that it stored it.
pub(super) fn ended(
    proxy: &Proxy,
    job: &mut Job,
    result: &Result<RegionAnswer, ErrorDocument>,
    region: Option<&RegionId>,
) -> Option<Place> {
    let Trail { left, watched, gone_on_unknown, proved, .. } = &job.trail;
    // Hardly ever anything else, and then the answer need not be read.
    if left.is_empty() && watched.is_empty() && gone_on_unknown.is_none() {
        return None;
    }
    let end = End::of(job, result);
    let last_is_absent = proved.is_some();
    for hold in job.trail.left.drain(..) {
        match end {
            End::Stored => hold.change(|unknown| unknown.elsewhere = unknown.going.take()),
            End::Unknown if !last_is_absent => {}
            End::Unknown | End::Other => hold.change(|unknown| unknown.going = None),
        }
    }
    let place = region.zip(job.job_id.as_ref());
    let place = place.map(|(region, job_id)| Place { region: region.clone(), job_id: job_id.clone() });
    for Watched { hold, place: first, same_body } in job.trail.watched.drain(..) {
        let is_here = place.as_ref() == Some(&first);
        match end {
            // What is there under its id from now on is this one, or may be.
            End::Stored | End::Unknown if is_here => {
                hold.change(|it| it.resolve(State::Absent, proxy.shared.registry.clock().unix_ms()));
            }
            // The new row watches the place for both.
            End::Other if is_here && same_body && last_is_absent => {
                hold.change(|it| it.resolve(State::Absent, proxy.shared.registry.clock().unix_ms()));
            }
            End::Stored if same_body => hold.change(|it| it.elsewhere.clone_from(&place)),
            End::Unknown if same_body && !last_is_absent => hold.change(|it| it.going.clone_from(&place)),
            End::Stored | End::Unknown | End::Other => {}
        }
    }
    let is_stored = result.as_ref().is_ok_and(|answer| answer.status.is_success());
    job.trail.gone_on_unknown.take().filter(|_| !is_stored && !matches!(end, End::Unknown))
}
