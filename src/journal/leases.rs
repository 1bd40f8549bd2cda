//! The leases of FETCH calls through this sidecar, which late acknowledgements are compared with.
//!
//! Nothing waits for the disk here. A change marks its row, and the journal's thread writes all marked rows together, a moment
//! later: of a job that is acknowledged within that moment nothing is ever written.
//!
//! Spec: ojs-protocol 2.2, 2.3.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use super::change::Change;
use super::lease::{Lease, LeasePlace};
use super::places::Places;
use crate::base::RegionId;
use crate::outcome::Moment;

/// A job that is not acknowledged this long after its lease has ended is forgotten: its worker has ended, too.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
struct Row {
    lease: Lease,
    /// Whether the file has it, or is about to.
    written: bool,
}

/// All leases, in memory, and the changes that the file does not have yet.
#[derive(Debug)]
pub(super) struct Leases {
    rows: BTreeMap<u64, Row>,
    by_job: HashMap<String, u64, RandomState>,
    rows_max: usize,
    /// Whether there is a file to write to.
    has_file: bool,
    to_write: BTreeSet<u64>,
    to_drop: Vec<u64>,
    /// Leases that have no place any more, which the file is to forget.
    to_free: Vec<u64>,
    pub(super) places: Places,
    /// Whether the journal's thread knows that there is something to write.
    announced: bool,
    /// Whether a file was read: the content of a file that is read later is older than the memory.
    merged: bool,
}

/// A UUID is the same however its letters are written.
fn key(job_id: &str) -> Cow<'_, str> {
    let folds = job_id.len() == 36
        && job_id.bytes().any(|byte| byte.is_ascii_uppercase())
        && uuid::Uuid::try_parse(job_id).is_ok();
    if folds { Cow::Owned(job_id.to_ascii_lowercase()) } else { Cow::Borrowed(job_id) }
}

impl Leases {
    pub(super) fn new(rows_max: usize, has_file: bool) -> Self {
        Self {
            rows: BTreeMap::new(),
            by_job: HashMap::default(),
            rows_max: rows_max.max(1),
            has_file,
            to_write: BTreeSet::new(),
            to_drop: Vec::new(),
            to_free: Vec::new(),
            places: Places::default(),
            announced: false,
            merged: false,
        }
    }

    pub(super) fn set_rows_max(&mut self, rows_max: usize) {
        self.rows_max = rows_max.max(1);
    }

    pub(super) fn find(&self, job_id: &str) -> Option<&Lease> {
        self.rows.get(self.by_job.get(&*key(job_id))?).map(|row| &row.lease)
    }

    pub(super) fn put(&mut self, mut lease: Lease, written: bool) {
        let job = key(&lease.job_id).into_owned();
        // The time leads, so that numbers are unique over restarts, too.
        let last = self.rows.last_key_value().map_or(0, |(number, _)| number + 1);
        let number = if written { lease.number } else { (lease.ends.0.min(1 << 46) << 16).max(last) };
        lease.number = number;
        if let Some(old) = self.by_job.insert(job, number) {
            self.remove(old);
        }
        if self.has_file && !written {
            self.to_write.insert(number);
        }
        self.places.add(&lease);
        self.rows.insert(number, Row { lease, written });
        while self.rows.len() > self.rows_max {
            let Some((oldest, _)) = self.rows.first_key_value() else { return };
            self.remove(*oldest);
        }
    }

    pub(super) fn remove(&mut self, number: u64) {
        let Some(row) = self.rows.remove(&number) else { return };
        let job = key(&row.lease.job_id);
        if self.by_job.get(&*job) == Some(&number) {
            self.by_job.remove(&*job);
        }
        self.places.remove(&row.lease);
        self.to_write.remove(&number);
        if self.has_file && row.written {
            self.to_drop.push(number);
            self.to_free.extend(row.lease.place.map(|_| number));
        }
    }

