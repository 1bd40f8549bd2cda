//! The bodies of batches and bulk enqueues: `{"jobs":[…]}` and the members beside it, read in place.
//!
//! A batch is understood only where it has one reading: one object with one member `jobs`, spelled exactly, an array of
//! objects. Then every routing key is either a job's own, or stands beside the jobs and binds all of them. Any other
//! creating body is [`Several::Other`]: it has parts, but it cannot be split.

pub mod answer;
mod body;
mod read;

use std::borrow::Cow;

use super::create::Found;
use super::envelope::Envelope;
use super::routing_key::RoutingKey;

/// The body of a call that creates several jobs.
#[derive(Debug, Clone)]
pub enum Several<'b> {
    /// A batch, which can be taken apart.
    Batch(Batch<'b>),
    /// Anything else.
    Other(Found<'b>),
}

impl<'b> Several<'b> {
    /// Notes the tenant that the head of the call names, for every job.
    pub fn set_caller_tenant(&mut self, tenant: Option<&'b str>) {
        match self {
            Self::Other(found) => found.set_caller_tenant(tenant),
            Self::Batch(batch) => {
                let jobs = batch.jobs.iter_mut();
                let inside = jobs.flat_map(|job| std::iter::once(&mut job.envelope).chain(&mut job.within));
                inside.chain(&mut batch.beside).for_each(|envelope| envelope.set_caller_tenant(tenant));
            }
        }
    }
}

/// A batch, read in place.
#[derive(Clone)]
pub struct Batch<'b> {
    /// Its jobs, in order.
    ///
    /// Shape: at most 10 000.
    pub jobs: Vec<Element<'b>>,
    /// Possible jobs beside the jobs, such as defaults or callbacks: the regions may make jobs of them, so that they
    /// bind all.
    pub beside: Vec<Envelope<'b>>,
    /// The routing keys beside the jobs, wherever they hide: they bind all jobs.
    pub keys: Vec<RoutingKey<'b>>,
    /// The `atomic` member of a bulk enqueue; `None` where it is absent.
    pub atomicity: Option<Cow<'b, str>>,
    /// Whether it carries an `idempotency_key`, by which regions remember it.
    pub keyed: bool,
    text: &'b str,
    /// The array of jobs, brackets included.
    array: (usize, usize),
}

/// One job of a batch.
#[derive(Debug, Clone)]
pub struct Element<'b> {
    /// The job itself.
    pub envelope: Envelope<'b>,
    /// Possible jobs inside it, such as callbacks; they carry no routing key, but the operator's rules may bind them.
    pub within: Vec<Envelope<'b>>,
}

impl std::fmt::Debug for Batch<'_> {
    // Jobs belong in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
