//! What the journal holds, in memory: what every look-up reads, whether or not there is a file behind it. Bounded in rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::record::{Cancelled, Change, Digest, Keyed, Place, State, Unknown};

/// What is cleared up is shown and recognised this long. Units: milliseconds.
const KEEP_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// How many rows had to make room for others.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evicted {
    /// Outcomes that nobody knows.
    pub(super) pending: u64,
    /// Outcomes that were cleared up.
    pub(super) resolved: u64,
    /// Keys that were not too old.
    pub(super) keys: u64,
}

/// Which of two copies is told to go, and what is known of the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tell {
    /// The one that is told.
    pub which: Cancelled,
    /// The other one is completed, and nothing can cancel it any more.
    pub stays_for_good: bool,
    /// How many copies were known to have gone, by [`Journal::gone`](super::Journal::gone), before the other one was looked at.
    pub gone: u64,
}

#[derive(Debug)]
pub(super) struct Table {
    /// Of the program, so that what another run has left can be told from what this one is at.
    run: u64,
    /// Whose rows are here already, or were, and so are not read again.
    runs: BTreeSet<u64>,
    /// When rows of other runs were last read.
    read_at: Option<Instant>,
    rows_max: usize,
    unknowns: BTreeMap<u64, Unknown>,
    /// By every id that a job was sent with.
    by_job: HashMap<String, SmallVec<[u64; 2]>, RandomState>,
    pending: BTreeSet<u64>,
    resolved: BTreeSet<u64>,
    /// Those that a call is still busy with.
    held: BTreeSet<u64>,
    /// How many copies that were told to go are known to have gone, or not to go any more, since the start.
    gone: u64,
    keyed: HashMap<Digest, Keyed, RandomState>,
    /// All keys, by [`Keyed::order`].
    order: BTreeSet<(bool, u64, Digest)>,
    evicted: Evicted,
}

impl Table {
    pub(super) fn new(rows_max: usize, run: u64) -> Self {
        Self {
            run,
            runs: BTreeSet::from([run]),
            read_at: None,
            rows_max: rows_max.max(1),
            unknowns: BTreeMap::new(),
            by_job: HashMap::default(),
            pending: BTreeSet::new(),
            resolved: BTreeSet::new(),
            held: BTreeSet::new(),
            gone: 0,
            keyed: HashMap::default(),
            order: BTreeSet::new(),
            evicted: Evicted::default(),
        }
    }

    pub(super) fn set_rows_max(&mut self, rows_max: usize) {
        self.rows_max = rows_max.max(1);
    }