    /// The job of a lease has been given back, or ended by others than its worker.
    pub(super) fn free(&mut self, number: u64) {
        let Some(row) = self.rows.get_mut(&number) else { return };
        self.places.remove(&row.lease);
        if row.lease.place.take().is_some() && self.has_file && row.written {
            self.to_free.push(number);
        }
    }

    /// The lease of a job.
    pub(super) fn number_of(&self, job_id: &str) -> Option<u64> {
        self.by_job.get(&*key(job_id)).copied()
    }

    /// The places that are taken at a moment.
    pub(super) fn taken(&self, at: Moment) -> impl Iterator<Item = &LeasePlace> {
        let leases = self.places.held(at).filter_map(|number| self.rows.get(&number));
        leases.filter_map(|row| row.lease.place.as_ref())
    }

    pub(super) fn prune(&mut self, now: Moment) {
        let is_old = |row: &Row| now.since(row.lease.ends) > KEEP;
        let old: Vec<u64> = self.rows.iter().filter(|(_, row)| is_old(row)).map(|(number, _)| *number).collect();
        old.into_iter().for_each(|number| self.remove(number));
    }

    /// The changes that the file does not have yet; they are about to be written.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        self.announced = false;
        let mut changes: Vec<Change> = self.to_drop.drain(..).map(Change::DropLease).collect();
        changes.extend(self.to_free.drain(..).map(Change::DropPlace));
        for number in std::mem::take(&mut self.to_write) {
            if let Some(row) = self.rows.get_mut(&number) {
                row.written = true;
                changes.push(Change::Lease(row.lease.clone()));
            }
        }
        changes
    }

    /// Everything, for a file that has missed something.
    pub(super) fn all(&mut self) -> Vec<Change> {
        self.changes();
        self.rows.values().map(|row| Change::Lease(row.lease.clone())).collect()
    }

    /// Takes the content of a file, once. Records since the start are newer.
    pub(super) fn merge(&mut self, changes: &[Change]) {
        if std::mem::replace(&mut self.merged, true) {
            return;
        }
        for change in changes {
            if let Change::Lease(lease) = change
                && self.find(&lease.job_id).is_none()
                && !self.rows.contains_key(&lease.number)
            {
                self.put(lease.clone(), true);
            }
        }
    }

    /// A region has extended these leases. One that is over stays so, and its job keeps its place: its worker is at it.
    pub(super) fn extend<'i>(
        &mut self,
        region: &RegionId,
        job_ids: impl Iterator<Item = &'i str>,
        visibility: Option<Duration>,
        (now, at): (Instant, Moment),
    ) {
        for job_id in job_ids {
            let Some(number) = self.number_of(job_id) else { continue };
            let Some(lease) = self.rows.get_mut(&number).map(|row| &mut row.lease) else { continue };
            let (holds, has_place) = (lease.holds(now), lease.place.is_some());
            if lease.region != *region || !(holds || has_place) {
                continue;
            }
            self.places.remove(lease);
            lease.visibility = visibility.unwrap_or(lease.visibility);
            if holds {
                lease.begin(now, at);
            } else {
                lease.prolong(at);
            }
            self.places.add(lease);
            // After a restart its place is to be taken for as long.
            if has_place && self.has_file {
                self.to_write.insert(number);
            }
        }
    }

    /// A lease that is over while its job may be leased again.
    pub(super) fn end(&mut self, number: u64) {
        if let Some(row) = self.rows.get_mut(&number) {
            row.lease.until = None;
        }
        self.free(number);
    }

    /// Whether the journal's thread has to be woken for a write: once until it has taken the changes.
    pub(super) fn is_to_announce(&self) -> bool {
        !self.announced && (!self.to_write.is_empty() || !self.to_drop.is_empty() || !self.to_free.is_empty())
    }

    pub(super) const fn set_announced(&mut self, announced: bool) {
        self.announced = announced;
    }
}
