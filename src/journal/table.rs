//! The placements of the journal, in memory: every look-up reads them, with or without a file behind. Bounded in rows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::change::Change;
use crate::outcome::{Digest, Event, Moment, Placement, Rules, State};

/// How long a placement with traces is listed and recognised after its outcome is known.
const KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How many rows had to make room for others.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evicted {
    /// Placements that something was still to be found out about.
    pub(super) pending: u64,
    /// Placements that had ended.
    pub(super) resolved: u64,
    /// Keys that were not too old.
    pub(super) keys: u64,
}

#[derive(Debug)]
struct Row {
    placement: Placement,
    /// Of the run that changed it last.
    run: u64,
    /// The number of its changes, so that a decision from an older state does not overwrite a newer one.
    revision: u64,
}

/// A placement as it was found, for a change that is made only if it has not changed since.
#[derive(Debug, Clone)]
pub struct Found {
    /// As it was, and as it is to be.
    pub placement: Placement,
    revision: u64,
}

/// The order of eviction: whether a record has a key, whether it is open, its time, its number.
type Order = (bool, bool, Moment, u64);

#[derive(Debug)]
pub(super) struct Table {
    /// The number of this process, which distinguishes its records from those of an earlier one.
    run: u64,
    /// The processes whose records are in memory, or were, and are not read again.
    runs: BTreeSet<u64>,
    rows_max: usize,
    rows: BTreeMap<u64, Row>,
    by_key: HashMap<Digest, u64, RandomState>,
    by_id: HashMap<String, SmallVec<[u64; 2]>, RandomState>,
    /// Those that something is to be found out about or done about.
    pending: BTreeSet<u64>,
    order: BTreeSet<Order>,
    /// Those with an outcome that others want to know, or with one before, by the revision of their last change.
    outcomes: BTreeMap<u64, u64>,
    /// Those with the end of a key that the hub does not have.
    unsettled: BTreeSet<u64>,
    /// Those that a call is busy with.
    held: HashSet<u64, RandomState>,
    revisions: u64,
    /// The highest number that was given out.
    last_number: u64,
    evicted: Evicted,
}

impl Table {
    pub(super) fn new(rows_max: usize, run: u64) -> Self {
        Self {
            run,
            runs: BTreeSet::from([run]),
            rows_max: rows_max.max(1),
            rows: BTreeMap::new(),
            by_key: HashMap::default(),
            by_id: HashMap::default(),
            pending: BTreeSet::new(),
            order: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            held: HashSet::default(),
            revisions: 0,
            last_number: 0,
            evicted: Evicted::default(),
        }
    }

    pub(super) fn set_rows_max(&mut self, rows_max: usize) {
        self.rows_max = rows_max.max(1);
    }

    /// Evictions since the last call of this.
    pub(super) fn evicted(&mut self) -> Evicted {
        std::mem::take(&mut self.evicted)
    }

    /// A number that is higher than all before: the time leads, so that it is unique over restarts, too.
    pub(super) fn number(&mut self, now: Moment) -> u64 {
        let last = self.rows.last_key_value().map_or(0, |(number, _)| *number).max(self.last_number);
        // One that was forgotten since may still be let go by its call.
        self.last_number = (now.0.min(1 << 46) << 16).max(last + 1);
        self.last_number
    }

    /// Stores a placement; `changes` gets the changes for the file.
    pub(super) fn put(&mut self, placement: Placement, changes: &mut Vec<Change>) {
        changes.push(Change::Placement(self.run, placement.clone()));
        self.insert(placement, self.run);
        self.bound(changes);
    }

