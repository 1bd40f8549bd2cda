//! One lease: a job that a region has given to a worker for a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::record::ID_BYTES_MAX;
use crate::base::RegionId;
use crate::outcome::Moment;

/// A moment as servers write it has thirty bytes or so.
const MOMENT_BYTES_MAX: usize = 64;
/// The longest lease that is remembered, for any longer one that a worker asks for.
const VISIBILITY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long servers lease a job whose FETCH does not say. Spec: ojs-protocol 2.4.
const VISIBILITY_UNSAID: Duration = Duration::from_secs(30);
/// Of a lease, this part is taken off: the region began to count before its answer was here, and an acknowledgement takes time.
const MARGIN_PARTS: u32 = 10;

/// A job that a region has leased to a worker of this sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its number, in the order of recording; 0 until it is recorded.
    pub number: u64,
    /// The job.
    pub job_id: String,
    /// The region that has leased it.
    pub region: RegionId,
    /// The worker, as the answer to the FETCH shows it.
    pub worker_id: Option<String>,
    /// When the attempt began, as the answer to the FETCH shows it.
    pub started_at: Option<String>,
    /// For how long the job is leased, and again with each heartbeat.
    pub visibility: Duration,
    /// Until when the lease holds without a question; none for one that an earlier run has brought, or that its worker has given back.
    pub until: Option<Instant>,
    /// When it ends.
    pub ends: Moment,
    /// The place that it takes; none where there are no pools of workers, and from when its job was given back.
    pub place: Option<LeasePlace>,
}

/// The place of a lease among those of a pool of workers, and among the jobs of a queue of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasePlace {
    /// The pool; none for a worker of no pool.
    pub pool: Option<Arc<str>>,
    /// The queue as the configuration writes it; none for one that it does not have.
    pub queue: Option<Arc<str>>,
    /// The key of the quota that counts the job among the active ones; none where none does. No pool has such a name: it has a tabulator.
    pub slot: Option<Arc<str>>,
}

impl LeasePlace {
    /// Whether it is one of a pool of workers, of workers of none, or of a queue of the configuration.
    pub(super) const fn is_of_pools(&self) -> bool {
        self.pool.is_some() || self.queue.is_some()
    }
}

impl Lease {
    /// Whether its texts are within the bounds of a record.
    pub(super) fn fits(&self) -> bool {
        let within = |text: &Option<String>, max: usize| text.as_ref().is_none_or(|text| text.len() <= max);
        (1..=ID_BYTES_MAX).contains(&self.job_id.len())
            && within(&self.worker_id, ID_BYTES_MAX)
            && within(&self.started_at, MOMENT_BYTES_MAX)
    }

    /// Whether no other worker can have the job at this moment.
    #[must_use]
    pub fn holds(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// When it began, or was extended last.
    pub(super) fn began(&self) -> Moment {
        Moment(self.ends.0.saturating_sub(u64::try_from(self.visibility.as_millis()).unwrap_or(u64::MAX)))
    }

    pub(super) fn begin(&mut self, now: Instant, at: Moment) {
        self.prolong(at);
        self.until = Some(now + (self.visibility - self.visibility / MARGIN_PARTS));
    }

    /// Its region has extended it; whether it is still that of its worker is another question.
    pub(super) fn prolong(&mut self, at: Moment) {
        self.visibility = self.visibility.min(VISIBILITY_MAX);
        // A worker whose client writes 0 for "unsaid" takes a place like any other.
        let is_unsaid = self.place.is_some() && self.visibility.is_zero();
        self.ends = at.after(if is_unsaid { VISIBILITY_UNSAID } else { self.visibility });
    }
}
