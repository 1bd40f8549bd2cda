//! The places of one pool of workers in the fleet: how many this sidecar asks its hub for, and when.
//!
//! A worker that asks an empty queue needs no place but for that moment. So a need is a job that is held, or a FETCH that found too few
//! places, until a region has had no jobs for the places that were there; then the next such FETCH counts after a pause only.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::grant::PoolPlaces;
use crate::config::LimitWithoutHub;
use crate::journal::Journal;
use crate::policy::PoolGrant;

/// Before the next request where the hub has granted fewer places than are needed: others give theirs back as they ask.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// FETCHes that find no place are a need for so many further jobs, or for as many as are held: the need doubles with each request.
const LACKING_MIN: u64 = 2;
/// After places were in vain, FETCHes that lack some are no need for so long; at first, and at most.
const QUIET: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// The places of one pool at this sidecar.
#[derive(Debug)]
pub struct Pooled {
    name: Arc<str>,
    on_hub_loss: LimitWithoutHub,
    /// The most jobs that this sidecar may hold, whatever the hub grants.
    most: u64,
    longest_lease: Duration,
    grant: Arc<PoolGrant>,
    journal: Arc<Journal>,
    needs: Cell<u64>,
    /// The needs and the places in the last request.
    said: Cell<(u64, u64)>,
    /// FETCHes that lack places are no need until then, and for how long such a pause lasts.
    quiet: Cell<(Option<Instant>, Duration)>,
}

impl Pooled {
    /// A pool without a grant. `most`: the jobs that this sidecar may hold, whatever the hub grants.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        (on_hub_loss, most, longest_lease): (LimitWithoutHub, u64, Duration),
        grant: Arc<PoolGrant>,
        journal: Arc<Journal>,
    ) -> Self {
        let (needs, said, quiet) = Default::default();
        Self { name, on_hub_loss, most, longest_lease, grant, journal, needs, said, quiet }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes the FETCHes since the last look. Returns whether the hub is to be asked at once: places are lacking, or some are left over.
    pub(super) fn look(&self, now: Instant) -> bool {
        let (seen, grant) = (self.grant.seen(), self.grant.grant());
        let taken = self.journal.with_places(&self.name, |taken| taken);
        let held = seen.most.max(taken.held);
        let (quiet_until, quiet) = self.quiet.get();
        if seen.came > 0 {
            self.quiet.set((None, Duration::ZERO));
        } else if seen.has_emptied {
            let quiet = (quiet * 2).clamp(QUIET.0, QUIET.1);
            self.quiet.set((Some(now + quiet), quiet));
        }
        let lacks = seen.lacked > 0 && !seen.has_emptied && quiet_until.is_none_or(|until| until <= now);
        let before = if seen.has_emptied { 0 } else { self.needs.get() };
        let lacking = if lacks { seen.lacked.min(held.max(LACKING_MIN)) } else { 0 };
        self.needs.set(before.max(held.saturating_add(lacking)).min(self.most.max(held)));
        let (said_needs, said_places) = self.said.get();
        let places = grant.calls(now).max(taken.held + taken.asked);
        let is_over = places < said_places || (seen.has_emptied && self.needs.get() < said_needs.min(places));
        lacks || is_over || (grant.is_ending() && !grant.is_given_back())
    }

    /// The next request. From now on no FETCH takes more places than it says.
    pub(super) fn ask(&self, now: Instant) -> PoolPlaces {
        let grant = self.grant.grant();
        // No FETCH takes a place between the lowered grant and the count.
        let (granted, holds, last_ms) = self.journal.with_places(&self.name, |taken| {
            let granted = grant.lower(u64::MAX, now);
            (granted, granted.max(taken.held + taken.asked), taken.last_ms)
        });
        let needs = if grant.is_ending() { 0 } else { self.needs.get() };
        // One for the next FETCH of workers that find no jobs now, where others leave it.
        let spare = u64::from(self.grant.take_asked() && !grant.is_ending());
        self.said.set((needs, holds));
        PoolPlaces {
            pool: self.name.to_string(),
            sequence: grant.next_sequence(),
            holds,
            granted,
            needs,
            wants: needs.max(spare),
            longest_lease_ms: u64::try_from(self.longest_lease.as_millis()).unwrap_or(u64::MAX).max(last_ms),
        }
    }

    /// Puts a grant in force. Returns how long to wait at most before the next request; none leaves it to the hub.
    pub(super) fn take(&self, places: u64, ends: Instant) -> Option<Duration> {
        let grant = self.grant.grant();
        grant.take(places, ends);
        if grant.is_ending() {
            // Jobs that are still held count until their leases end.
            grant.note_given_back();
        }
        let needs = self.needs.get();
        if places < needs {
            return Some(SHORT_WAIT);
        }
        // A quarter less each time, so that a short pause gives nothing back.
        self.needs.set(needs - needs.div_ceil(4));
        None
    }

    /// A later request has reached the hub.
    pub(super) fn set_sequence(&self, sequence: u64) {
        self.grant.grant().set_sequence(sequence);
    }

    /// No hub can be reached: ends a grant that may not be used without one.
    pub(super) fn hub_lost(&self, now: Instant) {
        if self.on_hub_loss == LimitWithoutHub::Refuse {
            self.grant.grant().lower(0, now);
        }
    }
}
