//! The places of a pool with a bound that the jobs of a FETCH take.
//!
//! Spec: fair-scheduling 6.1.

use tokio::time::Instant;

use super::round::Round;
use crate::policy::Pool;

impl Round<'_, '_> {
    /// Sets places of the worker's pool aside for the missing jobs. Returns whether regions may be asked: the pool has no bound, or a place is left.
    pub(super) fn take_places(&mut self) -> bool {
        let bounded = self.pool.and_then(|pool| Some((pool, pool.concurrency()?)));
        let Some((pool, most)) = bounded else { return true };
        let missing = self.missing().unwrap_or_default() as u64;
        let now = self.now;
        let places = self.proxy.shared.journal.ask_places(pool.name(), missing, now, || pool.bound(now));
        let is_left = places.left() > 0;
        // Where its workers hold no job, the fleet has its places, or the hub was not asked yet.
        if !is_left && missing > 0 && places.before() > 0 {
            self.proxy.shared.tally.lock().waits.turned_away(pool.name(), now);
        }
        if let Some(grant) = pool.grant() {
            grant.asked(missing.min(most.saturating_sub(places.before())) - places.left());
            // Behind the end of a grant the hub gives its places to others: no region is asked beyond it.
            if let Some(ends) = grant.grant().ends(now) {
                self.head.deadline = self.head.deadline.min(Instant::now() + ends.saturating_duration_since(now));
            }
        }
        self.places = Some(places);
        is_left
    }

    /// The regions were asked: places that are left had no jobs.
    pub(super) fn note_left_places(&self) {
        let is_left = self.places.as_ref().is_some_and(|places| places.left() > 0);
        if let Some(grant) = self.pool.and_then(Pool::grant).filter(|_| is_left && self.base.is_some()) {
            grant.emptied();
        }
    }
}
