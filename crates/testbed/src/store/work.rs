//! Workers' operations: claiming jobs, acknowledging them, heartbeats.

use std::collections::HashSet;

use super::super::job::Lease;
use super::super::members::{Members, Raw};
use super::super::tenant::tenant_of;
use super::parts::Directive;
use super::{Dialect, Job, JobState, Store};
use crate::refused::Refused;

/// How long a worker has a job by default.
const VISIBILITY_MS: u64 = 30_000;

/// How long an attempt may take when the job does not say.
const TIMEOUT_MS: u64 = 1_800_000;

/// A worker's request for jobs.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) queues: Vec<String>,
    pub(crate) count: usize,
    pub(crate) worker_id: Option<String>,
    pub(crate) visibility_ms: Option<u64>,
    /// The tenant whose jobs alone are wanted.
    pub(crate) tenant: Option<String>,
}

impl Claim {
    fn wants(&self, job: &Job) -> bool {
        self.tenant.is_none() || self.tenant == tenant_of(&job.envelope)
    }
}

impl Store {
    /// Hands out jobs: the queues in the order given, each by priority and then by arrival.
    pub(crate) fn fetch(&mut self, claim: &Claim) -> Vec<&Job> {
        let now = self.settle();
        claim.worker_id.iter().for_each(|worker_id| self.saw(worker_id, &claim.queues));
        let worker = claim.worker_id.as_deref().and_then(|worker_id| self.kept.workers.get(worker_id));
        if worker.is_some_and(|worker| worker.is_draining) {
            return Vec::new();
        }
        let mut room = self.room(now);
        let mut seen = HashSet::new();
        // A queue that is named twice hands its jobs out once.
        let names = claim.queues.iter().filter(|name| seen.insert(name.as_str()));
        let mut ids: Vec<String> = Vec::new();
        for name in names {
            let Some(queue) = self.queues.get_mut(name).filter(|queue| !queue.paused) else { continue };
            let pace = queue.pace.as_mut();
            let max = pace.as_ref().map_or(usize::MAX, |pace| usize::from(pace.allows(now)));
            let before = ids.len();
            let jobs = &self.jobs;
            let may_go = |id: &&String| jobs.get(*id).is_some_and(|job| claim.wants(job) && room.takes(job));
            ids.extend(queue.ready.values().filter(may_go).take(max.min(claim.count - before)).cloned());
            if let Some(pace) = pace.filter(|_| ids.len() > before) {
                pace.last_ms = Some(now);
            }
        }
        let counts = self.dialect != Dialect::Redis;
        let usual_timeout = (self.dialect == Dialect::Spec).then_some(TIMEOUT_MS);
        for id in &ids {
            self.alter(id, |job| {
                job.attempt += u32::from(counts);
                job.worker_id.clone_from(&claim.worker_id);
                job.times.started = Some(now);
                let visibility_ms = claim.visibility_ms.or(job.envelope.visibility_ms).unwrap_or(VISIBILITY_MS);
                let timeout_ms = job.envelope.timeout_ms.or(usual_timeout);
                job.be_leased(Lease {
                    visibility_ms,
                    until_ms: now.saturating_add(visibility_ms),
                    timeout_ms: timeout_ms.map(|timeout_ms| now.saturating_add(timeout_ms)),
                });
            });
        }
        self.note_active(&claim.queues);
        ids.iter().filter_map(|id| self.jobs.get(id)).collect()
    }

    /// Notes how many jobs of these queues are active: their number rises with a claim only.
    fn note_active(&mut self, queues: &[String]) {
        for queue in queues {
            let is_its = |job: &&Job| job.state == JobState::Active && job.envelope.queue == *queue;
            let active = self.jobs.values().filter(is_its).count();
            let most = self.most_active.entry(queue.clone()).or_default();
            *most = active.max(*most);
        }
    }

    /// The most active jobs of a queue that there were at once: fetched, not acknowledged, and within their leases.
    pub(crate) fn most_active(&self, queue: &str) -> usize {
        self.most_active.get(queue).copied().unwrap_or(0)
    }

    pub(crate) fn ack(&mut self, id: &str, result: Option<Raw>) -> Result<&Job, Refused> {
        self.settle();
        self.check(id, |state| state == JobState::Active)?;
        self.end(id, JobState::Completed, |job| {
            job.result = result;
            job.acknowledged += 1;
        })
    }

    /// Extends the leases of those of `ids` that are active, and says which.
    pub(crate) fn heartbeat(&mut self, ids: Vec<String>, visibility_ms: Option<u64>) -> Vec<String> {
        let now = self.settle();
        let is_active = |job: &Job| job.state == JobState::Active;
        let extended: Vec<_> = ids.into_iter().filter(|id| self.jobs.get(id).is_some_and(is_active)).collect();
        for id in &extended {
            self.alter(id, |job| {
                let Some(lease) = job.lease else { return };
                let visibility_ms = visibility_ms.unwrap_or(lease.visibility_ms);
                job.be_leased(Lease { until_ms: now.saturating_add(visibility_ms), ..lease });
            });
            if let Some(job) = self.jobs.get(id) {
                self.events.heartbeat(job, now);
            }
        }
        extended
    }

    /// A worker's directive: the strictest of its own and of those of its jobs.
    ///
    /// A job asks by `test_directive` in its meta, as the public cases do.
    pub(crate) fn directive(&self, worker_id: &str, ids: &[String]) -> Directive {
        let asked = |id: &String| {
            let meta = self.jobs.get(id)?.envelope.meta.as_deref()?;
            let text: Option<String> = Members::parse(meta.get().as_bytes()).ok()?.read("test_directive", "").ok()?;
            Directive::parse(&text?)
        };
        let told = self.directives.get(worker_id).copied();
        ids.iter().filter_map(asked).chain(told).max().unwrap_or_default()
    }

    pub(crate) fn direct(&mut self, worker_id: &str, directive: Directive) {
        self.directives.insert(worker_id.to_owned(), directive);
    }
}
