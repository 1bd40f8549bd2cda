//! The figures of pools of workers and their queues: those of one sidecar, and their sum over several.
//!
//! Spec: fair-scheduling 10.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Rows of one kind in a sum. Sidecars of one federation are configured much alike, and each has 256 rows at most.
const SUM_ROWS_MAX: usize = 1_024;

/// The figures of one pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolFigures {
    /// The pool.
    pub name: String,
    /// Workers that have fetched for it in the last minute.
    pub workers: u64,
    /// The jobs that its workers hold.
    pub active: u64,
    /// Whether the bound is that of the fleet, at each sidecar of the sum.
    #[serde(default)]
    pub of_fleet: bool,
    /// The bound of the fleet, by the hub; none where there is none, and in the figures of one sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// How many sidecars are in the sum.
    #[serde(default)]
    pub sidecars: u64,
}

/// The figures of one queue, as the configuration writes it, in the last minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFigures {
    /// The queue, or a glob.
    pub name: String,
    /// The jobs that workers got.
    pub jobs: u64,
    /// Those of them whose wait is known.
    pub timed: u64,
    /// The sum of their waits. Units: milliseconds.
    pub waited_ms: u64,
    /// The jobs that workers hold.
    pub active: u64,
    /// How many sidecars are in the sum.
    #[serde(default)]
    pub sidecars: u64,
}

impl QueueFigures {
    /// The mean wait of the jobs whose wait is known; none without such a job. Units: milliseconds.
    #[must_use]
    pub const fn wait_ms(&self) -> Option<u64> {
        self.waited_ms.checked_div(self.timed)
    }
}

/// The figures of one sidecar, 256 queues and 64 pools at most, or a sum.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// One for each pool.
    pub pools: Vec<PoolFigures>,
    /// One for each queue of a pool.
    pub queues: Vec<QueueFigures>,
}

/// The figures of all sidecars that a hub has a late report of. Shape: JSON; a later hub may add members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetFigures {
    /// The sums, by name.
    #[serde(flatten)]
    pub figures: Figures,
    /// How many sidecars are in the sum.
    pub sidecars: u64,
    /// How many sidecars are connected, to this hub or as far as it knows to another one, and are not in the sum.
    pub left_out: u64,
    /// Rows for which there was no room, of all sidecars.
    pub rows_left_out: u64,
    /// The age of the oldest report in the sum. Units: milliseconds.
    pub age_ms: u64,
}

/// A sum of figures.
#[derive(Debug, Default)]
pub struct FiguresSum<'f> {
    pools: BTreeMap<&'f str, PoolFigures>,
    queues: BTreeMap<&'f str, QueueFigures>,
    sidecars: u64,
    rows_left_out: u64,
    age_ms: u64,
}

impl<'f> FiguresSum<'f> {
    /// Adds the figures that a sidecar has reported before so many milliseconds.
    pub fn add(&mut self, figures: &'f Figures, age_ms: u64) {
        self.sidecars += 1;
        self.age_ms = self.age_ms.max(age_ms);
        for pool in &figures.pools {
            let Some(sum) = row(&mut self.pools, &pool.name, &mut self.rows_left_out) else { continue };
            let is_of_fleet = pool.of_fleet && (sum.sidecars == 0 || sum.of_fleet);
            let (workers, active) = (sum.workers.saturating_add(pool.workers), sum.active.saturating_add(pool.active));
            (sum.workers, sum.active, sum.of_fleet) = (workers, active, is_of_fleet);
            sum.sidecars += 1;
        }
        for queue in &figures.queues {
            let Some(sum) = row(&mut self.queues, &queue.name, &mut self.rows_left_out) else { continue };
            sum.jobs = sum.jobs.saturating_add(queue.jobs);
            sum.timed = sum.timed.saturating_add(queue.timed);
            sum.waited_ms = sum.waited_ms.saturating_add(queue.waited_ms);
            sum.active = sum.active.saturating_add(queue.active);
            sum.sidecars += 1;
        }
    }

