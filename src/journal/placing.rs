//! Places in pools of workers, which FETCH calls take before they ask a region.

use std::sync::Arc;
use std::time::Duration;

use super::Journal;
use super::lease::LeasePlace;
use super::places::TakenPlaces;

/// Places of a pool that are set aside for the jobs of one FETCH. Dropped, it gives back those that no job took.
#[derive(Debug)]
pub struct AskedPlaces {
    journal: Arc<Journal>,
    pool: Arc<str>,
    left: u64,
    before: u64,
}

impl AskedPlaces {
    /// How many no job took yet.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// How many places of the pool were taken already.
    #[must_use]
    pub const fn before(&self) -> u64 {
        self.before
    }

    /// So many jobs have come, and their leases are recorded. Returns how many jobs the workers of the pool hold now.
    pub fn came(&mut self, jobs: u64) -> u64 {
        let taken = jobs.min(self.left);
        self.left -= taken;
        let at = self.journal.now();
        let mut leases = self.journal.inner.leases.lock();
        leases.places.give_back(&self.pool, taken);
        leases.places.of(&self.pool, at).held
    }
}

impl Drop for AskedPlaces {
    fn drop(&mut self) {
        if self.left > 0 {
            self.journal.inner.leases.lock().places.give_back(&self.pool, self.left);
        }
    }
}

impl Journal {
    /// Sets places of a pool aside for a FETCH that wants so many jobs: as many as are left of `bound` beside the jobs that its workers hold, by their leases, and
    /// those that other FETCHes are about to bring.
    #[must_use]
    pub fn ask_places(self: &Arc<Self>, pool: &Arc<str>, wanted: u64, bound: impl FnOnce() -> u64) -> AskedPlaces {
        let at = self.now();
        let mut leases = self.inner.leases.lock();
        let (left, before) = leases.places.ask(pool, wanted, bound(), at);
        AskedPlaces { journal: Arc::clone(self), pool: Arc::clone(pool), left, before: before.held + before.asked }
    }

    /// Hands the places of a pool that are taken now to `then`, before another FETCH takes one.
    pub fn with_places<T>(&self, pool: &Arc<str>, then: impl FnOnce(TakenPlaces) -> T) -> T {
        let at = self.now();
        let mut leases = self.inner.leases.lock();
        let taken = leases.places.of(pool, at);
        then(taken)
    }

    /// The pool with the place of a job, and how long the job is leased at a time; none where it has no place.
    #[must_use]
    pub fn pool_of(&self, job_id: &str) -> Option<(Arc<str>, Duration)> {
        let leases = self.inner.leases.lock();
        let lease = leases.find(job_id)?;
        Some((lease.place.as_ref()?.pool.clone()?, lease.visibility))
    }

    /// A job has ended otherwise than by its worker, which holds its place no longer.
    pub fn free_place(&self, job_id: &str) {
        self.with_leases(|all| {
            if let Some(number) = all.number_of(job_id) {
                all.free(number);
            }
        });
    }

    /// Calls `each` with each place that is taken now.
    pub fn taken_places(&self, each: impl FnMut(&LeasePlace)) {
        let at = self.now();
        self.inner.leases.lock().taken(at).for_each(each);
    }
}
