//! The part of the report of a new job that only its call knows. For the ledger the rest is read in the job as it was sent, by the thread of the
//! connection to the hub; else, and for a sharded queue, its call has written it down.

use super::body::Reach;
use super::line::{Description, JobTexts};
use crate::ojs::JobDetails;

/// The part of a stored job that the ledger of the hub gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ledgered {
    /// Nothing: the ledger has no row of it.
    #[default]
    No,
    /// That it exists: its description stays with the regions that it is bound to.
    Bare,
    /// Its priority and the digest of its arguments, too.
    Described,
}

/// A job that is about to be sent, as its call leaves it for the hub.
#[derive(Debug, Clone)]
pub struct Outline {
    /// As in [`super::JobFacts::bound`].
    bound: bool,
    ledgered: Ledgered,
    more: Option<Box<More>>,
}

/// The parts that few jobs have.
#[derive(Debug, Clone, Default)]
struct More {
    /// In place of the one that the job as it was sent would give.
    written: Option<Description>,
    caller_tenant: Option<String>,
    reach: Option<Reach>,
    trial: Option<String>,
}

impl Outline {
    /// The outline of a job with a part for the ledger; its description is read from its body later.
    #[must_use]
    pub const fn new(bound: bool, ledgered: Ledgered) -> Self {
        Self { bound, ledgered, more: None }
    }

    fn with(self, change: impl FnOnce(&mut More)) -> Self {
        let mut more = self.more.unwrap_or_default();
        change(&mut more);
        Self { more: Some(more), ..self }
    }

    /// The same with a description that the call has written: none is read from the body.
    #[must_use]
    pub fn written(self, description: Description) -> Self {
        self.with(|more| more.written = Some(description))
    }

    /// The same of a job that belongs to this tenant, unless it names another one.
    #[must_use]
    pub fn of_caller(self, tenant: &str) -> Self {
        self.with(|more| more.caller_tenant = Some(tenant.to_owned()))
    }

    /// The same with the regions that may have the body, which the hub then gets.
    #[must_use]
    pub fn with_reach(self, reach: Reach) -> Self {
        self.with(|more| more.reach = Some(reach))
    }

    /// The same of a job that goes by the permission of a half-open breaker.
    #[must_use]
    pub fn of_trial(self, name: &str) -> Self {
        self.with(|more| more.trial = Some(name.to_owned()))
    }

    /// The part that the ledger gets.
    #[must_use]
    pub const fn of_ledger(&self) -> Ledgered {
        self.ledgered
    }

    /// The regions that the job may go to, where the hub is to get its bytes.
    #[must_use]
    pub fn reach(&self) -> Option<&Reach> {
        self.more.as_ref()?.reach.as_ref()
    }

    /// Whether the job as it was sent is read for its report.
    #[must_use]
    pub fn reads_sent(&self) -> bool {
        self.ledgered == Ledgered::Described || self.more.as_ref().is_none_or(|more| more.written.is_none())
    }

    /// The bytes that it holds beside itself. Units: bytes.
    pub(super) fn bytes(&self) -> usize {
        self.more.as_ref().map_or(0, |more| more.bytes())
    }

    /// The description of the job. `sent`: the job as it was sent.
    pub(super) fn describe(self, sent: &JobDetails<'_>) -> Description {
        let bound = self.bound;
        let More { written, caller_tenant, trial, .. } = self.more.map(|more| *more).unwrap_or_default();
        let description = written.unwrap_or_else(|| {
            let job = JobTexts {
                job_type: sent.job_type.as_deref(),
                queue: Some(sent.queue_name()),
                tenant: sent.tenant.as_deref().or(caller_tenant.as_deref()),
                bound,
            };
            Description::new(sent.replicated_from.as_deref(), Some(job))
        });
        match trial {
            Some(trial) => description.of_trial(trial),
            None => description,
        }
    }
}

impl More {
    fn bytes(&self) -> usize {
        let texts = [&self.caller_tenant, &self.trial].into_iter().flatten().map(String::capacity);
        let written = self.written.as_ref().map_or(0, Description::bytes);
        size_of::<Self>() + written + texts.sum::<usize>() + self.reach.as_ref().map_or(0, Reach::length)
    }
}
