//! Places in pools of workers, which FETCH calls take before they ask a region.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::Journal;
use super::lease::LeasePlace;
use super::places::{SetAside, TakenPlaces};

/// Places of a pool that are set aside for the jobs of one FETCH. Dropped, it gives back those that no job took.
#[derive(Debug)]
pub struct AskedPlaces {
    pool: Arc<str>,
    left: u64,
    before: u64,
    /// All that are set aside in the pool, these among them.
    all: Arc<AtomicU64>,
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

    /// Gives back those beyond so many.
    pub fn keep(&mut self, most: u64) {
        let over = self.left.saturating_sub(most);
        self.left -= over;
        self.all.fetch_sub(over, Relaxed);
    }

    /// So many jobs have come, and their leases are recorded in the `journal` that was asked for the places. Returns how many jobs the workers of the pool hold now.
    pub fn came(&mut self, journal: &Journal, jobs: u64) -> u64 {
        let taken = jobs.min(self.left);
        self.left -= taken;
        let at = journal.now();
        let mut leases = journal.inner.leases.lock();
        self.all.fetch_sub(taken, Relaxed);
        leases.places.of(&self.pool, at).held
    }
}

impl Drop for AskedPlaces {
    fn drop(&mut self) {
        // No other count changes with it, so that it needs no lock.
        self.all.fetch_sub(self.left, Relaxed);
    }
}

impl Journal {
    /// Sets places of a pool aside for a FETCH that wants so many jobs: as many as are left of `bound` beside the jobs that its workers hold, by their leases, and
    /// those that other FETCHes are about to bring. `now`: by the clock of the journal.
    #[must_use]
    pub fn ask_places(&self, pool: &Arc<str>, wanted: u64, now: Instant, bound: impl FnOnce() -> u64) -> AskedPlaces {
        let at = self.inner.time.at(now);
        let mut leases = self.inner.leases.lock();
        let SetAside { count, before, all } = leases.places.ask(pool, wanted, bound(), at);
        AskedPlaces { pool: Arc::clone(pool), left: count, before: before.held + before.asked, all }
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
