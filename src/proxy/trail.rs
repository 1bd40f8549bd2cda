//! Where an enqueue has been: regions that it has left although nobody can swear that it is not there, or will not be.
//!
//! What is left behind is in the journal before the job is sent on, and the background leaves it alone until the call is over.
//! Where the job is going is one thing, and that it is stored there another, which only the region's answer tells.

use bytes::Bytes;
use http::HeaderValue;
use tokio::time::Instant;

use super::Proxy;
use super::attempt::RegionAnswer;
use super::enqueue::Job;
use crate::ojs::ErrorDocument;
use crate::ojs::answer::job_id_of;
use crate::policy::RegionIndex;
use crate::store::{Digest, Hold, Place, State, Unknown};

/// Where an enqueue has been.
#[derive(Debug)]
pub(super) struct Trail {
    /// Until when the whole call may take.
    pub(super) until: Instant,
    /// The job's tracking id.
    pub(super) federation_id: Option<HeaderValue>,
    /// What the client sent.
    pub(super) received: Bytes,
    /// Whether the job's id is ours.
    pub(super) minted: bool,
    /// The fingerprint of the key that the job is remembered by, too.
    pub(super) key: Option<Digest>,
    /// Whether it was sent to the same region twice.
    pub(super) sent_again: bool,
    /// Where it was sent on from while nobody knew whether it was there.
    pub(super) gone_on_unknown: Option<Place>,
    /// What it has left behind, in this call or in an earlier one of the same name.
    pub(super) left: Vec<Hold>,
    /// A try whose job was proved absent, and whose place it has not left: it may go there again under the id that it has.
    pub(super) proved: Option<Box<Unknown>>,
    /// The id that it had where it was first left behind.
    pub(super) left_id: Option<String>,
}

impl Trail {
    /// An enqueue that has been nowhere yet.
    pub(super) const fn new(until: Instant, federation_id: Option<HeaderValue>) -> Self {
        Self {
            until,
            federation_id,
            received: Bytes::new(),
            minted: false,
            key: None,
            sent_again: false,
            gone_on_unknown: None,
            left: Vec::new(),
            proved: None,
            left_id: None,
        }
    }

    /// The job leaves a region for another place, which [`sending`] will name.
    pub(super) fn leave(&mut self, proxy: &Proxy, unknown: Unknown) {
        // Without an id nobody could tell the copies apart.
        if unknown.job_id.is_some() {
            self.left_id = self.left_id.take().or_else(|| unknown.job_id.clone());
            self.left.push(proxy.shared.store.hold_unknown(unknown));
        }
    }
}

/// The job goes to a region: what it has left behind says so, durably, before anything is sent.
pub(super) async fn sending(proxy: &Proxy, job: &mut Job, index: RegionIndex) {
    if let Some(unknown) = job.trail.proved.take_if(|it| it.region != proxy.region(index).id) {
        job.trail.leave(proxy, *unknown);
    }
    for hold in &job.trail.left {
        let place = Place { region: proxy.region(index).id.clone(), job_id: job.job_id.clone().unwrap_or_default() };
        // Back to where an earlier call was, under the same id, it goes nowhere else.
        hold.change_durably(|unknown| unknown.going = Some(place).filter(|it| unknown.sent_to().as_ref() != Some(it)))
            .await;
    }
}

/// The call is over. Where it ended with a refusal after a try that was proved absent, a write that comes later than anybody expects
/// would be a job that its client was told is not there: that is watched, and in the journal before the client hears of the refusal.
pub(super) async fn refused(proxy: &Proxy, job: &mut Job, result: &Result<RegionAnswer, ErrorDocument>) {
    if let (Some(unknown), End::Other) = (job.trail.proved.take(), End::of(job, result)) {
        if job.trail.minted {
            job.trail.left_id = job.trail.left_id.take().or_else(|| unknown.job_id.clone());
        }
        proxy.shared.store.record_unknown(*unknown).await;
    }
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

/// The call is over, and what it has left behind says how. Returns the place that decides the client's answer where that is not the
/// last region's: nobody knows whether the job is there, and no region has said that it stored it.
pub(super) fn ended(proxy: &Proxy, job: &mut Job, result: &Result<RegionAnswer, ErrorDocument>) -> Option<Place> {
    // Hardly ever anything else, and then the answer need not be read.
    if job.trail.left.is_empty() && job.trail.gone_on_unknown.is_none() {
        return None;
    }
    let end = End::of(job, result);
    for hold in job.trail.left.drain(..) {
        match end {
            End::Stored => hold.change(|unknown| match unknown.going.take() {
                Some(place) => unknown.elsewhere = Some(place),
                // In the same place under the same id: what is there from now on is this one.
                None => unknown.resolve(State::Absent, proxy.shared.registry.clock().unix_ms()),
            }),
            End::Unknown => {}
            End::Other => hold.change(|unknown| unknown.going = None),
        }
    }
    let is_stored = result.as_ref().is_ok_and(|answer| answer.status.is_success());
    job.trail.gone_on_unknown.take().filter(|_| !is_stored && !matches!(end, End::Unknown))
}
