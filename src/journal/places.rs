//! The places that leases take in pools of workers, and those that FETCHes under way may come to take.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use foldhash::fast::RandomState;

use super::lease::{Lease, LeasePlace};
use crate::outcome::Moment;

/// The places by pool, with those of workers of no pool together, and the slots by the key of their quota. Bounded by the leases, and by the FETCHes under
/// way.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<Option<Arc<str>>, Taken, RandomState>);

/// The names that a lease is counted by.
fn names(place: &LeasePlace) -> impl Iterator<Item = Option<&Arc<str>>> {
    place.is_of_pools().then_some(place.pool.as_ref()).into_iter().chain(place.slot.as_ref().map(Some))
}

#[derive(Debug, Default)]
struct Taken {
    /// The ends and the numbers of leases. Those that are over may still be among them.
    held: BTreeSet<(Moment, u64)>,
    /// The jobs that regions were asked for, or are about to be. A FETCH counts up here, and down at its end by itself.
    asked: Arc<AtomicU64>,
}

/// Places that are set aside for a FETCH.
#[derive(Debug)]
pub(super) struct SetAside {
    /// How many.
    pub(super) count: u64,
    /// The places that were taken before.
    pub(super) before: TakenPlaces,
    /// All that are set aside in the pool: these are to be taken off it as soon as they are not any more.
    pub(super) all: Arc<AtomicU64>,
}

/// The places of a pool that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakenPlaces {
    /// Those of jobs.
    pub held: u64,
    /// Those of jobs that regions were asked for, or are about to be.
    pub asked: u64,
    /// How long the longest lease lasts. Units: milliseconds.
    pub last_ms: u64,
}

impl Taken {
    /// Those that are taken at a moment.
    fn at(&mut self, at: Moment) -> TakenPlaces {
        while self.held.first().is_some_and(|(ends, _)| *ends <= at) {
            self.held.pop_first();
        }
        let last = self.held.last().map_or(0, |(ends, _)| ends.since(at).as_millis().try_into().unwrap_or(u64::MAX));
        TakenPlaces { held: self.held.len() as u64, asked: self.asked.load(Relaxed), last_ms: last }
    }
}

impl Places {
    /// A lease takes its place, where it has one.
    pub(super) fn add(&mut self, lease: &Lease) {
        for name in lease.place.iter().flat_map(names) {
            self.0.entry(name.cloned()).or_default().held.insert((lease.ends, lease.number));
        }
    }

    /// A lease gives its place back, where it has one.
    pub(super) fn remove(&mut self, lease: &Lease) {
        let Some(place) = &lease.place else { return };
        for name in names(place).map(|name| name.cloned()) {
            let Some(taken) = self.0.get_mut(&name) else { continue };
            taken.held.remove(&(lease.ends, lease.number));
            if taken.held.is_empty() && taken.asked.load(Relaxed) == 0 {
                self.0.remove(&name);
            }
        }
    }

    /// Sets places of a pool with so many aside for a FETCH that wants some.
    pub(super) fn ask(&mut self, pool: &Arc<str>, wanted: u64, bound: u64, at: Moment) -> SetAside {
        let key = Some(Arc::clone(pool));
        let taken = match self.0.get_mut(&key) {
            Some(taken) => taken,
            None => self.0.entry(key).or_default(),
        };
        let before = taken.at(at);
        let count = wanted.min(bound.saturating_sub(before.held + before.asked));
        taken.asked.fetch_add(count, Relaxed);
        SetAside { count, before, all: Arc::clone(&taken.asked) }
    }

    /// The places of a pool that are taken at a moment.
    pub(super) fn of(&mut self, pool: &Arc<str>, at: Moment) -> TakenPlaces {
        self.0.get_mut(&Some(Arc::clone(pool))).map_or_else(TakenPlaces::default, |taken| taken.at(at))
    }

    /// The numbers of the leases that hold a place of pools at a moment. No name of a pool has a control character.
    pub(super) fn held(&self, at: Moment) -> impl Iterator<Item = u64> {
        let is_of_pools = |name: &Option<Arc<str>>| name.as_ref().is_none_or(|name| !name.contains('\t'));
        let held = self.0.iter().filter(move |(name, _)| is_of_pools(name)).flat_map(|(_, taken)| &taken.held);
        held.filter(move |(ends, _)| *ends > at).map(|(_, number)| *number)
    }
}