    fn insert(&mut self, placement: Placement, run: u64) {
        let number = placement.number;
        let was_reported = self.rows.get(&number).is_some_and(|row| self.outcomes.contains_key(&row.revision));
        self.remove(number);
        for id in placement.ids() {
            let numbers = self.by_id.entry(id.to_owned()).or_default();
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        if let Some(key) = placement.identity.key
            && let Some(older) = self.by_key.insert(key, number)
        {
            self.strip_key(older);
        }
        if !placement.is_at_rest() {
            self.pending.insert(number);
        }
        if placement.unsettled().is_some() {
            self.unsettled.insert(number);
        }
        self.order.insert(order(&placement));
        self.revisions += 1;
        if was_reported || placement.has_outcome() {
            self.outcomes.insert(self.revisions, number);
        }
        self.rows.insert(number, Row { placement, run, revision: self.revisions });
    }

    /// A key leads to the placement that came with it last.
    fn strip_key(&mut self, number: u64) {
        let Some(row) = self.rows.get_mut(&number) else { return };
        self.order.remove(&order(&row.placement));
        row.placement.identity.key = None;
        self.unsettled.remove(&number);
        self.order.insert(order(&row.placement));
    }

    fn remove(&mut self, number: u64) -> bool {
        let Some(Row { placement, revision, .. }) = self.rows.remove(&number) else { return false };
        self.outcomes.remove(&revision);
        self.pending.remove(&number);
        self.unsettled.remove(&number);
        self.order.remove(&order(&placement));
        if let Some(key) = placement.identity.key
            && self.by_key.get(&key) == Some(&number)
        {
            self.by_key.remove(&key);
        }
        for id in placement.ids() {
            let Some(numbers) = self.by_id.get_mut(id) else { continue };
            numbers.retain(|it| *it != number);
            if numbers.is_empty() {
                self.by_id.remove(id);
            }
        }
        true
    }

    /// Forgets a placement.
    pub(super) fn forget(&mut self, number: u64, changes: &mut Vec<Change>) {
        if self.remove(number) {
            changes.push(Change::DropPlacement(number));
        }
    }

    /// Among those with a key, and among those without, the oldest ended ones are evicted first, open ones last, and
    /// those that a call holds never.
    fn bound(&mut self, changes: &mut Vec<Change>) {
        for keyed in [false, true] {
            let of_kind = |open: bool| (keyed, open, Moment(0), 0)..=(keyed, open, Moment(u64::MAX), u64::MAX);
            loop {
                let rows = if keyed { self.by_key.len() } else { self.rows.len() - self.by_key.len() };
                if rows <= self.rows_max {
                    break;
                }
                let free = |open| {
                    self.order
                        .range(of_kind(open))
                        .find(|(.., number)| !self.held.contains(number))
                        .map(|it| (open, it.3))
                };
                let Some((open, number)) = free(false).or_else(|| free(true)) else { break };
                match (open, keyed) {
                    (true, _) => self.evicted.pending += 1,
                    (false, true) => self.evicted.keys += 1,
                    (false, false) => self.evicted.resolved += 1,
                }
                self.forget(number, changes);
            }
        }
    }

    pub(super) fn of_key(&self, key: &Digest) -> Option<&Placement> {
        self.rows.get(self.by_key.get(key)?).map(|row| &row.placement)
    }

    /// Those that were sent with this id, or are known by it, the newest first.
    pub(super) fn of_id(&self, id: &str) -> impl Iterator<Item = &Placement> {
        let numbers = self.by_id.get(id).map(SmallVec::as_slice).unwrap_or_default();
        let mut numbers: SmallVec<[u64; 2]> = numbers.iter().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().rev().filter_map(|number| Some(&self.rows.get(&number)?.placement))
    }

    /// Takes one for a call; none where another call has it.
    pub(super) fn hold(&mut self, number: u64) -> Option<Placement> {
        let placement = self.rows.get(&number)?.placement.clone();
        self.held.insert(number).then_some(placement)
    }

    /// Marks a new one as held.
    pub(super) fn take(&mut self, number: u64) {
        self.held.insert(number);
    }

    /// Lets go of one; whether something is to be found out or done about it.
    pub(super) fn release(&mut self, number: u64) -> bool {
        self.held.remove(&number);
        self.pending.contains(&number)
    }

    /// The newest first, those that calls are busy with included.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Placement> {
        self.rows.values().rev().map(|row| &row.placement)
    }

    /// The due placements that no call holds, the newest first.
    pub(super) fn to_look_at(&self, mut is_due: impl FnMut(&Placement) -> bool) -> impl Iterator<Item = Found> {
        let free = self.pending.iter().rev().filter(|number| !self.held.contains(number));
        let rows = free.filter_map(|number| self.rows.get(number));
        rows.filter(move |row| is_due(&row.placement))
            .map(|row| Found { placement: row.placement.clone(), revision: row.revision })
    }

