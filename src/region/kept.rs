//! Jobs that were claimed for a worker which had disconnected by then: its next FETCH gets them, within their lease.
//!
//! No job is handed back: a server may count that as a failed attempt. A job that no FETCH takes returns to its queue
//! when its lease ends. In memory only, and within bounds: a job that does not fit is left to its lease at once.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::base::RegionId;

/// More than a worker runs at once.
const JOBS_PER_WORKER_MAX: usize = 256;
/// A pod's workers vanish together when it restarts.
const JOBS_MAX: usize = 1_024;
/// Units: bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Of a lease, this part must be left when a job is handed out late: enough for a first heartbeat.
const MARGIN_PARTS: u32 = 4;

/// A job that waits for its worker.
#[derive(Clone)]
pub struct KeptJob {
    /// Its id.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// The region that has leased it.
    pub region: RegionId,
    /// The job as that region wrote it.
    pub raw: Bytes,
    /// When it is handed out no more.
    pub until: Instant,
}

impl std::fmt::Debug for KeptJob {
    // A job's content belongs in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptJob").field("id", &self.id).field("region", &self.region).finish_non_exhaustive()
    }
}

/// The jobs that wait for their workers; shared by all threads, and kept over reloads.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Jobs>);

#[derive(Debug, Default)]
struct Jobs {
    of: HashMap<String, VecDeque<KeptJob>, RandomState>,
    count: usize,
    bytes: usize,
}

/// When a job that was claimed at `claimed_at` may be handed out no more.
#[must_use]
pub fn handed_out_until(claimed_at: Instant, lease: Duration) -> Instant {
    claimed_at + (lease - lease / MARGIN_PARTS)
}

impl Kept {
    /// Parks a worker's jobs, under a name that includes the worker's tenant; returns how many found room and time.
    pub fn keep(&self, worker: &str, jobs: impl IntoIterator<Item = KeptJob>, now: Instant) -> usize {
        let mut kept = self.0.lock();
        kept.forget_lapsed(now);
        let mut count = 0;
        for job in jobs {
            let of_worker = kept.of.get(worker).map_or(0, VecDeque::len);
            let fits = of_worker < JOBS_PER_WORKER_MAX
                && kept.count < JOBS_MAX
                && kept.bytes.saturating_add(job.raw.len()) <= BYTES_MAX;
            if !fits || job.until <= now {
                continue;
            }
            kept.count += 1;
            kept.bytes += job.raw.len();
            // On its own, because it may be a small part of a large answer.
            let job = KeptJob { raw: Bytes::copy_from_slice(&job.raw), ..job };
            kept.of.entry(worker.to_owned()).or_default().push_back(job);
            count += 1;
        }
        count
    }

    /// Takes at most `count` of a worker's jobs that are `wanted`, the oldest first.
    pub fn take(&self, worker: &str, count: usize, now: Instant, wanted: impl Fn(&KeptJob) -> bool) -> Vec<KeptJob> {
        let mut kept = self.0.lock();
        if kept.count == 0 {
            return Vec::new();
        }
        kept.forget_lapsed(now);
        let Some(jobs) = kept.of.get_mut(worker) else { return Vec::new() };
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        for job in jobs.drain(..) {
            if taken.len() < count && wanted(&job) {
                taken.push(job);
            } else {
                left.push_back(job);
            }
        }
        if left.is_empty() {
            kept.of.remove(worker);
        } else {
            *jobs = left;
        }
        kept.count -= taken.len();
        kept.bytes -= taken.iter().map(|job| job.raw.len()).sum::<usize>();
        taken
    }

    /// Forgets jobs whose leases are over.
    pub fn sweep(&self, now: Instant) {
        self.0.lock().forget_lapsed(now);
    }

    /// How many jobs wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().count
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Jobs {
    fn forget_lapsed(&mut self, now: Instant) {
        if self.count == 0 {
            return;
        }
        let Self { of, count, bytes } = self;
        of.retain(|_, jobs| {
            jobs.retain(|job| {
                let stays = job.until > now;
                if !stays {
                    *count -= 1;
                    *bytes -= job.raw.len();
                }
                stays
            });
            !jobs.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn job(id: &str, queue: &str, until: Instant) -> KeptJob {
        let region = RegionId::parse("eu-west-1").unwrap();
        KeptJob { id: id.to_owned(), queue: queue.to_owned(), region, raw: Bytes::from_static(b"{}"), until }
    }

    fn ids(jobs: &[KeptJob]) -> Vec<&str> {
        jobs.iter().map(|job| job.id.as_str()).collect()
    }

    #[test]
    fn a_worker_gets_its_own_jobs_of_the_queues_that_it_asks_for_once() {
        let (kept, now) = (Kept::default(), Instant::now());
        let until = now + LEASE;
        assert_eq!(kept.keep("w", [job("1", "a", until), job("2", "b", until), job("3", "a", until)], now), 3);
        assert!(kept.take("v", 9, now, |_| true).is_empty());
        assert_eq!(ids(&kept.take("w", 1, now, |job| job.queue == "a")), ["1"]);
        assert_eq!(ids(&kept.take("w", 9, now, |job| job.queue == "a")), ["3"]);
        assert_eq!(ids(&kept.take("w", 9, now, |_| true)), ["2"]);
        assert!(kept.take("w", 9, now, |_| true).is_empty() && kept.is_empty());
    }

    #[test]
    fn nothing_is_handed_out_close_to_the_end_of_its_lease() {
        let (kept, now) = (Kept::default(), Instant::now());
        let until = handed_out_until(now, LEASE);
        assert!(until < now + LEASE);
        kept.keep("w", [job("1", "a", until)], now);
        assert!(kept.take("w", 9, until, |_| true).is_empty());
        assert_eq!((kept.len(), kept.keep("w", [job("2", "a", until)], until)), (0, 0));
        kept.keep("w", [job("3", "a", until)], now);
        kept.sweep(until);
        assert!(kept.is_empty());
    }

    #[test]
    fn the_bounds_hold() {
        let (kept, now) = (Kept::default(), Instant::now());
        let many = || (0..2 * JOBS_MAX).map(|_| job("1", "a", now + LEASE));
        assert_eq!(kept.keep("0", many(), now), JOBS_PER_WORKER_MAX);
        let all: usize = (1..10).map(|worker| kept.keep(&worker.to_string(), many(), now)).sum();
        assert_eq!(all + JOBS_PER_WORKER_MAX, JOBS_MAX);
        kept.sweep(now + LEASE);
        let large = |_| KeptJob { raw: Bytes::from(vec![b' '; BYTES_MAX / 2]), ..job("1", "a", now + LEASE) };
        assert_eq!(kept.keep("0", (0..3).map(large), now), 2);
        assert_eq!(kept.take("0", 9, now, |_| true).len(), 2);
        assert_eq!(kept.keep("0", (0..3).map(large), now), 2);
    }
}
