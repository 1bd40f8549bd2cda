//! A worker's notes beside its job: its progress, and its checkpoint.

use super::answer::Object;
use super::members::Raw;
use super::state::JobState;
use crate::text::rfc3339;

/// How far an attempt has come.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    /// A number from 0 to 1, as it was written.
    pub(super) share: Option<Raw>,
    pub(super) message: Option<Raw>,
    pub(super) data: Option<Raw>,
    pub(super) at_ms: u64,
}

/// Where an attempt can be taken up again.
#[derive(Debug, Clone)]
pub(super) struct Checkpoint {
    pub(super) state: Raw,
    /// How many there were before, and this one.
    pub(super) sequence: u64,
    pub(super) at_ms: u64,
}

impl Checkpoint {
    /// The document; the state is included on request only.
    pub(super) fn document(&self, id: &str, with_state: bool) -> String {
        let state = with_state.then(|| self.state.get());
        let object = Object::new().text("job_id", id).maybe_raw("state", state).number("sequence", self.sequence);
        let checkpoint = object.text("created_at", &rfc3339(self.at_ms)).finish();
        Object::new().raw("checkpoint", &checkpoint).finish()
    }
}

/// Everything that is left.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    pub(super) progress: Option<Progress>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Whether the agent that the job is was paused.
    pub(super) is_paused: bool,
    /// The branches of that agent, oldest first.
    pub(super) branches: Vec<String>,
}

impl Notes {
    /// The progress of a job: no error before the first report, and complete once the job is.
    pub(super) fn progress_document(&self, id: &str, state: JobState) -> String {
        let progress = self.progress.as_ref();
        let share = progress.and_then(|progress| progress.share.as_deref()).map_or("null", |share| share.get());
        let is_done = progress.is_some() && state == JobState::Completed;
        let data = progress.and_then(|progress| progress.data.as_deref()).map_or("null", |data| data.get());
        let message = progress.and_then(|progress| progress.message.as_deref()).map(|message| message.get());
        Object::new()
            .text("job_id", id)
            .text("state", state.as_str())
            .raw("progress", if is_done { "1.0" } else { share })
            .maybe_raw("message", message)
            .raw("data", data)
            .maybe_text("updated_at", progress.map(|progress| rfc3339(progress.at_ms)).as_deref())
            .finish()
    }
}
