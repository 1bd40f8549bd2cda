//! The region: a shard of jobs for each tenant, leases, and times of jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::TENANTS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits for its time, or for a worker.
    Waits,
    /// A worker has it until then, in milliseconds.
    Active(u64),
    Done,
}

#[derive(Debug)]
pub struct Job {
    pub tenant: usize,
    pub is_report: bool,
    pub arrived_ms: u64,
    /// When it may start.
    pub due_ms: u64,
    /// When a worker had it first.
    pub started_ms: Option<u64>,
    pub state: State,
    /// How often it was handed out.
    pub leases: u64,
    /// The documents except it from `exact` until this lease ends.
    pub is_excepted: bool,
}

#[derive(Debug)]
pub struct Region {
    pub jobs: Vec<Job>,
    /// By tenant: those that wait, by their time; and the active ones, by the end of their leases.
    waiting: Vec<BTreeSet<(u64, usize)>>,
    active: Vec<BTreeMap<usize, u64>>,
}

impl Region {
    pub fn new() -> Self {
        Self { jobs: Vec::new(), waiting: vec![BTreeSet::new(); TENANTS], active: vec![BTreeMap::new(); TENANTS] }
    }

    /// Stores a job.
    pub fn store(&mut self, tenant: usize, is_report: bool, now_ms: u64, due_ms: u64) {
        self.waiting[tenant].insert((due_ms, self.jobs.len()));
        let (arrived_ms, started_ms, state) = (now_ms, None, State::Waits);
        let (leases, is_excepted) = (0, false);
        self.jobs.push(Job { tenant, is_report, arrived_ms, due_ms, started_ms, state, leases, is_excepted });
    }

    /// Hands out so many jobs of a tenant at most.
    pub fn fetch(&mut self, tenant: usize, count: u64, now_ms: u64, lease_ms: u64) -> Vec<usize> {
        self.expire(tenant, now_ms);
        let due = self.waiting[tenant].range(..=(now_ms, usize::MAX)).take(count as usize);
        let jobs: Vec<_> = due.copied().collect();
        for (due_ms, job) in &jobs {
            self.waiting[tenant].remove(&(*due_ms, *job));
            let it = &mut self.jobs[*job];
            it.started_ms.get_or_insert(now_ms);
            it.state = State::Active(now_ms + lease_ms);
            (it.leases, it.is_excepted) = (it.leases + 1, false);
            self.active[tenant].insert(*job, now_ms + lease_ms);
        }
        jobs.into_iter().map(|(_, job)| job).collect()
    }

    /// A worker has done a job, unless this lease of it is over.
    pub fn ack(&mut self, (job, lease): (usize, u64), now_ms: u64) {
        if self.is_of(job, lease, now_ms) {
            self.jobs[job].state = State::Done;
            self.active[self.jobs[job].tenant].remove(&job);
        }
    }

    /// Extends a lease by a heartbeat. Returns whether it was not over.
    pub fn extend(&mut self, (job, lease): (usize, u64), now_ms: u64, lease_ms: u64) -> bool {
        let is_of = self.is_of(job, lease, now_ms);
        if is_of {
            self.jobs[job].state = State::Active(now_ms + lease_ms);
            self.active[self.jobs[job].tenant].insert(job, now_ms + lease_ms);
        }
        is_of
    }

    fn is_of(&mut self, job: usize, lease: u64, now_ms: u64) -> bool {
        self.expire(self.jobs[job].tenant, now_ms);
        matches!(self.jobs[job].state, State::Active(_)) && self.jobs[job].leases == lease
    }

    /// Active jobs of a tenant, and those of them that the documents except.
    pub fn active(&mut self, tenant: usize, now_ms: u64) -> (u64, u64) {
        self.expire(tenant, now_ms);
        let excepted = self.active[tenant].keys().filter(|job| self.jobs[**job].is_excepted).count();
        (self.active[tenant].len() as u64, excepted as u64)
    }

    /// Jobs whose leases are over wait again.
    fn expire(&mut self, tenant: usize, now_ms: u64) {
        let over: Vec<usize> =
            self.active[tenant].iter().filter(|(_, ends)| **ends <= now_ms).map(|(job, _)| *job).collect();
        for job in over {
            self.active[tenant].remove(&job);
            self.jobs[job].state = State::Waits;
            self.waiting[tenant].insert((self.jobs[job].due_ms, job));
        }
    }
}
