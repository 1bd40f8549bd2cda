//! The leases that FETCH calls through this sidecar have brought: what a late acknowledgement is compared with.
//!
//! Nothing waits for the disk here. A change marks its row, and the journal's thread writes all marked rows together, a moment
//! later: of a job that is acknowledged within that moment nothing is ever written.
//!
//! Spec: ojs-protocol 2.2, 2.3.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use super::Journal;
use super::record::{Change, ID_BYTES_MAX};
use super::writer::Work;
use crate::base::RegionId;
use crate::outcome::Moment;

/// A job that is not acknowledged this long after its lease has ended is forgotten: its worker has ended, too.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// A moment as servers write it has thirty bytes or so.
const MOMENT_BYTES_MAX: usize = 64;
/// A lease is no longer than this to us, whatever a worker says.
const VISIBILITY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Of a lease, this part is taken off: the region began to count before its answer was here, and an acknowledgement takes time.
const MARGIN_PARTS: u32 = 10;

/// A job that a region has leased to a worker of this sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its number, in the order of recording; 0 until it is recorded.
    pub number: u64,
    /// The job.
    pub job_id: String,
    /// The region that has leased it.
    pub region: RegionId,
    /// The worker, as the answer to the FETCH shows it.
    pub worker_id: Option<String>,
    /// When the attempt began, as the answer to the FETCH shows it.
    pub started_at: Option<String>,
    /// For how long the job is leased, and again with each heartbeat.
    pub visibility: Duration,
    /// Until when the lease holds without a question; none for one that an earlier run has brought, or that its worker has given back.
    pub until: Option<Instant>,
    /// When it ends.
    pub ends: Moment,
}

impl Lease {
    /// Whether what it holds is within the bounds of what is kept.
    fn fits(&self) -> bool {
        let within = |text: &Option<String>, max: usize| text.as_ref().is_none_or(|text| text.len() <= max);
        (1..=ID_BYTES_MAX).contains(&self.job_id.len())
            && within(&self.worker_id, ID_BYTES_MAX)
            && within(&self.started_at, MOMENT_BYTES_MAX)
    }

    /// Whether no other worker can have the job at this moment.
    #[must_use]
    pub fn holds(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// When it began, or was extended last.
    pub(super) fn began(&self) -> Moment {
        Moment(self.ends.0.saturating_sub(u64::try_from(self.visibility.as_millis()).unwrap_or(u64::MAX)))
    }

    fn begin(&mut self, now: Instant, at: Moment) {
        self.visibility = self.visibility.min(VISIBILITY_MAX);
        self.until = Some(now + (self.visibility - self.visibility / MARGIN_PARTS));
        self.ends = at.after(self.visibility);
    }
}

#[derive(Debug)]
struct Row {
    lease: Lease,
    /// Whether the file has it, or is about to.
    written: bool,
}

/// All leases, in memory, and what of them the file does not have yet.
#[derive(Debug)]
pub(super) struct Leases {
    rows: BTreeMap<u64, Row>,
    by_job: HashMap<String, u64, RandomState>,
    rows_max: usize,
    /// Whether there is a file to write to.
    has_file: bool,
    to_write: BTreeSet<u64>,
    to_drop: Vec<u64>,
    /// Whether the journal's thread knows that there is something to write.
    announced: bool,
    /// Whether what a file holds was read: what it holds later is older than what is here.
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
            announced: false,
            merged: false,
        }
    }

    pub(super) fn set_rows_max(&mut self, rows_max: usize) {
        self.rows_max = rows_max.max(1);
    }

    fn find(&self, job_id: &str) -> Option<&Lease> {
        self.rows.get(self.by_job.get(&*key(job_id))?).map(|row| &row.lease)
    }

    fn put(&mut self, mut lease: Lease, written: bool) {
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
        self.rows.insert(number, Row { lease, written });
        while self.rows.len() > self.rows_max {
            let Some((oldest, _)) = self.rows.first_key_value() else { return };
            self.remove(*oldest);
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(row) = self.rows.remove(&number) else { return };
        let job = key(&row.lease.job_id);
        if self.by_job.get(&*job) == Some(&number) {
            self.by_job.remove(&*job);
        }
        if self.has_file && !self.to_write.remove(&number) && row.written {
            self.to_drop.push(number);
        }
    }

    fn prune(&mut self, now: Moment) {
        let is_old = |row: &Row| now.since(row.lease.ends) > KEEP;
        let old: Vec<u64> = self.rows.iter().filter(|(_, row)| is_old(row)).map(|(number, _)| *number).collect();
        old.into_iter().for_each(|number| self.remove(number));
    }

    /// What the file does not have yet; it is about to be written.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        self.announced = false;
        let mut changes: Vec<Change> = self.to_drop.drain(..).map(Change::DropLease).collect();
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

    /// Takes what a file holds, once. What was recorded since the start is newer.
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
}

impl Journal {
    /// Remembers the jobs that a region has leased to a worker, from now on. What is too long to be kept is left out.
    pub fn leased(&self, leases: impl Iterator<Item = Lease>) {
        let (now, at) = (self.inner.clock.now(), self.now());
        self.with_leases(|all| {
            for mut lease in leases.filter(Lease::fits) {
                lease.begin(now, at);
                all.put(lease, false);
            }
        });
    }

    /// The last lease of a job that came through this sidecar.
    #[must_use]
    pub fn lease_of(&self, job_id: &str) -> Option<Lease> {
        self.inner.leases.lock().find(job_id).cloned()
    }

    /// The region that has leased a job last, as far as that came through this sidecar.
    #[must_use]
    pub fn leased_in(&self, job_id: &str) -> Option<RegionId> {
        self.inner.leases.lock().find(job_id).map(|lease| lease.region.clone())
    }

    /// A region has extended these leases, for so long or for as long as before. One that is over stays so: what a region extends then
    /// may be the lease of another worker.
    pub fn extend_leases<'i>(
        &self,
        region: &RegionId,
        job_ids: impl Iterator<Item = &'i str>,
        visibility: Option<Duration>,
    ) {
        let (now, at) = (self.inner.clock.now(), self.now());
        let mut all = self.inner.leases.lock();
        for job_id in job_ids {
            let number = all.by_job.get(&*key(job_id)).copied();
            let Some(row) = number.and_then(|number| all.rows.get_mut(&number)) else { continue };
            let lease = &mut row.lease;
            if lease.region == *region && lease.holds(now) {
                lease.visibility = visibility.unwrap_or(lease.visibility);
                lease.begin(now, at);
            }
        }
    }

    /// The region has taken an acknowledgement of this lease. A job that is `finished` is never leased again; of another one a later
    /// acknowledgement may come when the next worker has it.
    pub fn end_lease(&self, number: u64, finished: bool) {
        self.with_leases(|all| {
            if finished {
                all.remove(number);
            } else if let Some(row) = all.rows.get_mut(&number) {
                row.lease.until = None;
            }
        });
    }

    pub(super) fn prune_leases(&self, now: Moment) {
        self.with_leases(|all| all.prune(now));
    }

    /// Changes the leases, and announces once that there is something to write.
    fn with_leases(&self, change: impl FnOnce(&mut Leases)) {
        let mut all = self.inner.leases.lock();
        change(&mut all);
        let is_pending = !all.to_write.is_empty() || !all.to_drop.is_empty();
        if is_pending
            && !all.announced
            && let Some(work) = &self.work
        {
            // A full queue is no loss: the next change announces it.
            all.announced = work.try_send(Work::WAKE).is_ok();
        }
    }
}
