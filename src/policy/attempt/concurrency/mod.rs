//! Bounds on the calls that are under way, per region and in total, learned from latency.
//!
//! A region that slows down holds calls for longer, and without a bound the calls of all regions would end up waiting there.
//! When a limit is reached, something has to go: reads and lists first, which their clients repeat without harm, then calls
//! that create or change something. Words about jobs that a region leased always go through, because a lost heartbeat costs a
//! second run; they are counted, so that others make room for them. How long a caller waits for a permit is its own affair.

mod gradient;
mod grant;
#[cfg(test)]
mod tests;
mod throttle;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gradient::Gradient;
pub use grant::{CallsSeen, Grant};
use parking_lot::Mutex;
pub use throttle::Throttle;

use crate::policy::index::RegionIndex;
use crate::policy::machine::GuardClass;

/// Reads get this share of a limit, in percent; the rest is kept for enqueues and acknowledgements.
const READS_PERCENT: u64 = 80;

/// Between which bounds a limit moves. Units: calls at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// It never falls below.
    pub floor: u64,
    /// Where it begins.
    pub start: u64,
    /// It never rises above.
    pub ceiling: u64,
}

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// The region bears no more of such calls.
    Region,
    /// The fleet's limit has no room for this sidecar's calls to the region.
    Fleet,
    /// An operator has set a bound on the calls of this sidecar to the region.
    Throttle,
    /// We bear no more of such calls.
    Total,
    /// This machine has no socket left for the call.
    Sockets,
}

/// The limits of all regions and the one over all; shared by all worker threads.
#[derive(Debug)]
pub struct Concurrency {
    total: Arc<Limit>,
    regions: Box<[Arc<Limit>]>,
}

/// One call's place; dropped, it is free again.
///
/// Cancel: a call that is given up frees its place and says nothing about latency.
#[derive(Debug)]
#[must_use]
pub struct CallPermit<L: Deref<Target = Limit> = Arc<Limit>> {
    region: L,
    total: L,
    counts: Counts,
}

/// In which bounds of a region a call counts that are not always there.
#[derive(Debug, Clone, Copy)]
struct Counts {
    in_grant: bool,
    in_throttle: bool,
}

/// How many calls may be under way at once, and how many are.
#[derive(Debug)]
pub struct Limit {
    in_flight: AtomicU64,
    limit: AtomicU64,
    gradient: Mutex<Gradient>,
    grant: Arc<Grant>,
    throttle: Arc<Throttle>,
}

impl Concurrency {
    /// Limits for so many regions; `total` bounds all of them together, and does not move.
    #[must_use]
    pub fn new(regions: usize, region: Bounds, total: u64) -> Self {
        let total = Bounds { floor: total, start: total, ceiling: total };
        let regions = (0..regions).map(|_| Arc::new(Limit::new(region))).collect();
        Self { total: Arc::new(Limit::new(total)), regions }
    }

    /// The limits of a new configuration with the same bounds: `known_as` gives for each of its regions its index here.
    /// Calls in progress count in both, and learned limits stay; a new region begins anew.
    #[must_use]
    pub fn carried_over(&self, region: Bounds, known_as: impl Iterator<Item = Option<RegionIndex>>) -> Self {
        let known = |index: Option<RegionIndex>| self.regions.get(index?.get()).cloned();
        let limit = |index| known(index).unwrap_or_else(|| Arc::new(Limit::new(region)));
        Self { total: Arc::clone(&self.total), regions: known_as.map(limit).collect() }
    }

    /// The limits of a new configuration with other bounds: they begin anew, and grants and throttles go on with the calls
    /// that count in them.
    #[must_use]
    pub fn bounded_anew(
        &self,
        region: Bounds,
        total: u64,
        known_as: impl Iterator<Item = Option<RegionIndex>>,
    ) -> Self {
        let known = |index: Option<RegionIndex>| self.regions.get(index?.get());
        let limit = |index| Arc::new(Limit::new(region).with_counts_of(known(index)));
        Self { regions: known_as.map(limit).collect(), ..Self::new(0, region, total) }
    }

    /// The grant of a region. Panics: the region is not among these.
    #[must_use]
    pub fn grant(&self, index: RegionIndex) -> &Arc<Grant> {
        &self.regions[index.get()].grant
    }

    /// The throttle of a region. Panics: the region is not among these.
    #[must_use]
    pub fn throttle(&self, index: RegionIndex) -> &Throttle {
        &self.regions[index.get()].throttle
    }

    /// A place for a call of this class at a region, for a call that ends while the limits are at hand. Two compare-exchanges, and one more
    /// for a fleet limit and one for a throttle.
    ///
    /// Errors: [`Shed`]: no place is free; never for words about leased jobs.
    pub fn acquire(&self, index: RegionIndex, class: GuardClass, now: Instant) -> Result<CallPermit<&Limit>, Shed> {
        let entered = self.enter(index, class, now);
        entered.map(|(region, counts)| CallPermit { region: &**region, total: &*self.total, counts })
    }

    /// The same for a call that may last longer than anything else that knows of it.
    ///
    /// Errors: as of [`Concurrency::acquire`].
    pub fn acquire_owned(&self, index: RegionIndex, class: GuardClass, now: Instant) -> Result<CallPermit, Shed> {
        let entered = self.enter(index, class, now);
        entered.map(|(region, counts)| CallPermit {
            region: Arc::clone(region),
            total: Arc::clone(&self.total),
            counts,
        })
    }

