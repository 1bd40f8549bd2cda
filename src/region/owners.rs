//! Which region holds which job, as answers have shown it.
//!
//! Bounded, and forgetful in the order of use: a map of two generations, of which the older one goes when the younger is half
//! of the bound, and a short list of what was learned last. What is forgotten is asked for again; what is wrong here costs a question, because the region itself says
//! that it does not know the job.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::base::RegionId;

/// Threads rarely meet in the same one.
const SHARDS: usize = 16;
/// So many of the jobs that a shard learned last are in a list, and go to its table together: a place in a table of megabytes is in no cache,
/// and the memory brings the places of many in hardly more time than that of one. A list of this length is searched in the time
/// of one such wait.
const RECENT: usize = 32;
/// Regions are numbered in the order in which they were first heard of; a number is never used again, and of regions beyond it no
/// jobs are remembered.
const REGIONS_MAX: usize = u8::MAX as usize + 1;

type Generation = HashMap<Key, u8, RandomState>;

/// Five bytes of a hash of a job's id, with a seed of this process: an entry is then 6 bytes and not 16. With a million
/// jobs one question in 10^6 finds the entry of another job, and costs a further question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key([u8; 5]);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e] = self.0;
        state.write_u64(u64::from_ne_bytes([a, b, c, d, e, 0, 0, 0]));
    }
}

/// Job id to region; shared by all threads, and kept over reloads.
#[derive(Debug)]
pub struct Owners {
    shards: Box<[Mutex<Shard>]>,
    room: Room,
    seeds: [RandomState; 2],
    regions: ArcSwap<Vec<RegionId>>,
}

/// How many jobs one shard remembers.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// In each of its generations.
    half: usize,
    /// In its list, before they go to the younger one.
    recent: usize,
}

#[derive(Debug, Default)]
struct Shard {
    /// The last one learned is at the end; what it says of a job is newer than the generations' word.
    recent: Vec<(Key, u8)>,
    young: Generation,
    old: Generation,
}

impl Owners {
    /// A map of at most so many jobs; 0 remembers none.
    #[must_use]
    pub fn new(entries_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            room: Room::of(entries_max),
            seeds: [RandomState::default(), RandomState::default()],
            regions: ArcSwap::default(),
        }
    }

    /// A region has shown that it holds this job.
    pub fn learn(&self, id: &str, region: &RegionId) {
        if self.room.half == 0 {
            return;
        }
        if let Some(number) = self.number(region) {
            let key = self.key(id);
            self.shard(&key).lock().enter(key, number, self.room);
        }
    }

    /// The region that was last seen to hold this job.
    #[must_use]
    pub fn region_of(&self, id: &str) -> Option<RegionId> {
        let key = self.key(id);
        let number = self.shard(&key).lock().find(key, self.room)?;
        self.regions.load().get(usize::from(number)).cloned()
    }

    /// What was known of this job has proved wrong.
    pub fn forget(&self, id: &str) {
        let key = self.key(id);
        let mut shard = self.shard(&key).lock();
        shard.recent.retain(|(known, _)| *known != key);
        shard.young.remove(&key);
        shard.old.remove(&key);
    }

    /// How many jobs are remembered; one that is in both generations counts twice, and one that was learned just now may.
    #[must_use]
    pub fn len(&self) -> usize {
        let entries = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            let recent = shard.recent.iter().map(|(key, _)| key).filter(|key| !shard.young.contains_key(key));
            recent.collect::<HashSet<_>>().len() + shard.young.len() + shard.old.len()
        };
        self.shards.iter().map(entries).sum()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        // Of the upper bits, because the lower ones choose the place within the shard.
        &self.shards[(self.seeds[0].hash_one(key) >> 60) as usize % SHARDS]
    }

    /// A UUID is the same however it is spelled.
    fn key(&self, id: &str) -> Key {
        let uuid = if id.len() == 36 { uuid::Uuid::try_parse(id).ok() } else { None };
        let seed = &self.seeds[1];
        let hash = uuid.map_or_else(|| seed.hash_one(id), |uuid| seed.hash_one(uuid.as_u128()));
        let [a, b, c, d, e, ..] = hash.to_ne_bytes();
        Key([a, b, c, d, e])
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

/// Half of what one shard may hold. Tables grow by doubling, at seven eighths: up to a tenth of the jobs is left out where that
/// makes a table of half the size do.
fn half_of(entries_max: usize) -> usize {
    let half = entries_max / (2 * SHARDS);
    let table = half.next_power_of_two() / 8 * 7;
    if (half - half / 10..half).contains(&table) { table } else { half }
}

impl Room {
    fn of(entries_max: usize) -> Self {
        let half = half_of(entries_max);
        let recent = RECENT.min(half);
        // The list takes its places from both.
        Self { half: half - recent / 2, recent }
    }
}

impl Shard {
    fn find(&mut self, key: Key, room: Room) -> Option<u8> {
        let recent = self.recent.iter().rev().find(|(known, _)| *known == key).map(|(_, number)| *number);
        if let Some(number) = recent.or_else(|| self.young.get(&key).copied()) {
            return Some(number);
        }
        let number = self.old.get(&key).copied()?;
        self.enter(key, number, room);
        Some(number)
    }

    fn enter(&mut self, key: Key, number: u8, room: Room) {
        self.recent.push((key, number));
        if self.recent.len() >= room.recent {
            self.settle(room.half);
        }
    }

    /// Moves the list to the younger generation, in the order in which it was learned.
    fn settle(&mut self, half: usize) {
        for (key, number) in self.recent.drain(..) {
            if self.young.len() >= half && !self.young.contains_key(&key) {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(key, number);
        }
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
        let learn_others =
            || (0..100 * RECENT).for_each(|number| owners.learn(&format!("other-{number}"), &region("c")));
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
    fn a_full_map_of_the_default_size_needs_little_memory() {
        assert_eq!(std::mem::size_of::<(Key, u8)>(), 6);
        let mut generation = Generation::default();
        generation.reserve(Room::of(1_000_000).half);
        assert_eq!(generation.capacity(), half_of(1_000_000), "a table that is full");
        for entries_max in [0, 1, 31, 32, 1_000, 900_000, 1_000_000, 100_000_000] {
            let (half, most) = (half_of(entries_max), entries_max / (2 * SHARDS));
            assert!(half <= most && half >= most - most / 10, "{entries_max}: {half}");
        }
    }

    #[test]
    fn a_map_of_none_remembers_none() {
        let owners = Owners::new(0);
        owners.learn("a", &region("eu-west-1"));
        assert_eq!((owners.region_of("a"), owners.is_empty()), (None, true));
    }
}
