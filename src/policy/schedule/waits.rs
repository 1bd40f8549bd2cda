//! Queues with jobs that workers ask for in vain, and pools with all of their places taken.
//!
//! Spec: fair-scheduling 11.1.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use super::pools::PoolNumber;

/// Queues that are watched at most: workers of a pod ask for a few, and made-up ones make room.
const QUEUES_MAX: usize = 256;
/// A pool is overloaded until its workers found places for so long.
const OVERLOAD_LASTS: Duration = Duration::from_secs(30);

/// The queues that workers ask for. Bounded: 256 queues, and the pools of the configuration.
#[derive(Debug, Default)]
pub struct Waits {
    queues: HashMap<String, Wait, RandomState>,
    /// When a worker of a pool last found no place, and whether that is reported.
    overloads: BTreeMap<Arc<str>, (Instant, bool)>,
}

#[derive(Debug)]
struct Wait {
    /// The queue as the configuration writes it.
    row: Arc<str>,
    /// The number of the workers that asked for its jobs last, which this row is for.
    pool: PoolNumber,
    interval: Duration,
    /// An interval after a worker last asked for its jobs: from then on none does.
    unasked_at: Instant,
    /// When it last gave a job, or was empty.
    since: Instant,
    /// When its region is to be asked again for its jobs; none once it is reported as starved.
    due_at: Option<Instant>,
}

impl Wait {
    /// It does not starve now.
    fn begin(&mut self, now: Instant) {
        self.since = now;
        self.due_at = Some(now + self.interval);
    }
}

/// A worker that asks for jobs.
#[derive(Debug, Clone, Copy)]
pub struct Asker {
    pool: PoolNumber,
    /// Each queue is to give a job in each such interval.
    interval: Duration,
    now: Instant,
    unasked_at: Instant,
}

impl Asker {
    /// A worker of this pool, or of none, which expects a job of each queue in each `interval`.
    #[must_use]
    pub fn new(pool: PoolNumber, interval: Duration, now: Instant) -> Self {
        Self { pool, interval, now, unasked_at: now + interval }
    }
}

/// A queue that gave the workers that ask for it no job for longer than an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starving {
    /// Its name.
    pub queue: String,
    /// The queue as the configuration writes it.
    pub row: Arc<str>,
}

