//! Regions in time: what each has under an id and since when, what is still on its way, and workers.

use std::collections::BTreeMap;

use super::super::world::{self, Entry, Kind, Stage};
use super::*;
use crate::base::Draw;

/// What happens in a region at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happens {
    Arrives(Entry),
    Cancels,
    /// A worker takes the copy that was written then.
    Starts(u64),
    Ends(u64),
}

#[derive(Debug)]
pub(super) struct Region {
    pub(super) kind: Kind,
    /// The longest time that a read is behind. Units: milliseconds.
    lag: u64,
    /// When it says nothing. Units: milliseconds.
    silent: Vec<(u64, u64)>,
    /// When it answers with pages, and does nothing.
    lies: Vec<(u64, u64)>,
    /// By id: what was there since when, and which write it is from.
    ids: BTreeMap<String, Vec<(u64, Entry, u64)>>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) draw: Draw,
    pub(super) regions: Vec<Region>,
    coming: Vec<(u64, u64, usize, String, Happens)>,
    writes: u64,
    /// The longest time that workers leave a job.
    idle: u64,
    /// Copies that workers were handed, and those that they have done.
    pub(super) started: usize,
    pub(super) done: usize,
    pub(super) called_off: bool,
}

impl Region {
    /// Whether it says nothing for so long that nobody may be asked any more.
    pub(super) fn is_away_long(&self) -> bool {
        self.silent.iter().any(|(from, until)| until - from > 60 * 60_000)
    }
}

fn is_within(spans: &[(u64, u64)], now: u64) -> bool {
    spans.iter().any(|(from, until)| (*from..*until).contains(&now))
}

impl World {
    pub(super) fn new(seed: u64, kinds: &[Kind], lag: u64) -> Self {
        let mut draw = Draw::from_seed(seed ^ 0x51_7c_c1);
        let mut spans = |most: u64, long: u64| -> Vec<(u64, u64)> {
            let count = draw.below(most + 1);
            let span = |_| (START.0 + draw.below(120_000), 500 + draw.below(long));
            (0..count).map(span).map(|(from, long)| (from, from + long)).collect()
        };
        let mut region = |kind: &Kind| {
            let (mut silent, lies) = (spans(2, 30_000), spans(1, 10_000));
            // Some are away for long.
            silent.extend(spans(1, 100 * 60 * 60_000).into_iter().filter(|(from, _)| from % 8 == 0));
            Region { kind: *kind, lag, silent, lies, ids: BTreeMap::new() }
        };
        let regions = kinds.iter().map(&mut region).collect();
        let idle = [1_000, 30_000, 20 * 60_000][draw.below(3) as usize];
        Self {
            now: START.0,
            draw,
            regions,
            coming: Vec::new(),
            writes: 0,
            idle,
            started: 0,
            done: 0,
            called_off: false,
        }
    }

    pub(super) fn happens(&mut self, percent: u64) -> bool {
        self.draw.below(100) < percent
    }

    /// Of a request and its answer.
    pub(super) fn takes_a_moment(&mut self) {
        let millis = 5 + self.draw.below(40);
        self.pass_to(self.now + millis);
    }

    pub(super) fn is_silent(&self, region: usize) -> bool {
        is_within(&self.regions[region].silent, self.now)
    }

    pub(super) fn lies(&self, region: usize) -> bool {
        is_within(&self.regions[region].lies, self.now)
    }

    /// Time passes, and what comes with it.
    pub(super) fn pass_to(&mut self, then: u64) {
        loop {
            let next = self.coming.iter().enumerate().min_by_key(|(_, it)| (it.0, it.1));
            let Some(at) = next.filter(|(_, it)| it.0 <= then).map(|(at, _)| at) else { break };
            let (when, _, region, id, what) = self.coming.remove(at);
            self.now = self.now.max(when);
            let there = self.newest(region, &id);
            match (what, there) {
                (Happens::Arrives(entry), _) => drop(self.write(region, &id, entry)),
                (Happens::Cancels, _) => self.cancel(region, &id),
                (Happens::Starts(write), Some((Entry::Job(stamp, Stage::Waiting), its))) if its == write => {
                    self.started += 1;
                    self.put(region, &id, Entry::Job(stamp, Stage::Started), write);
                    let ends = self.now + 1 + self.draw.below(30_000);
                    self.later(ends, region, &id, Happens::Ends(write));
                }
                (Happens::Ends(write), Some((Entry::Job(stamp, Stage::Started), its))) if its == write => {
                    self.done += 1;
                    self.put(region, &id, Entry::Job(stamp, Stage::Ended), write);
                }
                // What a worker has is done also where its entry was overwritten.
                (Happens::Ends(write), Some((_, its))) if its != write => self.done += 1,
                (Happens::Starts(_) | Happens::Ends(_), _) => {}
            }
        }
        self.now = self.now.max(then);
    }

    fn later(&mut self, when: u64, region: usize, id: &str, what: Happens) {
        self.writes += 1;
        self.coming.push((when, self.writes, region, id.to_owned(), what));
    }

    pub(super) fn arrives_in(&mut self, millis: u64, region: usize, id: &str, entry: Option<Entry>) {
        let what = entry.map_or(Happens::Cancels, Happens::Arrives);
        self.later(self.now + millis, region, id, what);
    }

    fn newest(&self, region: usize, id: &str) -> Option<(Entry, u64)> {
        self.regions[region].ids.get(id).and_then(|all| all.last()).map(|(_, entry, write)| (*entry, *write))
    }

    fn put(&mut self, region: usize, id: &str, entry: Entry, write: u64) {
        self.regions[region].ids.entry(id.to_owned()).or_default().push((self.now, entry, write));
    }

    /// Whether the region takes it.
    pub(super) fn write(&mut self, region: usize, id: &str, entry: Entry) -> bool {
        let there = self.newest(region, id).map(|(entry, _)| entry);
        let Some(entry) = world::write(self.regions[region].kind, there, entry) else { return false };
        self.writes += 1;
        let write = self.writes;
        self.put(region, id, entry, write);
        if matches!(entry, Entry::Job(..)) {
            let starts = self.now + self.draw.below(self.idle);
            self.later(starts, region, id, Happens::Starts(write));
        }
        true
    }

    pub(super) fn cancel(&mut self, region: usize, id: &str) {
        if let Some((entry, write)) = self.newest(region, id) {
            self.put(region, id, world::cancelled(entry), write);
        }
    }

    /// Another job has had the id before.
    pub(super) fn is_used(&mut self, region: usize, id: &str) {
        self.put(region, id, Entry::Job(u8::MAX, Stage::Waiting), 0);
    }

    /// What is there.
    pub(super) fn look(&self, region: usize, id: &str) -> Option<Entry> {
        self.newest(region, id).map(|(entry, _)| entry)
    }

    /// What a read shows, which may be behind.
    pub(super) fn read(&mut self, region: usize, id: &str) -> Option<Entry> {
        let lag = self.regions[region].lag;
        let seen = self.now - self.draw.below(lag + 1);
        let all = self.regions[region].ids.get(id)?;
        all.iter().rev().find(|(since, ..)| *since <= seen).map(|(_, entry, _)| *entry)
    }
}
