//! Which region holds which job, as answers have shown it.
//!
//! Bounded, and forgetful in the order of use: jobs lie in generations of an eighth of the bound, of which the oldest
//! is dropped when the youngest is full and the bound reached. A forgotten job is searched for again; a wrong entry
//! costs a question, because the region itself answers that it does not know the job.

mod generation;

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::base::RegionId;
use generation::{Full, Generation, Key};

/// Threads rarely meet in the same one.
const SHARDS: usize = 16;
/// A generation holds one in so many of the remembered jobs: with more generations fewer jobs are forgotten at once,
/// and a question for an unknown job looks into more tables.
const GENERATIONS: usize = 8;
/// The first generation of a shard holds so many jobs, and each further one as many as all before it together, up to the full size:
/// most sidecars never hear of a million jobs.
const FIRST: usize = 64;
/// More than there are with the small ones at the beginning, however large the bound is.
const GENERATIONS_MAX: usize = 32;
/// Regions are numbered in the order in which they were first heard of; a number is never used again, and of regions beyond it no
/// jobs are remembered.
const REGIONS_MAX: usize = u8::MAX as usize + 1;

/// Job id to region; shared by all threads, and kept over reloads.
#[derive(Debug)]
pub struct Owners {
    shards: Box<[Mutex<Shard>]>,
    /// How many jobs a shard may hold.
    room: usize,
    seed: RandomState,
    regions: ArcSwap<Vec<RegionId>>,
}

/// The youngest generation is the first, and its entry for a job is newer than the others'.
#[derive(Debug, Default)]
struct Shard(VecDeque<Generation>);

impl Owners {
    /// A map of at most so many jobs; below one for each of its shards it remembers none.
    #[must_use]
    pub fn new(entries_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            room: entries_max / SHARDS,
            seed: RandomState::default(),
            regions: ArcSwap::default(),
        }
    }

    /// A region has shown that it holds this job.
    pub fn learn(&self, id: &str, region: &RegionId) {
        if self.room == 0 {
            return;
        }
        if let Some(number) = self.number(region) {
            let key = self.key(id);
            self.shard(key).lock().enter(key, number, self.room);
        }
    }

    /// The region that was last seen to hold this job.
    #[must_use]
    pub fn region_of(&self, id: &str) -> Option<RegionId> {
        let key = self.key(id);
        let number = self.shard(key).lock().find(key, self.room)?;
        self.regions.load().get(usize::from(number)).cloned()
    }

    /// Forgets a job whose entry has proved wrong.
    pub fn forget(&self, id: &str) {
        let key = self.key(id);
        self.shard(key).lock().0.iter_mut().for_each(|generation| generation.remove(key));
    }

    /// This region does not hold the job: a tombstone has its id there.
    pub fn forget_in(&self, id: &str, region: &RegionId) {
        if self.region_of(id).as_ref() == Some(region) {
            self.forget(id);
        }
    }

    /// How many jobs are remembered; one that was learned again and is in several generations counts, and takes room, as often.
    #[must_use]
    pub fn len(&self) -> usize {
        let jobs = |shard: &Mutex<Shard>| shard.lock().0.iter().map(Generation::len).sum::<usize>();
        self.shards.iter().map(jobs).sum()
    }

    /// Whether nothing is remembered.
    #[must_use]
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests"))]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: Key) -> &Mutex<Shard> {
        &self.shards[key.shard(SHARDS)]
    }

    /// A UUID is the same however it is spelled.
    fn key(&self, id: &str) -> Key {
        let uuid = if id.len() == 36 { uuid::Uuid::try_parse(id).ok() } else { None };
        Key::of(uuid.map_or_else(|| self.seed.hash_one(id), |uuid| self.seed.hash_one(uuid.as_u128())))
    }

    fn number(&self, region: &RegionId) -> Option<u8> {
        let place = |known: &Vec<RegionId>| known.iter().position(|known| known == region);
        let number = place(&self.regions.load()).or_else(|| {
            self.regions.rcu(|known| {
                let mut known = Vec::clone(known);
                if place(&known).is_none() && known.len() < REGIONS_MAX {
                    known.push(region.clone());
                }
                Arc::new(known)
            });
            place(&self.regions.load())
        });
        number.and_then(|number| u8::try_from(number).ok())
    }
}

impl Shard {
    fn find(&mut self, key: Key, room: usize) -> Option<u8> {
        let known = |generation: &Generation| generation.get(key);
        let (age, number) = self.0.iter().enumerate().find_map(|(age, generation)| Some((age, known(generation)?)))?;
        // A used entry is not forgotten.
        if age >= self.0.len().div_ceil(2) {
            self.enter(key, number, room);
        }
        Some(number)
    }