impl Waits {
    /// A worker asks for jobs of a queue. `row_of`: the queue as the configuration writes it for such a worker; without a row it is not watched.
    pub fn asked<'r>(&mut self, queue: &str, by: &Asker, row_of: impl FnOnce() -> Option<&'r Arc<str>>) {
        let Asker { pool, interval, now, unasked_at } = *by;
        if let Some(wait) = self.queues.get_mut(queue) {
            // Without workers no queue can give a job.
            let mut begins = now > wait.unasked_at;
            if wait.pool != pool {
                let Some(row) = row_of() else { return };
                begins |= wait.interval != interval || wait.row != *row;
                (wait.pool, wait.interval, wait.row) = (pool, interval, Arc::clone(row));
            }
            if begins {
                wait.begin(now);
            }
            wait.unasked_at = unasked_at;
            return;
        }
        let Some(row) = row_of() else { return };
        if self.queues.len() >= QUEUES_MAX {
            self.queues.retain(|_, wait| now <= wait.unasked_at);
        }
        if self.queues.len() < QUEUES_MAX {
            let (row, due_at) = (Arc::clone(row), Some(unasked_at));
            self.queues.insert(queue.to_owned(), Wait { row, pool, interval, unasked_at, since: now, due_at });
        }
    }

    /// A worker got a job of a queue.
    pub fn came(&mut self, queue: &str, now: Instant) {
        if let Some(wait) = self.queues.get_mut(queue) {
            wait.begin(now);
        }
    }

    /// The queues that workers ask for and that gave no job for an interval: their region is to be asked for the jobs that wait. Each comes again an interval later,
    /// unless it is reported as starved by then.
    pub fn due(&mut self, now: Instant) -> Vec<Starving> {
        let mut due = Vec::new();
        for (queue, wait) in &mut self.queues {
            let is_asked_for = now <= wait.unasked_at;
            if is_asked_for && wait.due_at.is_some_and(|at| at <= now) {
                wait.due_at = Some(now + wait.interval);
                due.push(Starving { queue: queue.clone(), row: Arc::clone(&wait.row) });
            }
        }
        due.sort_unstable_by(|one, other| one.queue.cmp(&other.queue));
        due
    }

    /// So many jobs wait in a queue. Returns how long it gave no job when it is found to starve, once until it gives one.
    pub fn found(&mut self, queue: &str, available: u64, now: Instant) -> Option<Duration> {
        let wait = self.queues.get_mut(queue)?;
        if available == 0 {
            wait.begin(now);
            return None;
        }
        let idle = now.saturating_duration_since(wait.since);
        // A job may have come while the region was asked.
        let is_new = wait.due_at.is_some() && idle >= wait.interval;
        if is_new {
            wait.due_at = None;
        }
        is_new.then_some(idle)
    }

    /// The queues that are reported as starved and gave no job since, by name.
    #[must_use]
    pub fn starved(&self) -> Vec<&str> {
        let starved = self.queues.iter().filter(|(_, wait)| wait.due_at.is_none());
        sorted(starved.map(|(queue, _)| queue.as_str()))
    }

    /// The queues that workers ask for, of those that the configuration writes so, by name.
    pub fn asked_for<'w>(&'w self, rows: impl Iterator<Item = &'w Arc<str>>) -> impl Iterator<Item = String> {
        let rows: Vec<&Arc<str>> = rows.collect();
        let asked_for = self.queues.iter().filter(|(_, wait)| rows.contains(&&wait.row));
        sorted(asked_for.map(|(queue, _)| queue.as_str())).into_iter().map(str::to_owned)
    }

    /// A worker of a pool found all of its places taken.
    pub fn turned_away(&mut self, pool: &Arc<str>, now: Instant) {
        match self.overloads.get_mut(pool) {
            Some((at, _)) => *at = now,
            None => {
                self.overloads.insert(Arc::clone(pool), (now, false));
            }
        }
    }

    /// The pools that became overloaded since the last call, each once until its workers found places for half a minute.
    pub fn overloaded(&mut self, now: Instant) -> Vec<Arc<str>> {
        self.overloads.retain(|_, (at, _)| now.saturating_duration_since(*at) < OVERLOAD_LASTS);
        let new = self.overloads.iter_mut().filter(|(_, (_, is_reported))| !is_reported);
        new.map(|(pool, (_, is_reported))| {
            *is_reported = true;
            Arc::clone(pool)
        })
        .collect()
    }
}