    /// Takes the places of a call; returns the limit of its region, and where it counts there.
    fn enter(&self, index: RegionIndex, class: GuardClass, now: Instant) -> Result<(&Arc<Limit>, Counts), Shed> {
        let Some(region) = self.regions.get(index.get()) else { return Err(Shed::Region) };
        if !self.total.enter(class) {
            return Err(Shed::Total);
        }
        if !region.enter(class) {
            self.total.leave();
            return Err(Shed::Region);
        }
        region.enter_further(class, now).map(|counts| (region, counts)).inspect_err(|_| {
            region.leave();
            self.total.leave();
        })
    }

    /// The limit of a region now. Units: calls at once.
    #[must_use]
    pub fn limit(&self, index: RegionIndex) -> u64 {
        self.regions.get(index.get()).map_or(0, |region| region.limit.load(Relaxed))
    }

    /// The calls at once that the limit of the fleet leaves this sidecar at a region; none without such a limit.
    #[must_use]
    pub fn granted(&self, index: RegionIndex, now: Instant) -> Option<u64> {
        self.regions.get(index.get()).filter(|it| it.grant.is_limited()).map(|it| it.grant.calls(now))
    }

    /// The limit over all regions now. Units: calls at once.
    #[must_use]
    pub fn total_limit(&self) -> u64 {
        self.total.limit.load(Relaxed)
    }

    /// The calls under way at all regions.
    #[must_use]
    pub fn total_in_flight(&self) -> u64 {
        self.total.in_flight.load(Relaxed)
    }

    /// The calls under way at a region.
    #[must_use]
    pub fn in_flight(&self, index: RegionIndex) -> u64 {
        self.regions.get(index.get()).map_or(0, |region| region.in_flight.load(Relaxed))
    }
}

impl Bounds {
    /// Between a third of a limit and all of it, beginning there: a healthy region always gets its usual traffic before
    /// a limit was learned, and the usual load of a busy pod, a thousand calls at once, always fits the default.
    #[must_use]
    pub const fn below(limit: u64) -> Self {
        Self { floor: limit.div_ceil(3), start: limit, ceiling: limit }
    }
}

impl<L: Deref<Target = Limit>> CallPermit<L> {
    /// The call ended after `latency`; none where it failed. Not for calls that take long by intention, such as a FETCH that
    /// waits for jobs, nor for lists, which take as long as they are: drop their permits. Nothing is learned for all regions
    /// together: a mix that changes looks like a latency that does.
    pub fn done(self, now: Instant, latency: Option<Duration>) {
        self.region.learn(now, latency);
    }
}

impl<L: Deref<Target = Limit>> Drop for CallPermit<L> {
    fn drop(&mut self) {
        if self.counts.in_grant {
            self.region.grant.leave();
        }
        if self.counts.in_throttle {
            self.region.throttle.leave();
        }
        self.region.leave();
        self.total.leave();
    }
}

impl Limit {
    fn new(bounds: Bounds) -> Self {
        let gradient = Gradient::new(bounds.floor, bounds.start, bounds.ceiling);
        let limit = AtomicU64::new(gradient.limit());
        let (grant, throttle) = Default::default();
        Self { in_flight: AtomicU64::new(0), limit, gradient: Mutex::new(gradient), grant, throttle }
    }

    /// With the grant and the throttle of another one, where there is one.
    fn with_counts_of(self, other: Option<&Arc<Self>>) -> Self {
        let Some(other) = other else { return self };
        Self { grant: Arc::clone(&other.grant), throttle: Arc::clone(&other.throttle), ..self }
    }

    /// Counts a call in the grant and the throttle, where the region has them.
    fn enter_further(&self, class: GuardClass, now: Instant) -> Result<Counts, Shed> {
        if !is_limited_by_others(class) {
            return Ok(Counts::NONE);
        }
        let in_grant = self.grant.is_limited();
        if in_grant && !self.grant.enter(now) {
            return Err(Shed::Fleet);
        }
        let most = self.throttle.most();
        if most.is_some_and(|most| !self.throttle.enter(most)) {
            if in_grant {
                self.grant.leave();
            }
            return Err(Shed::Throttle);
        }
        Ok(Counts { in_grant, in_throttle: most.is_some() })
    }

    fn enter(&self, class: GuardClass) -> bool {
        let limit = self.limit.load(Relaxed);
        let room = match class {
            _ if is_word_about_leased(class) => u64::MAX,
            // A worker that gets no job now asks again; a job that is not stored may be lost.
            GuardClass::Read => (limit.saturating_mul(READS_PERCENT) / 100).max(1),
            _ => limit,
        };
        let enters = |in_flight: u64| (in_flight < room).then(|| in_flight.saturating_add(1));
        self.in_flight.fetch_update(AcqRel, Acquire, enters).is_ok()
    }

    fn leave(&self) {
        self.in_flight.fetch_sub(1, AcqRel);
    }

    /// Learns from a call. A sample that meets another thread's is given up: there are enough.
    fn learn(&self, now: Instant, latency: Option<Duration>) {
        let Some(mut gradient) = self.gradient.try_lock() else { return };
        if gradient.on_sample(now, latency, self.in_flight.load(Relaxed)) {
            self.limit.store(gradient.limit(), Relaxed);
        }
    }
}

impl Counts {
    const NONE: Self = Self { in_grant: false, in_throttle: false };
}

/// Whether fleet limits and throttles are for such calls. A FETCH may wait for minutes without work for its region.
const fn is_limited_by_others(class: GuardClass) -> bool {
    !is_word_about_leased(class) && !matches!(class, GuardClass::Fetch)
}

/// Whether such calls are about jobs that the region leased.
const fn is_word_about_leased(class: GuardClass) -> bool {
    matches!(class, GuardClass::Ack | GuardClass::Nack | GuardClass::Heartbeat)
}
