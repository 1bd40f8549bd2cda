//! Places in pools of workers, which FETCH calls take before they ask a region.

use std::sync::Arc;

use super::Journal;
use super::lease::LeasePlace;

/// Places of a pool that are set aside for the jobs of one FETCH. Dropped, it gives back those that no job took.
#[derive(Debug)]
pub struct AskedPlaces {
    journal: Arc<Journal>,
    pool: Arc<str>,
    left: u64,
}

impl AskedPlaces {
    /// How many no job took yet.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// So many jobs have come, and their leases are recorded.
    pub fn came(&mut self, jobs: u64) {
        let taken = jobs.min(self.left);
        self.left -= taken;
        self.journal.inner.leases.lock().places.give_back(&self.pool, taken);
    }
}

impl Drop for AskedPlaces {
    fn drop(&mut self) {
        self.came(self.left);
    }
}

impl Journal {
    /// Sets places of a pool aside for a FETCH that wants so many jobs: as many as are left of `bound` beside the jobs that its workers hold, by their leases, and
    /// those that other FETCHes are about to bring.
    #[must_use]
    pub fn ask_places(self: &Arc<Self>, pool: &Arc<str>, wanted: u64, bound: u64) -> AskedPlaces {
        let at = self.now();
        let left = self.inner.leases.lock().places.ask(pool, wanted, bound, at);
        AskedPlaces { journal: Arc::clone(self), pool: Arc::clone(pool), left }
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
