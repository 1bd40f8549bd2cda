//! Changes of leases by FETCH calls, acknowledgements and heartbeats.

use std::time::Duration;

use super::Journal;
use super::change::Work;
use super::lease::Lease;
use super::leases::Leases;
use crate::base::RegionId;
use crate::outcome::Moment;

impl Journal {
    /// Remembers the jobs that a region has leased to a worker, from now on. Leases with texts beyond the bounds are
    /// left out.
    pub fn leased(&self, leases: impl Iterator<Item = Lease>) {
        let (now, at) = (self.inner.clock.now(), self.now());
        self.with_leases(|all| {
            for mut lease in leases.filter(Lease::fits) {
                lease.begin(now, at);
                all.put(lease, false);
            }
        });
    }

    /// The last lease of a job that came through this sidecar.
    #[must_use]
    pub fn lease_of(&self, job_id: &str) -> Option<Lease> {
        self.inner.leases.lock().find(job_id).cloned()
    }

    /// The region that has leased a job last, as far as that came through this sidecar.
    #[must_use]
    pub fn leased_in(&self, job_id: &str) -> Option<RegionId> {
        self.inner.leases.lock().find(job_id).map(|lease| lease.region.clone())
    }

    /// Extends leases, for so long or for as long as before. An expired lease stays expired: the region may have
    /// extended the lease of another worker.
    pub fn extend_leases<'i>(
        &self,
        region: &RegionId,
        job_ids: impl Iterator<Item = &'i str>,
        visibility: Option<Duration>,
    ) {
        let moment = (self.inner.clock.now(), self.now());
        self.with_leases(|all| all.extend(region, job_ids, visibility, moment));
    }

    /// The region has taken an acknowledgement of this lease. A job that is `finished` is never leased again; of another one a later
    /// acknowledgement may come when the next worker has it.
    pub fn end_lease(&self, number: u64, finished: bool) {
        self.with_leases(|all| {
            if finished {
                all.remove(number);
            } else {
                all.end(number);
            }
        });
    }

    pub(super) fn prune_leases(&self, now: Moment) {
        self.with_leases(|all| all.prune(now));
    }

    /// Changes the leases, and announces once that there is something to write.
    pub(super) fn with_leases(&self, change: impl FnOnce(&mut Leases)) {
        let mut all = self.inner.leases.lock();
        change(&mut all);
        if all.is_to_announce()
            && let Some(work) = &self.work
        {
            // A full queue is no loss: the next change announces it.
            all.set_announced(work.try_send(Work::WAKE).is_ok());
        }
    }
}
