//! Records that the store keeps beside its jobs.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use http::StatusCode;

use crate::cron::CronJob;
use crate::job::Job;
use crate::workflow::Workflow;

/// The cron jobs, and when each is due.
#[derive(Debug, Default)]
pub(super) struct Crons {
    pub(super) jobs: BTreeMap<String, CronJob>,
    pub(super) due: BTreeSet<(u64, String)>,
}

impl Crons {
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    pub(super) fn enter(&mut self, cron: CronJob) -> &CronJob {
        let name = cron.plan.name.clone();
        if let Some(due_ms) = cron.next_ms {
            self.due.insert((due_ms, name.clone()));
        }
        self.jobs.entry(name).insert_entry(cron).into_mut()
    }

    pub(super) fn take(&mut self, name: &str) -> Option<CronJob> {
        let cron = self.jobs.remove(name)?;
        if let Some(due_ms) = cron.next_ms {
            self.due.remove(&(due_ms, name.to_owned()));
        }
        Some(cron)
    }
}

/// The jobs that have a policy, by their keys, oldest first.
#[derive(Debug, Default)]
pub(super) struct Keys(pub(super) HashMap<String, Vec<String>>);

impl Keys {
    pub(super) fn file(&mut self, job: &Job) {
        if let Some(unique) = &job.envelope.unique {
            self.0.entry(unique.key.clone()).or_default().push(job.id.clone());
        }
    }

    pub(super) fn unfile(&mut self, job: &Job) {
        let Some(unique) = &job.envelope.unique else { return };
        let Some(ids) = self.0.get_mut(&unique.key) else { return };
        ids.retain(|id| *id != job.id);
        if ids.is_empty() {
            self.0.remove(&unique.key);
        }
    }
}

/// The workflows by id, which is their order too.
#[derive(Debug, Default)]
pub(super) struct Workflows {
    pub(super) all: BTreeMap<String, Workflow>,
    pub(super) finished: VecDeque<String>,
}

/// An answer and the request that it was given to.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) request: u64,
    pub(super) at_ms: u64,
    pub(super) status: StatusCode,
    pub(super) document: String,
}

/// The answers by their keys, and these in the order of the requests.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) by_key: HashMap<String, Kept>,
    pub(super) order: VecDeque<String>,
}

/// A directive for a worker, sent with the answer to its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Directive {
    /// Go on.
    #[default]
    Continue,
    /// Fetch no more, and finish the present jobs.
    Quiet,
    /// Give back the present jobs, and end.
    Terminate,
}

impl Directive {
    /// The one that is asked for by this name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Quiet, Self::Terminate].into_iter().find(|directive| directive.as_str() == text)
    }

    /// Its name on the wire of servers in Go.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Quiet => "quiet",
            Self::Terminate => "terminate",
        }
    }
}