    pub(super) const fn gone(&self) -> u64 {
        self.gone
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// When the calls of a run have ended at the latest; none where that is not known.
    pub(super) fn ended_at(&self, run: u64) -> Option<Instant> {
        self.read_at.filter(|_| run != self.run)
    }

    /// What was evicted since this was last asked.
    pub(super) fn evicted(&mut self) -> Evicted {
        std::mem::take(&mut self.evicted)
    }

    /// Adds an unknown outcome, giving it a number that is higher than all before; `changes` gets what follows for the file. One
    /// that is held is nobody else's, until it is released.
    pub(super) fn add(&mut self, mut unknown: Unknown, held: bool, changes: &mut Vec<Change>) -> u64 {
        // Unique over restarts, too: the time leads.
        let least = unknown.at_ms.min(1 << 46) << 16;
        let last = self.unknowns.last_key_value().map_or(0, |(number, _)| number + 1);
        unknown.number = least.max(last);
        unknown.run = self.run;
        let number = unknown.number;
        if held {
            self.held.insert(number);
        }
        self.put(unknown.clone());
        changes.push(Change::Unknown(unknown));
        self.bound(changes);
        number
    }

    /// Takes one that is asked about for a call of this run; false where it is known by now, or another call has it.
    pub(super) fn hold(&mut self, number: u64) -> bool {
        let Some(unknown) = self.unknowns.get_mut(&number).filter(|it| it.state == State::Pending) else {
            return false;
        };
        // Where it goes from now on, this run has sent it.
        unknown.run = self.run;
        self.held.insert(number)
    }

    /// Whether it is still as it was found, and no call is busy with it.
    pub(super) fn is_free(&self, found: &Unknown) -> bool {
        !self.held.contains(&found.number) && self.unknowns.get(&found.number) == Some(found)
    }

    pub(super) fn release(&mut self, number: u64) {
        self.held.remove(&number);
    }

    /// Takes a row as it is.
    pub(super) fn put(&mut self, unknown: Unknown) {
        let number = unknown.number;
        self.drop_unknown(number);
        for id in unknown.ids() {
            let numbers = self.by_job.entry(id.to_owned()).or_default();
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let set = if unknown.state == State::Pending { &mut self.pending } else { &mut self.resolved };
        set.insert(number);
        self.unknowns.insert(number, unknown);
    }

    fn drop_unknown(&mut self, number: u64) {
        let Some(old) = self.unknowns.remove(&number) else { return };
        self.pending.remove(&number);
        self.resolved.remove(&number);
        for id in old.ids() {
            let Some(numbers) = self.by_job.get_mut(id) else { continue };
            numbers.retain(|it| *it != number);
            if numbers.is_empty() {
                self.by_job.remove(id);
            }
        }
    }

    /// The oldest that are cleared up go first; what is still asked about, last; what a call is busy with, never.
    fn bound(&mut self, changes: &mut Vec<Change>) {
        while self.unknowns.len() > self.rows_max {
            let free = |set: &BTreeSet<u64>| set.iter().find(|number| !self.held.contains(number)).copied();
            let number = match (free(&self.resolved), free(&self.pending)) {
                (Some(number), _) => {
                    self.evicted.resolved += 1;
                    number
                }
                (None, Some(number)) => {
                    self.evicted.pending += 1;
                    number
                }
                (None, None) => return,
            };
            self.drop_unknown(number);
            changes.push(Change::DropUnknown(number));
        }
    }

    pub(super) fn change(&mut self, number: u64, change: impl FnOnce(&mut Unknown)) -> Option<Change> {
        let mut unknown = self.unknowns.get(&number)?.clone();
        change(&mut unknown);
        self.gone += u64::from(unknown.cancelled.is_some() && unknown.state != State::Pending);
        self.put(unknown.clone());
        Some(Change::Unknown(unknown))
    }

    /// Those that were sent with this id, the newest first.
    pub(super) fn of_job(&self, job_id: &str) -> Vec<&Unknown> {
        let numbers = self.by_job.get(job_id).map(SmallVec::as_slice).unwrap_or_default();
        let mut found: Vec<&Unknown> = numbers.iter().filter_map(|number| self.unknowns.get(number)).collect();
        found.sort_unstable_by_key(|it| std::cmp::Reverse(it.number));
        found
    }

    /// What is known of a job in a place, where it was lost there, too; beside what this row says.
    pub(super) fn state_in(&self, place: &Place, besides: u64) -> Option<State> {
        let here = |it: &&Unknown| it.region == place.region && it.job_id.as_ref() == Some(&place.job_id);
        self.of_job(&place.job_id).into_iter().filter(here).find(|it| it.number != besides).map(|it| it.state)
    }

    /// The rows that have told a copy of a job to go, or of any job while nobody knows whether it did.
    fn tellers(&self, place: &Place, of: &Unknown) -> impl Iterator<Item = &Unknown> {
        let rows = self.of_job(&place.job_id).into_iter().filter(|it| it.told().as_ref() == Some(place));
        rows.filter(|it| it.state == State::Pending || it.is_of_job_of(of))
    }

    /// Whether a copy of a job was told to go, by any row that speaks of it: pending while nobody knows whether it did.
    pub(super) fn told(&self, place: &Place, of: &Unknown) -> Option<State> {
        self.tellers(place, of).map(|it| it.state).min_by_key(|state| *state != State::Pending)
    }

    /// Tells one of two copies to go, both of which have been seen; the row as it is then. None where it is not as it was found any
    /// more, or where the other copy was told to go, by this row or another one, and does not stay for good. What came of that may have
    /// come to be known only after the other copy was looked at.
    pub(super) fn tell(&mut self, found: &Unknown, tell: Tell) -> Option<Unknown> {
        let mut told = found.clone();
        told.elsewhere = told.elsewhere.or_else(|| told.going.take());
        told.cancelled = Some(tell.which);
        let stays = match tell.which {
            Cancelled::Late => told.elsewhere.clone(),
            Cancelled::Elsewhere => told.sent_to(),
        };
        let may_be_gone = |it: &Unknown| it.state == State::Pending || self.gone != tell.gone;
        let is_leaving = stays.is_some_and(|place| self.tellers(&place, found).any(may_be_gone));
        let told = Some(told).filter(|_| (!is_leaving || tell.stays_for_good) && self.is_free(found))?;
        self.put(told.clone());
        Some(told)
    }

    /// The newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Unknown> {
        self.unknowns.values().rev()
    }

    /// Those that are to be asked about and that no call is busy with, the newest first.
    pub(super) fn to_ask(&self) -> impl Iterator<Item = &Unknown> {
        let free = self.pending.iter().rev().filter(|number| !self.held.contains(number));
        free.filter_map(|number| self.unknowns.get(number))
    }

    pub(super) fn of_key(&self, key: &Digest) -> Option<&Keyed> {
        self.keyed.get(key)
    }

    /// Takes a key whose job is about to be sent.
    pub(super) fn begin_key(&mut self, keyed: Keyed, changes: &mut Vec<Change>) {
        self.put_key(Keyed { run: self.run, ..keyed }, changes);
    }

    pub(super) fn put_key(&mut self, keyed: Keyed, changes: &mut Vec<Change>) {
        self.order.insert(keyed.order());
        if let Some(old) = self.keyed.insert(keyed.key, keyed.clone())
            && old.order() != keyed.order()
        {
            self.order.remove(&old.order());
        }
        changes.push(Change::Keyed(keyed));
        while self.keyed.len() > self.rows_max {
            let Some((_, _, oldest)) = self.order.first().copied() else { return };
            self.evicted.keys += 1;
            self.drop_key(&oldest, changes);
        }
    }

    pub(super) fn drop_key(&mut self, key: &Digest, changes: &mut Vec<Change>) {
        if let Some(old) = self.keyed.remove(key) {
            self.order.remove(&old.order());
            changes.push(Change::DropKeyed(*key));
        }
    }

    /// Drops what is too old.
    pub(super) fn prune(&mut self, now_ms: u64, ttl_ms: u64, changes: &mut Vec<Change>) {
        let too_old = |unknown: &&Unknown| unknown.resolved_ms.is_some_and(|at| at.saturating_add(KEEP_MS) < now_ms);
        let resolved = self.resolved.iter().filter_map(|number| self.unknowns.get(number));
        let old: Vec<u64> = resolved.filter(too_old).map(|it| it.number).collect();
        for number in old {
            self.drop_unknown(number);
            changes.push(Change::DropUnknown(number));
        }
        for is_open in [false, true] {
            let from = (is_open, 0, [0; 32]);
            while let Some((_, _, key)) = self
                .order
                .range(from..)
                .next()
                .copied()
                .filter(|it| it.0 == is_open && it.1.saturating_add(ttl_ms) < now_ms)
            {
                self.drop_key(&key, changes);
            }
        }
    }

    /// Takes what a file holds, beside what is here already. What this run has written, or has read before, is newer here, also
    /// where it is gone.
    pub(super) fn merge(&mut self, changes: Vec<Change>, now: Instant) {
        let mut overflow = Vec::new();
        let mut runs = BTreeSet::new();
        for change in changes {
            match change {
                Change::Unknown(mut unknown) if !self.runs.contains(&unknown.run) => {
                    runs.insert(unknown.run);
                    // Another process has given the same number at the same time.
                    if self.unknowns.contains_key(&unknown.number) {
                        unknown.number = self.unknowns.last_key_value().map_or(0, |(last, _)| last + 1);
                    }
                    self.put(unknown);
                }
                Change::Keyed(keyed) if !self.runs.contains(&keyed.run) => {
                    runs.insert(keyed.run);
                    if !self.keyed.contains_key(&keyed.key) {
                        self.put_key(keyed, &mut overflow);
                    }
                }
                _ => {}
            }
        }
        self.runs.append(&mut runs);
        self.read_at = Some(now);
        self.bound(&mut overflow);
    }

    /// Everything, for a file that has missed something.
    pub(super) fn all(&self) -> Vec<Change> {
        let unknowns = self.unknowns.values().cloned().map(Change::Unknown);
        unknowns.chain(self.keyed.values().cloned().map(Change::Keyed)).collect()
    }
}
