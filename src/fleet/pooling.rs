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

/// Before the next request where the hub has granted fewer places than are needed, as others give theirs back when they ask; and before one that only
/// gives places back.
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
    /// When the last request was made, and whether its answer granted less than is needed.
    asked: Cell<(Option<Instant>, bool)>,
    /// Whether the last request was made while the process ends.
    gives_back: Cell<bool>,
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
        let (needs, said, asked, quiet) = Default::default();
        Self {
            name,
            on_hub_loss,
            most,
            longest_lease,
            grant,
            journal,
            needs,
            said,
            asked,
            quiet,
            gives_back: Cell::new(false),
        }
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
        let (asked, is_short) = self.asked.get();
        let is_recent = asked.is_some_and(|asked| now < asked + SHORT_WAIT);
        (lacks && !(is_short && is_recent)) || (is_over && !is_recent) || (grant.is_ending() && !grant.is_given_back())
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
        self.asked.set((Some(now), false));
        self.gives_back.set(grant.is_ending());
        PoolPlaces {
            pool: self.name.to_string(),
            sequence: grant.next_sequence(),
            holds,
            granted,
            needs,
            wants: needs.max(spare),
            longest_lease_ms: u64::try_from(self.longest_lease.as_millis()).unwrap_or(u64::MAX).max(last_ms),
            held: None,
        }
    }

    /// Puts a grant in force. Returns how long to wait at most before the next request; none leaves it to the hub.
    pub(super) fn take(&self, places: u64, ends: Instant) -> Option<Duration> {
        let grant = self.grant.grant();
        if grant.is_ending() && !self.gives_back.get() {
            // The answer to a request from before the end.
            return Some(Duration::ZERO);
        }
        grant.take(places, ends);
        if grant.is_ending() {
            // Jobs that are still held count until their leases end.
            grant.note_given_back();
        }
        let needs = self.needs.get();
        if places < needs {
            self.asked.set((self.asked.get().0, true));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Clock, RegionId};
    use crate::journal::{Lease, LeasePlace};
    use crate::outcome::Moment;
    use crate::telemetry::Metrics;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A pool in which this sidecar may hold four jobs.
    fn pooled() -> Pooled {
        let config = crate::config::Journal { path: None, required: false, rows_max: 100 };
        let journal = Arc::new(Journal::open(&config, Clock::system(), Metrics::new(&[], &[])));
        Pooled::new("p".into(), (LimitWithoutHub::Refuse, 4, MINUTE), Arc::default(), journal)
    }

    impl Pooled {
        /// Holds so many further jobs, for so long.
        fn hold(&self, jobs: u64, visibility: Duration) {
            let lease = |_| Lease {
                number: 0,
                job_id: uuid::Uuid::new_v4().to_string(),
                region: RegionId::parse("a").unwrap(),
                worker_id: None,
                started_at: None,
                visibility,
                until: None,
                ends: Moment::default(),
                place: Some(LeasePlace { pool: Some(Arc::clone(&self.name)), queue: None, slot: None }),
            };
            self.journal.leased((0..jobs).map(lease));
            self.grant.came(jobs, self.journal.with_places(&self.name, |taken| taken.held));
        }

        /// The granted, the held and the needed places of the next request, and those that it would like.
        fn next(&self, now: Instant) -> [u64; 4] {
            let request = self.ask(now);
            [request.granted, request.holds, request.needs, request.wants]
        }
    }

    #[tokio::test]
    async fn needs_double_while_fetches_lack_places_and_end_where_places_were_in_vain() {
        let (pool, now) = (pooled(), Instant::now());
        assert!(!pool.look(now));
        assert_eq!(pool.next(now), [0, 0, 0, 0], "no worker has asked");
        pool.grant.asked(4);
        assert!(pool.look(now));
        assert_eq!(pool.next(now), [0, 0, 2, 2]);
        assert_eq!(pool.take(2, now + MINUTE), None);
        pool.hold(2, MINUTE / 2);
        pool.grant.asked(2);
        assert!(pool.look(now));
        assert_eq!(pool.next(now), [2, 2, 4, 4]);
        assert_eq!(pool.take(3, now + MINUTE), Some(SHORT_WAIT));
        pool.grant.asked(1);
        assert!(!pool.look(now), "the hub has no more now");
        pool.grant.asked(2);
        pool.grant.emptied();
        let later = now + SHORT_WAIT;
        assert!(pool.look(later), "two of the three places are needed");
        assert_eq!(pool.next(later), [3, 3, 2, 2]);
        pool.grant.asked(1);
        assert!(!pool.look(later), "a region had no jobs a moment ago");
        assert_eq!(pool.next(later), [3, 3, 2, 2]);
        pool.grant.asked(1);
        assert!(pool.look(later + QUIET.0));
    }

    #[tokio::test]
    async fn an_idle_sidecar_wants_one_place_for_its_workers_and_says_those_of_an_earlier_process() {
        let (pool, now) = (pooled(), Instant::now());
        pool.grant.asked(0);
        assert_eq!(pool.next(now), [0, 0, 0, 1]);
        assert_eq!(pool.take(1, now + MINUTE), None);
        pool.hold(3, 10 * MINUTE);
        pool.look(now);
        let request = pool.ask(now);
        assert_eq!((request.granted, request.holds, request.needs), (1, 3, 3));
        assert!((9 * 60_000..=600_000).contains(&request.longest_lease_ms), "{request:?}");
        pool.hub_lost(now);
        assert_eq!(pool.next(now)[..2], [0, 3]);
        assert_eq!(pool.ask(now + 2 * MINUTE).granted, 0, "the grant is over");
    }

    #[tokio::test]
    async fn a_process_that_ends_wants_nothing_and_says_its_jobs() {
        let (pool, now) = (pooled(), Instant::now());
        pool.take(4, now + MINUTE);
        pool.hold(1, MINUTE);
        pool.grant.grant().end();
        assert!(pool.look(now) && !pool.grant.grant().is_given_back());
        assert_eq!(pool.next(now), [0, 1, 0, 0]);
        pool.take(0, now + MINUTE);
        assert!(!pool.look(now + SHORT_WAIT) && pool.grant.grant().is_given_back());
    }
}
