//! The jobs that workers got of each queue of the configuration in the last minute, and the workers of each pool.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use super::recent::Recent;
use super::waits::Waits;

/// The window of all figures. Spec: fair-scheduling 10.2.
const WINDOW: Duration = Duration::from_secs(60);
/// As many as pools may have together; rows of an earlier configuration make room.
const QUEUES_MAX: usize = 256;
/// A pod has a few workers; beyond that, the one that was seen longest ago is not counted any more.
const WORKERS_MAX: usize = 2_048;

/// The figures of one queue in the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dispatched {
    /// The jobs that workers got.
    pub jobs: u64,
    /// Those of them that their regions show the wait of.
    pub timed: u64,
    /// The sum of these waits. Units: milliseconds.
    pub waited_ms: u64,
}

/// The figures of all queues and pools. Bounded: 256 queues and 2 048 workers.
#[derive(Debug, Default)]
pub struct Tally {
    queues: BTreeMap<Arc<str>, Queue>,
    /// The pool that each worker has fetched for, and when it did last.
    workers: HashMap<String, (Arc<str>, Instant), RandomState>,
    /// The queues that starve, and the pools without a place.
    pub waits: Waits,
}

#[derive(Debug)]
struct Queue {
    jobs: Recent,
    /// The jobs of known wait, and the sum of their waits in milliseconds.
    timed: Recent,
    waited_ms: Recent,
}

impl Queue {
    fn new(now: Instant) -> Self {
        let recent = || Recent::new(WINDOW, now);
        Self { jobs: recent(), timed: recent(), waited_ms: recent() }
    }
}

impl Tally {
    /// A worker got a job of a queue, as the configuration writes it, which waited so long.
    pub fn dispatched(&mut self, queue: &Arc<str>, wait: Option<Duration>, now: Instant) {
        if !self.queues.contains_key(queue) && self.queues.len() >= QUEUES_MAX {
            self.queues.retain(|_, queue| queue.jobs.sum(now) > 0);
        }
        if !self.queues.contains_key(queue) && self.queues.len() >= QUEUES_MAX {
            return;
        }
        let row = self.queues.entry(Arc::clone(queue)).or_insert_with(|| Queue::new(now));
        row.jobs.add(1, now);
        if let Some(wait) = wait {
            row.timed.add(1, now);
            row.waited_ms.add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX >> 16).min(u64::MAX >> 16), now);
        }
    }

    /// The figures of a queue.
    pub fn queue(&mut self, queue: &str, now: Instant) -> Dispatched {
        let Some(row) = self.queues.get_mut(queue) else { return Dispatched::default() };
        let (jobs, timed) = (row.jobs.sum(now), row.timed.sum(now));
        Dispatched { jobs, timed, waited_ms: row.waited_ms.sum(now) }
    }

    /// A worker has fetched for a pool.
    pub fn fetched(&mut self, worker: &str, pool: &Arc<str>, now: Instant) {
        if let Some(known) = self.workers.get_mut(worker) {
            if known.0 != *pool {
                known.0 = Arc::clone(pool);
            }
            known.1 = now;
            return;
        }
        if self.workers.len() >= WORKERS_MAX {
            self.workers.retain(|_, (_, seen)| is_recent(*seen, now));
        }
        if self.workers.len() < WORKERS_MAX {
            self.workers.insert(worker.to_owned(), (Arc::clone(pool), now));
        }
    }

    /// How many workers have fetched for a pool in the last minute.
    #[must_use]
    pub fn workers(&self, pool: &str, now: Instant) -> usize {
        self.workers.values().filter(|(known, seen)| **known == *pool && is_recent(*seen, now)).count()
    }
}

fn is_recent(seen: Instant, now: Instant) -> bool {
    now.saturating_duration_since(seen) < WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_last_minute() {
        let (mut tally, begun) = (Tally::default(), Instant::now());
        let (queue, pool): (Arc<str>, Arc<str>) = ("q".into(), "p".into());
        for wait in [Some(100), Some(300), None] {
            tally.dispatched(&queue, wait.map(Duration::from_millis), begun);
        }
        tally.fetched("w1", &pool, begun);
        tally.fetched("w2", &pool, begun + WINDOW / 2);
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(tally.queue("q", at(59)), Dispatched { jobs: 3, timed: 2, waited_ms: 400 });
        assert_eq!((tally.workers("p", at(59)), tally.workers("p", at(61)), tally.workers("x", begun)), (2, 1, 0));
        assert_eq!((tally.queue("q", at(66)), tally.queue("x", begun)), (Dispatched::default(), Dispatched::default()));
    }

    #[test]
    fn rows_and_workers_are_bounded_and_old_ones_make_room() {
        let (mut tally, begun) = (Tally::default(), Instant::now());
        let pool: Arc<str> = "p".into();
        let fill = |tally: &mut Tally, prefix: &str, now| {
            for number in 0..2 * WORKERS_MAX {
                tally.dispatched(&format!("{prefix}{number}").into(), None, now);
                tally.fetched(&format!("{prefix}{number}"), &pool, now);
            }
        };
        fill(&mut tally, "a", begun);
        fill(&mut tally, "b", begun + 2 * WINDOW);
        assert_eq!((tally.queues.len(), tally.workers.len()), (QUEUES_MAX, WORKERS_MAX));
        assert_eq!(tally.queue("b0", begun + 2 * WINDOW).jobs, 1);
        assert_eq!(tally.workers("p", begun + 2 * WINDOW), WORKERS_MAX);
    }
}