    fn enter(&mut self, key: Key, number: u8, room: usize) {
        if let Some(youngest) = self.0.front_mut()
            && youngest.enter(key, number) != Err(Full)
        {
            return;
        }
        let mut next = self.next(room);
        // It is empty, so that it has a place.
        let _ = next.enter(key, number);
        self.0.push_front(next);
    }

    /// The next generation, for which the oldest make room.
    fn next(&mut self, room: usize) -> Generation {
        let full = (room / GENERATIONS).max(1);
        let mut left: usize = self.0.iter().map(Generation::room).sum();
        let next = left.max(FIRST).min(full);
        while left + next > room || self.0.len() >= GENERATIONS_MAX {
            let Some(oldest) = self.0.pop_back() else { break };
            left -= oldest.room();
        }
        Generation::new(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(id: &str) -> RegionId {
        RegionId::parse(id).unwrap()
    }

    #[test]
    fn a_job_is_where_it_was_last_seen_whatever_its_id_looks_like() {
        let owners = Owners::new(1_000);
        for id in ["01912e4a-7b3c-7fff-bfff-ffffffffffff", "wf_1", "", "01912E4A-7B3C-7FFF-BFFF-FFFFFFFFFFFE"] {
            assert_eq!(owners.region_of(id), None);
            owners.learn(id, &region("us-east-1"));
            owners.learn(id, &region("eu-west-1"));
            assert_eq!(owners.region_of(id), Some(region("eu-west-1")), "{id}");
            owners.forget(id);
            assert_eq!(owners.region_of(id), None);
        }
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let owners = Owners::new(3_200);
        owners.learn("kept", &region("eu-west-1"));
        for number in 0..100_000 {
            owners.learn(&format!("job-{number}"), &region("us-east-1"));
            assert_eq!(owners.region_of("kept"), Some(region("eu-west-1")), "{number}");
        }
        assert!(owners.len() <= 3_200, "{}", owners.len());
        assert_eq!(owners.region_of("job-99999"), Some(region("us-east-1")));
        assert_eq!(owners.region_of("job-0"), None);
        for entries_max in [32, 64, 96, 1_000] {
            let small = Owners::new(entries_max);
            (0..5_000).for_each(|number| small.learn(&format!("job-{number}"), &region("us-east-1")));
            assert!((1..=entries_max).contains(&small.len()), "{} of {entries_max}", small.len());
        }
    }

    #[test]
    fn what_was_learned_last_holds_wherever_it_is_kept() {
        let owners = Owners::new(100_000);
        let learn_others = || (0..20_000).for_each(|number| owners.learn(&format!("other-{number}"), &region("c")));
        let others_between = [false, true];
        for (first, second) in others_between.map(|one| others_between.map(|other| (one, other))).concat() {
            for next in ["us-east-1", "eu-west-1"] {
                owners.learn("job", &region(next));
                if first {
                    learn_others();
                }
                assert_eq!(owners.region_of("job"), Some(region(next)));
            }
            owners.forget("job");
            if second {
                learn_others();
            }
            assert_eq!(owners.region_of("job"), None);
        }
    }

    #[test]
    fn a_job_is_forgotten_in_the_place_of_its_tombstone_and_in_no_other() {
        let owners = Owners::new(1_000);
        owners.learn("a", &region("us-east-1"));
        owners.forget_in("a", &region("eu-west-1"));
        assert_eq!(owners.region_of("a"), Some(region("us-east-1")));
        owners.forget_in("a", &region("us-east-1"));
        assert_eq!(owners.region_of("a"), None);
    }

    #[test]
    fn a_map_that_was_full_for_long_still_holds_most_of_its_bound() {
        for entries_max in [1_000, 30_000, 300_000] {
            let owners = Owners::new(entries_max);
            (0..2 * entries_max).for_each(|number| owners.learn(&format!("job-{number}"), &region("us-east-1")));
            let least = entries_max / 4 * 3;
            assert!((least..=entries_max).contains(&owners.len()), "{} of {entries_max}", owners.len());
            // A shard of a small map may get more than its share of them.
            let latest = if entries_max > 1_000 { entries_max / 2 * 3..2 * entries_max } else { 0..0 };
            let mut forgotten = latest.filter(|number| owners.region_of(&format!("job-{number}")).is_none());
            assert_eq!(forgotten.next(), None, "of those that were learned last, {entries_max} remembered");
        }
    }

    #[test]
    fn a_map_of_none_remembers_none() {
        let owners = Owners::new(0);
        owners.learn("a", &region("eu-west-1"));
        assert_eq!((owners.region_of("a"), owners.is_empty()), (None, true));
        owners.forget("a");
    }
}
