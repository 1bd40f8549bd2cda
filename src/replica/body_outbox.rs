//! The bytes of jobs that this process has not handed to its hub yet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use http::HeaderMap;
use http::uri::PathAndQuery;
use parking_lot::Mutex;

use super::body::{BODIES_BYTES_MAX, BODIES_MAX, BODY_BYTES_MAX, JobBody, Reach};
use super::content::Content;
use crate::base::RegionId;
use crate::ojs::{Segments, segments_len};

/// Jobs that wait for the hub: as much as those of changes. Units: bytes.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The share of a job in memory and in a message beside its body, path, headers and regions. Units: bytes.
const JOB_BYTES: usize = 1_024;

/// A job that a region has stored. Its body is the pieces that were sent, without a copy.
#[derive(Debug, Clone)]
pub struct StoredJob {
    /// The job.
    pub job_id: String,
    /// The region that has stored it.
    pub region: RegionId,
    /// The tracking id, where it is known.
    pub federation_id: Option<String>,
    /// The regions that it may go to.
    pub reach: Reach,
    /// The path of its call, without a query.
    pub path: PathAndQuery,
    /// The content type and the tenant of its call.
    pub headers: HeaderMap,
    /// The job as it was sent.
    pub pieces: Segments,
}

impl StoredJob {
    fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        segments_len(&self.pieces) + self.path.as_str().len() + headers + self.reach.length() + JOB_BYTES
    }

    fn body(self) -> JobBody {
        let body = match &self.pieces[..] {
            [whole] => whole.clone(),
            pieces => Bytes::from(pieces.concat()),
        };
        let call = Content { path: self.path, headers: self.headers, body };
        let (job_id, federation_id) = (self.job_id, self.federation_id);
        JobBody { job_id, region: self.region, federation_id, reach: self.reach, call }
    }
}

/// A bounded queue of stored jobs, oldest first; shared by all threads. Beyond its bound the oldest are dropped and counted.
#[derive(Debug, Default)]
pub struct BodyOutbox {
    waiting: Mutex<Waiting>,
    dropped: AtomicU64,
    is_refused: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<StoredJob>,
    bytes: usize,
    /// The number of the first one, counted from the start of the process.
    first: u64,
}

/// Some stored jobs in the order in which they were seen.
#[derive(Debug, Clone)]
pub struct BodyReport {
    /// The number behind the last one.
    end: u64,
    /// The jobs, those that no hub takes left out.
    pub bodies: Vec<JobBody>,
    /// Whether others wait behind them.
    pub more: bool,
}

impl Waiting {
    fn drop_first(&mut self) -> u64 {
        let Some(first) = self.jobs.pop_front() else { return 0 };
        self.bytes -= first.bytes();
        self.first += 1;
        1
    }
}

impl BodyOutbox {
    /// Adds a job that a region has stored. One that no hub takes is dropped and counted.
    pub fn add(&self, job: StoredJob) {
        let mut dropped = 0;
        if segments_len(&job.pieces) > BODY_BYTES_MAX {
            dropped = 1;
        } else {
            let mut waiting = self.waiting.lock();
            waiting.bytes += job.bytes();
            waiting.jobs.push_back(job);
            while waiting.bytes > WAITING_BYTES_MAX {
                dropped += waiting.drop_first();
            }
        }
        self.dropped.fetch_add(dropped, Relaxed);
    }