    /// Those with the end of a key that the hub does not have and that no call holds, the oldest first.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = Found> {
        self.unsettled.iter().filter_map(|number| self.found(*number))
    }

    /// How many have the end of a key that the hub does not have.
    pub(super) fn unsettled_count(&self) -> usize {
        self.unsettled.len()
    }

    pub(super) fn found(&self, number: u64) -> Option<Found> {
        let row = self.rows.get(&number).filter(|_| !self.held.contains(&number))?;
        Some(Found { placement: row.placement.clone(), revision: row.revision })
    }

    /// Takes the changed state of a found placement, unless it was changed or taken since.
    pub(super) fn update(&mut self, found: &mut Found, changes: &mut Vec<Change>) -> bool {
        let number = found.placement.number;
        let is_same = self.rows.get(&number).is_some_and(|row| row.revision == found.revision);
        if !is_same || self.held.contains(&number) {
            return false;
        }
        self.put(found.placement.clone(), changes);
        found.revision = self.revisions;
        true
    }

    /// As [`Table::update`] for changes that are not worth a write: the time of a question, and the answers that count
    /// towards an absence.
    pub(super) fn note(&mut self, found: &Found) {
        let Some(row) = self.rows.get_mut(&found.placement.number) else { return };
        if row.revision == found.revision {
            row.placement.clone_from(&found.placement);
        }
    }

    /// How many are in this state.
    pub(super) fn count(&self, state: State) -> usize {
        self.pending
            .iter()
            .filter_map(|number| self.rows.get(number))
            .filter(|row| row.placement.state() == state)
            .count()
    }

    /// Those with an outcome that were changed behind a revision, in the order of their changes, each with its revision.
    pub(super) fn outcomes_after(&self, revision: u64) -> impl Iterator<Item = (u64, &Placement)> {
        let behind = self.outcomes.range(revision.saturating_add(1)..);
        behind.filter_map(|(revision, number)| Some((*revision, &self.rows.get(number)?.placement)))
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Drops old records: keys after `ttl`, placements with traces a week after their end.
    pub(super) fn prune(&mut self, now: Moment, ttl: Duration, changes: &mut Vec<Change>) {
        let is_old = |placement: &Placement| {
            let key_is_old = placement.identity.key.is_none() || now.since(placement.at) > ttl;
            let is_shown = placement.settled.is_some_and(|settled| now.since(settled.at) <= KEEP);
            placement.is_at_rest() && key_is_old && !is_shown
        };
        let old = self.rows.values().filter(|row| is_old(&row.placement)).map(|row| row.placement.number);
        let old: Vec<u64> = old.filter(|number| !self.held.contains(number)).collect();
        for number in old {
            self.forget(number, changes);
        }
    }

    /// Merges the content of a file. Records that this run has written, or has read before, are newer in memory, also
    /// removed ones.
    pub(super) fn merge(&mut self, changes: Vec<Change>, now: Moment, rules: Rules) {
        let mut runs = BTreeSet::new();
        for change in changes {
            let Change::Placement(run, mut placement) = change else { continue };
            if self.runs.contains(&run) {
                continue;
            }
            runs.insert(run);
            // Another process has given the same number at the same time.
            if self.rows.contains_key(&placement.number) {
                placement.number = self.number(now);
            }
            if self.has_newer_with_key(&placement) {
                placement.identity.key = None;
            }
            placement.apply(Event::Restarted, now, rules);
            self.insert(placement, run);
        }
        self.runs.append(&mut runs);
        self.bound(&mut Vec::new());
    }

    /// Whether the key of a placement from a file leads to a newer one: to one of this run, or to one with a higher number. The file may
    /// have several with a key, because a refused call stays in it for a while.
    fn has_newer_with_key(&self, placement: &Placement) -> bool {
        let known = placement.identity.key.and_then(|key| self.by_key.get(&key));
        let row = known.and_then(|number| self.rows.get(number));
        row.is_some_and(|row| row.run == self.run || row.placement.number > placement.number)
    }

    /// Everything, for a file that has missed something.
    pub(super) fn all(&self) -> Vec<Change> {
        self.rows.values().map(|row| Change::Placement(row.run, row.placement.clone())).collect()
    }
}

fn order(placement: &Placement) -> Order {
    (placement.identity.key.is_some(), !placement.is_at_rest(), placement.at, placement.number)
}
