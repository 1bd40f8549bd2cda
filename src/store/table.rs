//! What the journal holds, in memory: what every look-up reads, whether or not there is a file behind it. Bounded in rows.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use foldhash::fast::RandomState;

use super::record::{Change, Digest, Keyed, State, Unknown};

/// What is cleared up is shown and recognised this long. Units: milliseconds.
const KEEP_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

#[derive(Debug)]
pub(super) struct Table {
    rows_max: usize,
    unknowns: BTreeMap<u64, Unknown>,
    by_job: HashMap<String, u64, RandomState>,
    pending: usize,
    /// Those that a call is still busy with.
    held: BTreeSet<u64>,
    keyed: HashMap<Digest, Keyed, RandomState>,
    /// In the order of coming; may hold keys that are gone.
    order: VecDeque<(u64, Digest)>,
}

impl Table {
    pub(super) fn new(rows_max: usize) -> Self {
        Self {
            rows_max: rows_max.max(1),
            unknowns: BTreeMap::new(),
            by_job: HashMap::default(),
            pending: 0,
            held: BTreeSet::new(),
            keyed: HashMap::default(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn set_rows_max(&mut self, rows_max: usize) {
        self.rows_max = rows_max.max(1);
    }

    pub(super) const fn pending(&self) -> usize {
        self.pending
    }

    /// Adds an unknown outcome, giving it a number that is higher than all before; `changes` gets what follows for the file.
    pub(super) fn add(&mut self, mut unknown: Unknown, changes: &mut Vec<Change>) -> u64 {
        // Unique over restarts, too: the time leads.
        let least = unknown.at_ms.min(1 << 46) << 16;
        let last = self.unknowns.last_key_value().map_or(0, |(number, _)| number + 1);
        unknown.number = least.max(last);
        let number = unknown.number;
        self.put(unknown.clone());
        changes.push(Change::Unknown(unknown));
        self.bound(changes);
        number
    }

    pub(super) fn hold(&mut self, number: u64) {
        self.held.insert(number);
    }

    pub(super) fn release(&mut self, number: u64) {
        self.held.remove(&number);
    }

    pub(super) fn is_held(&self, number: u64) -> bool {
        self.held.contains(&number)
    }

    /// Takes a row as it is: from the file.
    pub(super) fn put(&mut self, unknown: Unknown) {
        self.drop_unknown(unknown.number);
        if let Some(id) = &unknown.job_id {
            self.by_job.insert(id.clone(), unknown.number);
        }
        self.pending += usize::from(unknown.state == State::Pending);
        self.unknowns.insert(unknown.number, unknown);
    }

    fn drop_unknown(&mut self, number: u64) {
        let Some(old) = self.unknowns.remove(&number) else { return };
        self.pending -= usize::from(old.state == State::Pending);
        if let Some(id) = &old.job_id
            && self.by_job.get(id) == Some(&number)
        {
            self.by_job.remove(id);
        }
    }

    /// The oldest that are cleared up go first; what is still asked about, last.
    fn bound(&mut self, changes: &mut Vec<Change>) {
        while self.unknowns.len() > self.rows_max {
            let resolved = self.unknowns.values().find(|it| it.state != State::Pending).map(|it| it.number);
            let Some(number) = resolved.or_else(|| self.unknowns.keys().next().copied()) else { return };
            self.drop_unknown(number);
            changes.push(Change::DropUnknown(number));
        }
    }

    pub(super) fn change(&mut self, number: u64, change: impl FnOnce(&mut Unknown)) -> Option<Change> {
        let mut unknown = self.unknowns.get(&number)?.clone();
        change(&mut unknown);
        self.put(unknown.clone());
        Some(Change::Unknown(unknown))
    }

    pub(super) fn of_job(&self, job_id: &str) -> Option<&Unknown> {
        self.unknowns.get(self.by_job.get(job_id)?)
    }

    /// The newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Unknown> {
        self.unknowns.values().rev()
    }

    pub(super) fn of_key(&self, key: &Digest) -> Option<&Keyed> {
        self.keyed.get(key)
    }

    pub(super) fn put_key(&mut self, keyed: Keyed, changes: &mut Vec<Change>) {
        if self.keyed.insert(keyed.key, keyed.clone()).is_none() {
            self.order.push_back((keyed.at_ms, keyed.key));
        }
        changes.push(Change::Keyed(keyed));
        while self.keyed.len() > self.rows_max {
            let Some((_, oldest)) = self.order.pop_front() else { return };
            self.drop_key(&oldest, changes);
        }
    }

    pub(super) fn drop_key(&mut self, key: &Digest, changes: &mut Vec<Change>) {
        if self.keyed.remove(key).is_some() {
            changes.push(Change::DropKeyed(*key));
        }
        // Keys that were taken out leave their places; they are cleared away before they are many.
        if self.order.len() > 2 * self.rows_max.max(self.keyed.len()) {
            let keyed = &self.keyed;
            self.order.retain(|(_, key)| keyed.contains_key(key));
        }
    }

    /// Drops what is too old.
    pub(super) fn prune(&mut self, now_ms: u64, ttl_ms: u64, changes: &mut Vec<Change>) {
        let too_old = |unknown: &&Unknown| unknown.resolved_ms.is_some_and(|at| at.saturating_add(KEEP_MS) < now_ms);
        let old: Vec<u64> = self.unknowns.values().filter(too_old).map(|it| it.number).collect();
        for number in old {
            self.drop_unknown(number);
            changes.push(Change::DropUnknown(number));
        }
        while let Some((at_ms, key)) = self.order.front().copied() {
            if at_ms.saturating_add(ttl_ms) >= now_ms {
                break;
            }
            self.order.pop_front();
            self.drop_key(&key, changes);
        }
    }

    /// Takes what a file holds, beside what is here already.
    pub(super) fn merge(&mut self, changes: Vec<Change>) {
        let mut overflow = Vec::new();
        for change in changes {
            match change {
                Change::Unknown(mut unknown) => {
                    match self.unknowns.get(&unknown.number) {
                        // What was changed since is newer than the file.
                        Some(known) if known.request_id == unknown.request_id => continue,
                        // Another process has given the same number at the same time.
                        Some(_) => unknown.number = self.unknowns.last_key_value().map_or(0, |(last, _)| last + 1),
                        None => {}
                    }
                    self.put(unknown);
                }
                Change::Keyed(keyed) if !self.keyed.contains_key(&keyed.key) => self.put_key(keyed, &mut overflow),
                _ => {}
            }
        }
        self.order.make_contiguous().sort_unstable();
        self.bound(&mut overflow);
    }

    /// Everything, for a file that has missed something.
    pub(super) fn all(&self) -> Vec<Change> {
        let unknowns = self.unknowns.values().cloned().map(Change::Unknown);
        unknowns.chain(self.keyed.values().cloned().map(Change::Keyed)).collect()
    }
}
