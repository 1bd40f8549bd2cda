//! Where an enqueue has been: regions that it has left although nobody can swear that it is not there, or will not be.
//!
//! What is left behind is in the journal before the job is sent on, and the background leaves it alone until the call is over.

use http::HeaderValue;
use tokio::time::Instant;

use super::Proxy;
use super::enqueue::Job;
use crate::policy::RegionIndex;
use crate::store::{Hold, Place, Unknown};

/// Where an enqueue has been.
#[derive(Debug)]
pub(super) struct Trail {
    /// Until when the whole call may take.
    pub(super) until: Instant,
    /// The job's tracking id.
    pub(super) federation_id: Option<HeaderValue>,
    /// Whether it was sent to the same region twice.
    pub(super) sent_again: bool,
    /// Whether it was sent on while nobody knew whether a region had it.
    pub(super) gone_on_unknown: bool,
    left: Vec<Hold>,
}

impl Trail {
    /// An enqueue that has been nowhere yet.
    pub(super) const fn new(until: Instant, federation_id: Option<HeaderValue>) -> Self {
        Self { until, federation_id, sent_again: false, gone_on_unknown: false, left: Vec::new() }
    }

    /// The job leaves a region for another place, which [`sending`] will name.
    pub(super) fn leave(&mut self, proxy: &Proxy, unknown: Unknown) {
        // Without an id nobody could tell the copies apart.
        if unknown.job_id.is_some() {
            self.left.push(proxy.shared.store.hold_unknown(unknown));
        }
    }
}

/// The job goes to a region: what it has left behind says so, durably, before anything is sent.
pub(super) async fn sending(proxy: &Proxy, job: &Job, index: RegionIndex) {
    for hold in &job.trail.left {
        let place = Place { region: proxy.region(index).id.clone(), job_id: job.job_id.clone().unwrap_or_default() };
        hold.change_durably(|unknown| unknown.elsewhere = Some(place)).await;
    }
}

/// The call is over; `may_be_stored` says whether the last region has the job or may have it.
pub(super) fn ended(job: &mut Job, may_be_stored: bool) {
    for hold in job.trail.left.drain(..) {
        if !may_be_stored {
            hold.change(|unknown| unknown.elsewhere = None);
        }
    }
}
