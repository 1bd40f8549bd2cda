//! Which worker has fetched from which region, and which region wants it to fetch no more.
//!
//! Bounded and forgetful: a worker that is not seen any more is removed, and a forgotten one's heartbeat goes only to
//! the regions of the jobs that it names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{BeatForms, Kept, Owners};
use crate::base::RegionId;

/// A pod has a few workers; a crowd of made-up names stays below some hundred kilobytes.
const WORKERS_MAX: usize = 2_048;
/// The longest id of a worker; a call with a longer one is treated as if it had none. Units: bytes.
const WORKER_ID_BYTES_MAX: usize = 256;
/// Workers send heartbeats every few seconds; one that was not seen for so long is removed.
const SEEN_FOR: Duration = Duration::from_secs(600);

/// Jobs that heartbeats go on naming although no region knows them: as few as they are wrong.
const STRANGERS_MAX: usize = 8_192;

/// The remembered workers; shared by all threads, and kept over reloads.
#[derive(Debug)]
pub struct Workers {
    /// The jobs that are parked for disconnected workers.
    pub kept: Kept,
    /// Jobs that heartbeats name and no region has leased, and the region that goes on hearing of them. Nothing but a heartbeat
    /// may act on this: such a job may be in any region, waiting for its next worker.
    pub strangers: Owners,
    /// How regions read the ids of heartbeats.
    pub beat_forms: BeatForms,
    known: Mutex<Known>,
}

type Known = HashMap<String, Worker, RandomState>;

#[derive(Debug)]
struct Worker {
    seen: Instant,
    ties: SmallVec<[Tie; 2]>,
}

/// The state between a worker and a region.
#[derive(Debug)]
struct Tie {
    region: RegionId,
    /// When the worker last got something there, or a directive to be quiet.
    used: Instant,
    quiet: bool,
    fetching: bool,
}

/// A FETCH that is under way; over when it is dropped.
#[derive(Debug)]
pub struct Fetching {
    workers: Arc<Workers>,
    worker: String,
    region: RegionId,
}

impl Default for Workers {
    fn default() -> Self {
        let (kept, strangers) = (Kept::default(), Owners::new(STRANGERS_MAX));
        Self { kept, strangers, beat_forms: BeatForms::default(), known: Mutex::default() }
    }
}

impl Workers {
    /// A worker's id as it is remembered; `None` where it cannot be one.
    #[must_use]
    pub fn name(id: &str) -> Option<&str> {
        (1..=WORKER_ID_BYTES_MAX).contains(&id.len()).then_some(id)
    }

    /// A region has answered a FETCH of this worker.
    pub fn fetched(&self, worker: &str, region: &RegionId, now: Instant) {
        self.with_tie(worker, region, now, |tie| tie.used = now);
    }

    /// Sets a region's directive for a worker, from its answer to a heartbeat: whether to stop fetching there.
    pub fn set_quiet(&self, worker: &str, region: &RegionId, quiet: bool, now: Instant) {
        if quiet {
            self.with_tie(worker, region, now, |tie| (tie.quiet, tie.used) = (true, now));
        } else if let Some(worker) = self.known.lock().get_mut(worker) {
            worker.seen = now;
            worker.ties.iter_mut().filter(|tie| tie.region == *region).for_each(|tie| tie.quiet = false);
        }
    }

    /// The regions that are to hear a worker's heartbeat even where it has no job of theirs.
    #[must_use]
    pub fn regions_of(&self, worker: &str, now: Instant) -> SmallVec<[RegionId; 2]> {
        let mut workers = self.known.lock();
        let Some(worker) = workers.get_mut(worker) else { return SmallVec::new() };
        worker.seen = now;
        worker.ties.retain(|tie| tie.fetching || now.saturating_duration_since(tie.used) < SEEN_FOR);
        worker.ties.iter().map(|tie| tie.region.clone()).collect()
    }

    /// Leave to fetch from a region: `None` while another FETCH of this worker is under way there, or when the region wants
    /// the worker to be quiet. Workers without a name count as one.
    #[must_use]
    pub fn begin(self: &Arc<Self>, worker: &str, region: &RegionId, now: Instant) -> Option<Fetching> {
        let free = self.with_tie(worker, region, now, |tie| {
            let free = !tie.fetching && !tie.quiet;
            tie.fetching |= free;
            free
        });
        let (workers, worker, region) = (Arc::clone(self), worker.to_owned(), region.clone());
        free.then_some(Fetching { workers, worker, region })
    }

