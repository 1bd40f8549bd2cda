//! The document of a workflow, and the results that its jobs get of those before them.

use serde_json::value::RawValue;

use super::super::answer::{Object, quoted};
use super::super::dialect::Dialect;
use super::super::state::JobState;
use super::{Kind, Outcome, Part, Workflow};
use crate::state::WorkflowState;
use crate::text::rfc3339;

impl Kind {
    /// The name on the wire; a graph has none.
    const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Chain => Some("chain"),
            Self::Group => Some("group"),
            Self::Batch => Some("batch"),
            Self::Graph => None,
        }
    }

    /// How the jobs of such a workflow are called.
    const fn list(self) -> &'static str {
        match self {
            Self::Chain | Self::Graph => "steps",
            Self::Group | Self::Batch => "jobs",
        }
    }
}

impl Workflow {
    /// The workflow's document. It never names its jobs by their ids, as servers in Go do not.
    pub(crate) fn document(&self, dialect: Dialect, state_of: impl Fn(&str) -> Option<JobState>) -> String {
        let jobs = self.jobs();
        let completed = jobs.iter().filter(|part| part.has_completed()).count();
        let ended = self.ended_ms.map(rfc3339);
        let list = self.kind.list();
        let object = Object::new()
            .text("id", &self.id)
            .maybe_text("type", self.kind.as_str())
            .maybe_text("name", self.name.as_deref())
            .text("state", self.state.as_str())
            .number(&format!("{list}_total"), jobs.len())
            .number(&format!("{list}_completed"), completed)
            .text("created_at", &rfc3339(self.created_ms))
            .maybe_text("completed_at", ended.as_deref());
        if dialect.in_go() {
            return object.finish();
        }
        let cancelled = ended.as_deref().filter(|_| self.state == WorkflowState::Cancelled);
        let failed = jobs.iter().filter(|part| matches!(part.outcome, Some(Outcome::Failed))).count();
        let metadata = Object::new()
            .text("created_at", &rfc3339(self.created_ms))
            .maybe_text("completed_at", ended.as_deref())
            .number("job_count", jobs.len())
            .number("completed_count", completed)
            .number("failed_count", failed);
        object
            .maybe_text("cancelled_at", cancelled)
            .array(list, jobs.iter().enumerate().map(|(place, part)| self.part(place, part, &state_of)))
            .raw("metadata", &metadata.finish())
            .finish()
    }

    fn part(&self, place: usize, part: &Part, state_of: &impl Fn(&str) -> Option<JobState>) -> String {
        let state = match (&part.outcome, part.job.as_deref().map(state_of)) {
            (Some(Outcome::Completed(_)), _) => "completed",
            (Some(Outcome::Failed), _) => "failed",
            (Some(Outcome::Cancelled), _) => "cancelled",
            (None, Some(Some(JobState::Active))) => "active",
            (None, Some(_)) => "pending",
            (None, None) if self.state == WorkflowState::Running => "waiting",
            (None, None) => "cancelled",
        };
        let needs = part.needs.iter().filter_map(|&need| self.parts.get(need)?.label.as_deref()).map(quoted);
        let object = Object::new().number("index", place).maybe_text("id", part.label.as_deref());
        let object = object.text("type", &part.envelope.kind).text("state", state);
        if part.label.is_some() { object.array("depends_on", needs) } else { object }.finish()
    }

    /// The results that a job gets of those before it: by the documents an object of their results by place (in a
    /// graph, by name), at servers in Go a list, and nothing for a callback.
    pub(super) fn parent_results(&self, place: usize, part: &Part, dialect: Dialect) -> Option<String> {
        let before: Vec<(usize, &Part)> = match (part.hook, self.kind) {
            (Some(_), _) => self.jobs().iter().enumerate().collect(),
            (None, Kind::Chain) => self.parts.iter().enumerate().take(place).collect(),
            (None, Kind::Graph) => part.needs.iter().filter_map(|&need| Some((need, self.parts.get(need)?))).collect(),
            (None, Kind::Group | Kind::Batch) => return None,
        };
        if dialect.in_go() {
            let results: Vec<&str> = before.iter().filter_map(|(_, part)| result(part)).collect();
            let told = part.hook.is_none() && !results.is_empty();
            return told.then(|| format!("[{}]", results.join(",")));
        }
        let one = |object: Object, (place, part): &(usize, &Part)| {
            let name = part.label.clone().unwrap_or_else(|| place.to_string());
            object.raw(&name, result(part).unwrap_or("null"))
        };
        Some(before.iter().fold(Object::new(), one).finish())
    }
}

fn result(part: &Part) -> Option<&str> {
    match &part.outcome {
        Some(Outcome::Completed(result)) => result.as_deref().map(RawValue::get),
        _ => None,
    }
}