    /// The oldest jobs; none where none wait. They stay until [`Self::taken`].
    #[must_use]
    pub fn first(&self) -> Option<BodyReport> {
        let waiting = self.waiting.lock();
        let mut left = BODIES_BYTES_MAX;
        let fits = |job: &&StoredJob| {
            let rest = left.checked_sub(job.bytes());
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let jobs: Vec<StoredJob> = waiting.jobs.iter().take(BODIES_MAX).take_while(fits).cloned().collect();
        let (count, more) = (jobs.len(), jobs.len() < waiting.jobs.len());
        let end = waiting.first + count as u64;
        drop(waiting);
        let mut bodies: Vec<JobBody> = jobs.into_iter().map(StoredJob::body).collect();
        bodies.retain(|body| body.mistake().is_none());
        (count > 0).then_some(BodyReport { end, bodies, more })
    }

    /// The hub has a report, or takes none: `is_kept` says which.
    pub fn taken(&self, report: &BodyReport, is_kept: bool) {
        let mut waiting = self.waiting.lock();
        let mut gone = 0;
        while waiting.first < report.end && !waiting.jobs.is_empty() {
            gone += waiting.drop_first();
        }
        // Those that no hub takes were dropped here, and not kept there.
        let kept = if is_kept { report.bodies.len() as u64 } else { 0 };
        self.dropped.fetch_add(gone.saturating_sub(kept), Relaxed);
    }

    /// Notes whether the hub keeps bodies at all. Returns whether it is new that it does not.
    pub fn note_refused(&self, is_refused: bool) -> bool {
        !self.is_refused.swap(is_refused, Relaxed) && is_refused
    }

    /// Forgets all, without a count: the hub is to get none any more.
    pub fn clear(&self) {
        let mut waiting = self.waiting.lock();
        while waiting.drop_first() > 0 {}
    }

    /// How many wait, and how many were dropped since the start.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.waiting.lock().jobs.len() as u64, self.dropped.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, pieces: &[&[u8]]) -> StoredJob {
        StoredJob {
            job_id: id.to_owned(),
            region: RegionId::parse("eu").unwrap(),
            federation_id: None,
            reach: Reach::Every,
            path: PathAndQuery::from_static("/ojs/v1/jobs"),
            headers: HeaderMap::new(),
            pieces: pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect(),
        }
    }

    fn ids(report: &BodyReport) -> Vec<&str> {
        report.bodies.iter().map(|body| body.job_id.as_str()).collect()
    }

    #[test]
    fn jobs_stay_until_the_hub_has_them_and_leave_within_the_bounds_of_a_message() {
        let outbox = BodyOutbox::default();
        assert!(outbox.first().is_none());
        outbox.add(job("a", &[b"one", b"two"]));
        let first = outbox.first().unwrap();
        outbox.add(job("b", &[b"x"]));
        assert_eq!((ids(&first), &first.bodies[0].call.body[..], first.more), (vec!["a"], &b"onetwo"[..], false));
        assert_eq!(ids(&outbox.first().unwrap()), ["a", "b"], "without a word of the hub they are sent again");
        outbox.taken(&first, true);
        outbox.taken(&first, true);
        assert_eq!((ids(&outbox.first().unwrap()), outbox.counts()), (vec!["b"], (1, 0)));
        let long = vec![b'x'; BODY_BYTES_MAX];
        outbox.add(job("c", &[&long]));
        outbox.add(job("d", &[&long]));
        let report = outbox.first().unwrap();
        assert_eq!((ids(&report), report.more), (vec!["b", "c"], true));
        outbox.taken(&report, false);
        assert_eq!(outbox.counts(), (1, 2), "the hub keeps none");
    }

    #[test]
    fn beyond_the_bound_the_oldest_are_dropped_and_counted_as_those_that_no_hub_takes() {
        let outbox = BodyOutbox::default();
        outbox.add(job("long", &[&vec![b'x'; BODY_BYTES_MAX], b"x"]));
        outbox.add(job("a\nb", &[b"x"]));
        let wrong = outbox.first().unwrap();
        assert_eq!((wrong.bodies.len(), outbox.counts()), (0, (1, 1)));
        outbox.taken(&wrong, true);
        assert_eq!(outbox.counts(), (0, 2));
        let long = vec![b'x'; BODY_BYTES_MAX / 2];
        (0..40).for_each(|number| outbox.add(job(&number.to_string(), &[&long])));
        let (waiting, dropped) = outbox.counts();
        assert_eq!((waiting + dropped, outbox.first().unwrap().bodies[0].job_id.parse()), (42, Ok(dropped - 2)));
        assert!(outbox.waiting.lock().bytes <= WAITING_BYTES_MAX);
        outbox.clear();
        assert_eq!((outbox.counts(), outbox.waiting.lock().bytes), ((0, dropped), 0));
        assert!(outbox.note_refused(true) && !outbox.note_refused(true) && !outbox.note_refused(false));
    }
}
