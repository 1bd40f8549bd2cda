//! The jobs that this sidecar has sent, by region and queue: to correct load figures that are seconds old, and to know
//! which queues to poll.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Cache};
use parking_lot::Mutex;

use crate::base::{Clock, Ewma};
use crate::policy::{Live, RegionIndex};
use crate::telemetry::Metrics;

/// A queue that got no job for this long is no longer asked about.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// The send rate forgets with this time constant: about two poll intervals.
const RATE_DECAY: Duration = Duration::from_secs(20);

type Queues = HashMap<Arc<str>, Arc<QueueTraffic>, foldhash::fast::RandomState>;

/// Jobs sent, by queue and region; shared by all threads.
#[derive(Debug)]
pub struct Traffic {
    queues: Arc<ArcSwap<Queues>>,
    adding: Mutex<()>,
    queues_max: usize,
    regions: Vec<RegionTraffic>,
    clock: Clock,
    start: Instant,
    metrics: Arc<Metrics>,
}

/// A queue by its name, or, where jobs of it were sent before, by its counts.
#[derive(Debug, Clone)]
pub struct Queue(Known);

#[derive(Debug, Clone)]
enum Known {
    Counted(Arc<QueueTraffic>),
    New(Box<str>),
}

/// The queues that jobs were sent to, as one thread sees them: it knows by a look at a pointer that none was added.
#[derive(Debug)]
pub struct KnownQueues(RefCell<Cache<Arc<ArcSwap<Queues>>, Arc<Queues>>>);

impl KnownQueues {
    /// The queue of a job that may be sent, looked up once.
    #[must_use]
    pub fn queue(&self, name: &str) -> Queue {
        let known = self.0.borrow_mut().load().get(name).map(Arc::clone);
        Queue(known.map_or_else(|| Known::New(name.into()), Known::Counted))
    }
}

/// One queue's jobs.
#[derive(Debug)]
struct QueueTraffic {
    sent: Vec<Sent>,
    /// Seconds after the start.
    last_used: AtomicU64,
}

#[derive(Debug, Default)]
struct RegionTraffic {
    sent: Sent,
    rate: Mutex<Option<(Ewma, u64, Instant)>>,
}

/// A count, and where it stood when the last load figure was asked for.
#[derive(Debug, Default)]
struct Sent {
    total: AtomicU64,
    mark: AtomicU64,
}

impl Sent {
    fn since_mark(&self) -> u64 {
        self.total.load(Relaxed).saturating_sub(self.mark.load(Relaxed))
    }
}

/// The counts at the moment at which a figure was asked for; jobs that are sent while the answer travels count as sent
/// since.
#[derive(Debug, Clone, Copy)]
pub struct Mark(u64);

