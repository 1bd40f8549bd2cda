//! Workflows: their jobs made in turn, and their states kept.

use uuid::Uuid;

use super::super::state::WorkflowState;
use super::super::workflow::{Launch, Outcome, Workflow};
use super::{Dialect, JobState, Store};
use crate::refused::NotCancelled;

/// How many finished workflows are kept, so that a demo that runs for days does not grow.
const FINISHED_MAX: usize = 10_000;

impl Store {
    /// Begins a workflow that was read, and returns its id.
    pub(crate) fn begin(&mut self, mut workflow: Workflow) -> String {
        let now = self.settle();
        let id = Uuid::now_v7().to_string();
        (workflow.id, workflow.created_ms) = (id.clone(), now);
        let launches = workflow.go_on(now, self.dialect);
        self.workflows.all.insert(id.clone(), workflow);
        self.launch(launches);
        id
    }

    /// The document of a workflow.
    pub(crate) fn workflow(&mut self, id: &str) -> Option<String> {
        self.settle();
        let workflow = self.workflows.all.get(id)?;
        Some(workflow.document(self.dialect, |id| self.jobs.get(id).map(|job| job.state)))
    }

    /// The ids of the workflows in a state, or of all, each as its own key: in the order in which they began.
    pub(crate) fn workflows(&mut self, state: Option<&str>) -> Vec<(String, String)> {
        self.settle();
        let all = self.workflows.all.values();
        let wanted = all.filter(|workflow| state.is_none_or(|state| workflow.state.as_str() == state));
        wanted.map(|workflow| (workflow.id.clone(), workflow.id.clone())).collect()
    }

    /// Calls a workflow off. By the documents, jobs that a worker has may finish.
    pub(crate) fn cancel_workflow(&mut self, id: &str) -> Result<(), NotCancelled> {
        let now = self.settle();
        let workflow = self.workflows.all.get_mut(id).ok_or(NotCancelled::NotFound)?;
        if workflow.state != WorkflowState::Running {
            return Err(NotCancelled::Over(workflow.state));
        }
        workflow.cancel(now);
        let jobs: Vec<String> = workflow.parts.iter().filter_map(|part| part.job.clone()).collect();
        let spares_active = self.dialect == Dialect::Spec;
        for job in jobs {
            let spared = |state: JobState| state.is_terminal() || spares_active && state == JobState::Active;
            if self.jobs.get(&job).is_some_and(|job| !spared(job.state)) {
                let ended = self.end(&job, JobState::Cancelled, |_| ());
                debug_assert!(ended.is_ok(), "the id comes from the store itself");
            }
        }
        self.note_finished(id.to_owned());
        Ok(())
    }

    /// Reports to a job's workflow that the job is over.
    pub(super) fn follow(&mut self, id: &str) {
        let Some(job) = self.jobs.get(id) else { return };
        let Some(membership) = job.membership.clone() else { return };
        let outcome = match job.state {
            JobState::Completed => Outcome::Completed(job.result.clone()),
            JobState::Cancelled => Outcome::Cancelled,
            _ => Outcome::Failed,
        };
        let Some(workflow) = self.workflows.all.get_mut(&membership.workflow_id) else { return };
        let was = workflow.state;
        let launches = workflow.settle(membership.place, outcome, self.at_ms, self.dialect);
        let is_over = was == WorkflowState::Running && workflow.state != WorkflowState::Running;
        self.launch(launches);
        if is_over {
            self.note_finished(membership.workflow_id);
        }
    }

    fn launch(&mut self, launches: Vec<Launch>) {
        for Launch { envelope, membership } in launches {
            let (workflow, place) = (membership.workflow_id.clone(), membership.place);
            let id = self.put(envelope, Some(membership)).id.clone();
            let workflow = self.workflows.all.get_mut(&workflow);
            if let Some(part) = workflow.and_then(|workflow| workflow.parts.get_mut(place)) {
                part.job = Some(id);
            }
        }
    }

    fn note_finished(&mut self, id: String) {
        self.workflows.finished.push_back(id);
        if self.workflows.finished.len() > FINISHED_MAX
            && let Some(oldest) = self.workflows.finished.pop_front()
        {
            self.workflows.all.remove(&oldest);
        }
    }
}