fn sorted<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PoolConfig, Scheduling};
    use crate::policy::schedule::Pools;

    const INTERVAL: Duration = Duration::from_secs(30);

    struct Scene(Waits, Instant, Arc<str>);

    impl Scene {
        fn new() -> Self {
            Self(Waits::default(), Instant::now(), "mail".into())
        }

        fn at(&self, seconds: u64) -> Instant {
            self.1 + Duration::from_secs(seconds)
        }

        /// Workers ask for the queue every ten seconds.
        fn asked(&mut self, from: u64, until: u64) {
            for second in (from..=until).step_by(10) {
                let (row, now) = (Arc::clone(&self.2), self.at(second));
                self.0.asked("mail", &Asker::new(PoolNumber::default(), INTERVAL, now), || Some(&row));
            }
        }

        fn is_due(&mut self, second: u64) -> bool {
            let now = self.at(second);
            !self.0.due(now).is_empty()
        }

        fn found(&mut self, available: u64, second: u64) -> Option<u64> {
            let now = self.at(second);
            self.0.found("mail", available, now).map(|idle| idle.as_secs())
        }
    }

    #[test]
    fn a_queue_with_jobs_starves_once_until_it_gives_one() {
        let mut scene = Scene::new();
        scene.asked(0, 40);
        assert!(!scene.is_due(29) && scene.is_due(31) && !scene.is_due(32), "asked for once an interval");
        assert_eq!((scene.found(5, 31), scene.found(5, 32)), (Some(31), None));
        assert_eq!(scene.0.starved(), ["mail"]);
        scene.asked(50, 90);
        assert!(!scene.is_due(90), "reported already");
        let now = scene.at(90);
        scene.0.came("mail", now);
        assert_eq!(scene.0.starved().len(), 0);
        scene.asked(100, 120);
        assert!(!scene.is_due(119) && scene.is_due(120));
        assert_eq!(scene.found(1, 120), Some(30));
    }

    #[test]
    fn an_empty_queue_one_without_workers_and_one_that_just_gave_a_job_do_not_starve() {
        let mut scene = Scene::new();
        scene.asked(0, 30);
        assert!(scene.is_due(30));
        assert_eq!(scene.found(0, 30), None);
        scene.asked(40, 60);
        assert!(!scene.is_due(59) && scene.is_due(60), "the time begins where it was empty");
        // The job comes between the question and its answer.
        let now = scene.at(60);
        scene.0.came("mail", now);
        assert_eq!(scene.found(3, 60), None);
        assert!(!scene.is_due(200), "no worker has asked for it");
        scene.asked(200, 229);
        assert!(!scene.is_due(229), "the time begins with the first worker");
    }

    #[test]
    fn a_pool_is_reported_as_overloaded_once_until_places_were_found_for_a_while() {
        let (mut scene, pool) = (Scene::new(), Arc::from("pay"));
        let times = [0, 1, 29, 58, 88, 89].map(|second| scene.at(second));
        let mut told = Vec::new();
        for now in times {
            if now != times[4] {
                scene.0.turned_away(&pool, now);
            }
            told.push(scene.0.overloaded(now).len());
        }
        assert_eq!(told, [1, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_queue_has_the_row_that_the_configuration_gives_it_for_the_workers_that_asked_last() {
        let pool = |name: &str, queue: &str| PoolConfig {
            is_put: false,
            name: name.to_owned(),
            queues: vec![queue.to_owned()],
            concurrency: None,
            fleet: None,
            strategy: None,
            weights: BTreeMap::new(),
            isolated: false,
            floor: None,
        };
        let pools = |rows: [&str; 2], old| {
            let pools = vec![pool("p", rows[0]), pool("q", rows[1])];
            Pools::of(&Scheduling { pools, ..Scheduling::default() }, old)
        };
        let first = pools(["mail", "m*"], None);
        let second = pools(["ma*", "mail"], Some(&first));
        let (mut waits, now) = (Waits::default(), Instant::now());
        for (pools, pool, row) in
            [(&first, 0, "mail"), (&first, 1, "m*"), (&first, 0, "mail"), (&second, 0, "ma*"), (&second, 1, "mail")]
        {
            let pool = pools.all().nth(pool);
            let by = Asker::new(pools.number(pool), INTERVAL, now);
            for _ in 0..2 {
                waits.asked("mail", &by, || pools.queue(pool, "mail"));
                assert_eq!(waits.asked_for([&Arc::from(row)].into_iter()).count(), 1, "{row}");
            }
        }
    }

    #[test]
    fn made_up_queues_make_room() {
        let mut scene = Scene::new();
        for (prefix, second) in [("a", 0), ("b", 60)] {
            for number in 0..2 * QUEUES_MAX {
                let (row, now) = (Arc::clone(&scene.2), scene.at(second));
                let by = Asker::new(PoolNumber::default(), INTERVAL, now);
                scene.0.asked(&format!("{prefix}{number}"), &by, || Some(&row));
            }
        }
        assert_eq!(scene.0.queues.len(), QUEUES_MAX);
        assert!(scene.0.queues.keys().all(|queue| queue.starts_with('b')));
    }
}