    /// The sum. `connected`: how many sidecars are connected. `bound`: the jobs of a pool at once in the fleet, by the hub.
    #[must_use]
    pub fn end(self, connected: u64, bound: impl Fn(&str) -> Option<u64>) -> FleetFigures {
        let pools = self.pools.into_iter().map(|(name, pool)| {
            let concurrency = bound(name).filter(|_| pool.of_fleet);
            PoolFigures { name: name.to_owned(), concurrency, ..pool }
        });
        let queues = self.queues.into_iter().map(|(name, queue)| QueueFigures { name: name.to_owned(), ..queue });
        FleetFigures {
            figures: Figures { pools: pools.collect(), queues: queues.collect() },
            sidecars: self.sidecars,
            left_out: connected.saturating_sub(self.sidecars),
            rows_left_out: self.rows_left_out,
            age_ms: self.age_ms,
        }
    }
}

/// The row of a name; none where there is no room for it.
fn row<'r, 'f, T: Default>(rows: &'r mut BTreeMap<&'f str, T>, name: &'f str, left_out: &mut u64) -> Option<&'r mut T> {
    if rows.len() >= SUM_ROWS_MAX && !rows.contains_key(name) {
        *left_out += 1;
        return None;
    }
    Some(rows.entry(name).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, active: u64, of_fleet: bool) -> PoolFigures {
        PoolFigures { name: name.to_owned(), workers: 1, active, of_fleet, ..PoolFigures::default() }
    }

    fn queue(name: &str, jobs: u64, timed: u64, waited_ms: u64) -> QueueFigures {
        QueueFigures { name: name.to_owned(), jobs, timed, waited_ms, ..QueueFigures::default() }
    }

    #[test]
    fn waits_are_weighted_by_jobs_and_a_bound_is_that_of_the_hub_where_all_sidecars_keep_it() {
        let one = Figures {
            pools: vec![pool("pay", 2, true), pool("gpu", 1, true)],
            queues: vec![queue("q", 9, 9, 900), queue("r", 1, 0, 0)],
        };
        let two =
            Figures { pools: vec![pool("pay", 3, true), pool("gpu", 1, false)], queues: vec![queue("q", 3, 1, 1_100)] };
        let mut sum = FiguresSum::default();
        sum.add(&two, 7_000);
        sum.add(&one, 3_000);
        let sum = sum.end(5, |_| Some(20));
        assert_eq!((sum.sidecars, sum.left_out, sum.age_ms), (2, 3, 7_000));
        let queues = sum.figures.queues.iter().map(|it| (&*it.name, it.jobs, it.wait_ms(), it.sidecars));
        assert_eq!(queues.collect::<Vec<_>>(), [("q", 12, Some(200), 2), ("r", 1, None, 1)]);
        let pools = sum.figures.pools.iter().map(|it| (&*it.name, it.workers, it.active, it.concurrency));
        assert_eq!(pools.collect::<Vec<_>>(), [("gpu", 2, 2, None), ("pay", 2, 5, Some(20))]);
    }

    #[test]
    fn a_sum_is_bounded_in_rows_and_in_numbers() {
        let many = |prefix: &str| Figures {
            pools: Vec::new(),
            queues: (0..SUM_ROWS_MAX).map(|at| queue(&format!("{prefix}{at}"), u64::MAX, 1, u64::MAX)).collect(),
        };
        let (one, two) = (many("a"), many("b"));
        let mut sum = FiguresSum::default();
        [&one, &two, &one].iter().for_each(|it| sum.add(it, 0));
        let sum = sum.end(3, |_| None);
        assert_eq!((sum.figures.queues.len(), sum.rows_left_out), (SUM_ROWS_MAX, SUM_ROWS_MAX as u64));
        assert_eq!((sum.figures.queues[0].jobs, sum.figures.queues[0].sidecars), (u64::MAX, 2));
    }
}