impl Traffic {
    /// No traffic yet; at most `queues_max` queues are distinguished.
    #[must_use]
    pub fn new(regions: usize, queues_max: usize, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            queues: Arc::default(),
            adding: Mutex::new(()),
            queues_max,
            regions: (0..regions).map(|_| RegionTraffic::default()).collect(),
            start: clock.now(),
            clock,
            metrics,
        }
    }

    /// The queues that jobs were sent to, for one thread.
    #[must_use]
    pub fn known(&self) -> KnownQueues {
        KnownQueues(RefCell::new(Cache::new(Arc::clone(&self.queues))))
    }

    /// Counts a job that a region took, and notes that its queue is in use, so that regions are asked about it. `queue` is none
    /// where no other region may hear of it: then it is only part of the region's total.
    pub fn sent(&self, region: RegionIndex, queue: Option<&Queue>) {
        if let Some(region) = self.regions.get(region.get()) {
            region.sent.total.fetch_add(1, Relaxed);
        }
        let count = |queue: &QueueTraffic| {
            queue.last_used.store(self.seconds(), Relaxed);
            if let Some(sent) = queue.sent.get(region.get()) {
                sent.total.fetch_add(1, Relaxed);
            }
        };
        match queue {
            None => {}
            Some(Queue(Known::Counted(queue))) => count(queue),
            Some(Queue(Known::New(name))) => {
                if !self.queues.load().contains_key(&**name) {
                    self.add(name, self.seconds());
                }
                if let Some(queue) = self.queues.load().get(&**name) {
                    count(queue);
                }
            }
        }
    }

    /// Notes that others use a queue, so that regions are asked about it.
    pub fn used_elsewhere(&self, name: &str) {
        match self.queues.load().get(name) {
            Some(queue) => queue.last_used.store(self.seconds(), Relaxed),
            None => self.add(name, self.seconds()),
        }
    }

    /// Whether any region has taken a job from this sidecar.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.regions.iter().any(|region| region.sent.total.load(Relaxed) > 0)
    }

    /// The queues in use.
    #[must_use]
    pub fn queues(&self) -> Vec<Arc<str>> {
        let now = self.seconds();
        let fresh =
            |queue: &QueueTraffic| now.saturating_sub(queue.last_used.load(Relaxed)) < FORGOTTEN_AFTER.as_secs();
        let mut names: Vec<_> =
            self.queues.load().iter().filter(|(_, it)| fresh(it)).map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Where a count stands: of one queue, or of all when `queue` is none. Take it before asking for a figure.
    #[must_use]
    pub fn mark(&self, region: RegionIndex, queue: Option<&str>) -> Mark {
        Mark(self.with_sent(region, queue, |sent| sent.total.load(Relaxed)))
    }

    /// A figure was answered: it includes the jobs sent until `mark`.
    pub fn figure_taken(&self, region: RegionIndex, queue: Option<&str>, mark: Mark) {
        self.with_sent(region, queue, |sent| {
            sent.mark.store(mark.0, Relaxed);
            0
        });
    }

    /// Measures the send rate; called about once per poll interval and region.
    pub fn measure_rate(&self, region: RegionIndex) {
        let Some(region) = self.regions.get(region.get()) else { return };
        let (now, total) = (self.clock.now(), region.sent.total.load(Relaxed));
        let mut slot = region.rate.lock();
        let Some((rate, before, at)) = slot.as_mut() else {
            *slot = Some((Ewma::starting(0.0, now, RATE_DECAY), total, now));
            return;
        };
        let elapsed = now.saturating_duration_since(*at).as_secs_f64();
        if elapsed > 0.0 {
            #[expect(clippy::cast_precision_loss, reason = "a count of jobs is far below 2^53")]
            rate.add(total.saturating_sub(*before) as f64 / elapsed, now);
            (*before, *at) = (total, now);
        }
    }

    fn with_sent(&self, region: RegionIndex, queue: Option<&str>, f: impl FnOnce(&Sent) -> u64) -> u64 {
        match queue {
            None => self.regions.get(region.get()).map_or(0, |region| f(&region.sent)),
            Some(queue) => {
                let queues = self.queues.load();
                queues.get(queue).and_then(|queue| queue.sent.get(region.get())).map_or(0, f)
            }
        }
    }

    /// Adds a queue; beyond the bound, the one that was used longest ago goes.
    fn add(&self, queue: &str, now: u64) {
        let _adding = self.adding.lock();
        let current = self.queues.load();
        // Another job of the same batch was first.
        if current.contains_key(queue) {
            return;
        }
        let mut queues = HashMap::clone(&current);
        while queues.len() >= self.queues_max.max(1) {
            let oldest = queues.iter().min_by_key(|(_, it)| it.last_used.load(Relaxed)).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            queues.remove(&oldest);
        }
        let traffic = QueueTraffic {
            sent: self.regions.iter().map(|_| Sent::default()).collect(),
            last_used: AtomicU64::new(now),
        };
        queues.insert(Arc::from(queue), Arc::new(traffic));
        self.queues.store(Arc::new(queues));
    }

    /// By the clock that the poller goes by, too, and not by a moment that a caller has: a call's is the machine's.
    fn seconds(&self) -> u64 {
        self.clock.about().saturating_duration_since(self.start).as_secs()
    }
}

impl Live for Traffic {
    fn in_flight(&self, region: RegionIndex) -> u64 {
        u64::try_from(self.metrics.region(region.get()).in_flight.get()).unwrap_or(0)
    }

    fn sent_since(&self, region: RegionIndex, queue: Option<&str>, _at: Instant) -> u64 {
        self.with_sent(region, queue, Sent::since_mark)
    }

    fn send_rate(&self, region: RegionIndex) -> f64 {
        let Some(region) = self.regions.get(region.get()) else { return 0.0 };
        region.rate.lock().as_ref().map_or(0.0, |(rate, _, _)| rate.mean())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SteeredTime;

    const QUEUES_MAX: usize = 2;

    /// Nothing sent yet, and the time that it goes by.
    fn traffic() -> (Traffic, Arc<SteeredTime>) {
        let time = SteeredTime::starting_at(0);
        let clock = Clock::new(Arc::new(Arc::clone(&time)));
        (Traffic::new(1, QUEUES_MAX, clock, Metrics::new(&[], &[])), time)
    }

    fn queues(traffic: &Traffic) -> Vec<String> {
        traffic.queues().iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_queue_is_in_use_until_ten_minutes_after_its_last_job() {
        let (traffic, time) = traffic();
        let known = traffic.known();
        let send = |name| traffic.sent(RegionIndex::new(0), Some(&known.queue(name)));
        send("a");
        time.advance(FORGOTTEN_AFTER / 2);
        send("a");
        send("b");
        time.advance(FORGOTTEN_AFTER - Duration::from_secs(1));
        assert_eq!(queues(&traffic), ["a", "b"]);
        time.advance(Duration::from_secs(1));
        assert!(queues(&traffic).is_empty());
        send("b");
        assert_eq!(queues(&traffic), ["b"]);
    }

    #[test]
    fn of_too_many_queues_the_one_goes_that_was_used_longest_ago() {
        let (traffic, time) = traffic();
        for name in ["a", "b", "a", "c"] {
            traffic.sent(RegionIndex::new(0), Some(&traffic.known().queue(name)));
            time.advance(Duration::from_secs(1));
        }
        assert_eq!(queues(&traffic), ["a", "c"]);
    }
}
