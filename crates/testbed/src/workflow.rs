//! A workflow: jobs in an order, the dependencies of each, and its end. Pure: the store makes the jobs.
//!
//! The four kinds differ only in their dependencies: in a chain each step depends on the one before it, in a graph
//! (which only the HTTP binding has) each step on those that it names, in a group and a batch no job on another. A
//! batch's callbacks run when all of its jobs are over.

mod read;
mod written;

use super::dialect::Dialect;
use super::envelope::Envelope;
use super::members::Raw;
use super::state::WorkflowState;

/// The kind of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Chain,
    Graph,
    Group,
    Batch,
}

/// When a callback runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    Complete,
    Success,
    Failure,
}

/// The outcome of a job.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Completed(Option<Raw>),
    Failed,
    Cancelled,
}

/// One job of a workflow, or one callback.
#[derive(Debug)]
pub(super) struct Part {
    /// The client's name for it, in a graph.
    pub(super) label: Option<String>,
    pub(super) envelope: Envelope,
    /// The places of those that have to complete first.
    pub(super) needs: Vec<usize>,
    pub(super) hook: Option<Hook>,
    /// Its job, once there is one.
    pub(super) job: Option<String>,
    pub(super) outcome: Option<Outcome>,
}

/// A workflow.
#[derive(Debug)]
pub(super) struct Workflow {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    pub(super) state: WorkflowState,
    /// Its jobs, and after them its callbacks.
    pub(super) parts: Vec<Part>,
    pub(super) created_ms: u64,
    pub(super) ended_ms: Option<u64>,
}

/// A job's part in its workflow.
#[derive(Debug, Clone)]
pub(super) struct Membership {
    pub(super) workflow_id: String,
    pub(super) place: usize,
    /// The results of those before it, as JSON.
    pub(super) parent_results: Option<String>,
}

/// A job that is to be made now.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) envelope: Envelope,
    pub(super) membership: Membership,
}

impl Workflow {
    /// Notes the outcome of a job; returns the jobs to make now. A known outcome does not change.
    pub(super) fn settle(&mut self, place: usize, outcome: Outcome, at_ms: u64, dialect: Dialect) -> Vec<Launch> {
        let Some(part) = self.parts.get_mut(place).filter(|part| part.outcome.is_none()) else { return Vec::new() };
        part.outcome = Some(outcome);
        self.go_on(at_ms, dialect)
    }

    /// The jobs that are to be made now; without any, and with none under way, the workflow is over.
    pub(super) fn go_on(&mut self, at_ms: u64, dialect: Dialect) -> Vec<Launch> {
        if self.state != WorkflowState::Running {
            return Vec::new();
        }
        let mut ready: Vec<usize> = self.places(|part| part.hook.is_none() && part.job.is_none() && self.may_run(part));
        if ready.is_empty() && !self.jobs().iter().any(Part::is_under_way) {
            let callbacks_ran = self.parts.iter().any(|part| part.hook.is_some() && part.job.is_some());
            if !callbacks_ran {
                ready = self.places(|part| part.hook.is_some_and(|hook| self.calls(hook)));
            }
            let waits_for_callbacks = dialect == Dialect::Spec && !ready.is_empty();
            if !waits_for_callbacks && !self.parts.iter().any(Part::is_under_way) {
                self.end(dialect, at_ms);
            }
        }
        ready.into_iter().filter_map(|place| self.launch(place, dialect)).collect()
    }

    /// Calls the workflow off: nothing that it still waits for is made any more.
    pub(super) fn cancel(&mut self, at_ms: u64) {
        (self.state, self.ended_ms) = (WorkflowState::Cancelled, Some(at_ms));
    }

    /// Its jobs without the callbacks.
    pub(super) fn jobs(&self) -> &[Part] {
        let count = self.parts.iter().take_while(|part| part.hook.is_none()).count();
        self.parts.get(..count).unwrap_or_default()
    }

    fn places(&self, wanted: impl Fn(&Part) -> bool) -> Vec<usize> {
        self.parts.iter().enumerate().filter(|(_, part)| wanted(part)).map(|(place, _)| place).collect()
    }

    fn may_run(&self, part: &Part) -> bool {
        part.needs.iter().all(|&place| self.parts.get(place).is_some_and(Part::has_completed))
    }

    fn calls(&self, hook: Hook) -> bool {
        let succeeded = self.jobs().iter().all(Part::has_completed);
        match hook {
            Hook::Complete => true,
            Hook::Success => succeeded,
            Hook::Failure => !succeeded,
        }
    }

    /// The documents judge a batch by its callbacks, once one has run; servers in Go by its jobs.
    fn end(&mut self, dialect: Dialect, at_ms: u64) {
        let mut callbacks = self.parts.iter().filter(|part| part.hook.is_some() && part.job.is_some()).peekable();
        let completed = if dialect == Dialect::Spec && callbacks.peek().is_some() {
            callbacks.all(Part::has_completed)
        } else {
            self.jobs().iter().all(Part::has_completed)
        };
        self.state = if completed { WorkflowState::Completed } else { WorkflowState::Failed };
        self.ended_ms = Some(at_ms);
    }

    fn launch(&self, place: usize, dialect: Dialect) -> Option<Launch> {
        let part = self.parts.get(place)?;
        let parent_results = self.parent_results(place, part, dialect);
        let membership = Membership { workflow_id: self.id.clone(), place, parent_results };
        Some(Launch { envelope: part.envelope.clone(), membership })
    }
}

impl Part {
    pub(super) const fn new(envelope: Envelope) -> Self {
        Self { label: None, envelope, needs: Vec::new(), hook: None, job: None, outcome: None }
    }

    pub(super) const fn has_completed(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Completed(_)))
    }

    const fn is_under_way(&self) -> bool {
        self.job.is_some() && self.outcome.is_none()
    }
}

#[cfg(test)]
mod tests;