    /// How many workers are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.lock().len()
    }

    /// Whether none is.
    #[must_use]
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests"))]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn with_tie<T>(&self, name: &str, region: &RegionId, now: Instant, change: impl FnOnce(&mut Tie) -> T) -> T {
        let mut workers = self.known.lock();
        if let Some(worker) = workers.get_mut(name) {
            return worker.with_tie(region, now, change);
        }
        make_room(&mut workers, now);
        let worker = Worker { seen: now, ties: SmallVec::new() };
        workers.entry(name.to_owned()).insert_entry(worker).get_mut().with_tie(region, now, change)
    }
}

impl Worker {
    fn with_tie<T>(&mut self, region: &RegionId, now: Instant, change: impl FnOnce(&mut Tie) -> T) -> T {
        self.seen = now;
        let place = self.ties.iter().position(|tie| tie.region == *region).unwrap_or_else(|| {
            // As old as can be: a tie that nothing was handed out by is no reason for a heartbeat.
            let used = now.checked_sub(SEEN_FOR).unwrap_or(now);
            self.ties.push(Tie { region: region.clone(), used, quiet: false, fetching: false });
            self.ties.len() - 1
        });
        change(&mut self.ties[place])
    }
}

fn make_room(workers: &mut Known, now: Instant) {
    if workers.len() < WORKERS_MAX {
        return;
    }
    workers.retain(|_, worker| now.saturating_duration_since(worker.seen) < SEEN_FOR);
    if workers.len() >= WORKERS_MAX
        && let Some(oldest) = workers.iter().min_by_key(|(_, worker)| worker.seen).map(|(name, _)| name.clone())
    {
        workers.remove(&oldest);
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        if let Some(worker) = self.workers.known.lock().get_mut(&self.worker) {
            worker.ties.iter_mut().filter(|tie| tie.region == self.region).for_each(|tie| tie.fetching = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(id: &str) -> RegionId {
        RegionId::parse(id).unwrap()
    }

    fn check(workers: &Workers, worker: &str, now: Instant, expected: &[&str]) {
        let regions = workers.regions_of(worker, now);
        assert_eq!(regions.iter().map(RegionId::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_region_hears_of_a_worker_as_long_as_it_hands_out_jobs_to_it() {
        let (workers, begun) = (Workers::default(), Instant::now());
        check(&workers, "w", begun, &[]);
        workers.fetched("w", &region("eu-west-1"), begun);
        workers.fetched("w", &region("ap-south-1"), begun + SEEN_FOR / 2);
        check(&workers, "w", begun + SEEN_FOR / 2, &["eu-west-1", "ap-south-1"]);
        check(&workers, "other", begun, &[]);
        check(&workers, "w", begun + SEEN_FOR, &["ap-south-1"]);
        check(&workers, "w", begun + SEEN_FOR * 2, &[]);
    }

    #[test]
    fn one_fetch_a_worker_and_region_is_under_way_and_none_where_it_is_to_be_quiet() {
        let (workers, now) = (Arc::new(Workers::default()), Instant::now());
        let (eu, ap) = (region("eu-west-1"), region("ap-south-1"));
        let first = workers.begin("w", &eu, now);
        assert!(first.is_some() && workers.begin("w", &eu, now).is_none());
        assert!(workers.begin("v", &eu, now).is_some() && workers.begin("w", &ap, now).is_some());
        drop(first);
        assert!(workers.begin("w", &eu, now).is_some());
        // A fetch that handed nothing out is no reason to beat.
        check(&workers, "w", now, &[]);
        workers.set_quiet("w", &eu, true, now);
        assert!(workers.begin("w", &eu, now).is_none() && workers.begin("v", &eu, now).is_some());
        check(&workers, "w", now, &["eu-west-1"]);
        workers.set_quiet("w", &eu, false, now);
        assert!(workers.begin("w", &eu, now).is_some());
    }

    #[test]
    fn the_bound_holds_and_whoever_was_seen_last_stays() {
        let (workers, begun) = (Arc::new(Workers::default()), Instant::now());
        let eu = region("eu-west-1");
        workers.fetched("kept", &eu, begun);
        for number in 0..2 * WORKERS_MAX {
            let now = begun + Duration::from_millis(number as u64);
            workers.fetched(&format!("w{number}"), &eu, now);
            check(&workers, "kept", now, &["eu-west-1"]);
        }
        assert_eq!(workers.len(), WORKERS_MAX);
        assert_eq!(Workers::name(&"x".repeat(WORKER_ID_BYTES_MAX + 1)), None);
        assert_eq!((Workers::name(""), Workers::name("w")), (None, Some("w")));
    }
}
