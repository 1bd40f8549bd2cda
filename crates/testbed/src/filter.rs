//! The jobs that a caller means: by the query of a list, or by the `filter` of an operation on many.

use http::request::Parts;
use serde_json::value::RawValue;

use super::job::Job;
use super::members::{Invalid, Members};
use super::query::parameter;
use super::state::JobState;

/// The conditions on a job; absent ones always hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    pub(super) states: Vec<JobState>,
    pub(super) queue: Option<String>,
    /// A type, or the beginning of one before a `*`.
    pub(super) kind: Option<String>,
    pub(super) worker_id: Option<String>,
    /// Of the last error.
    pub(super) error_type: Option<String>,
    pub(super) since_ms: Option<u64>,
    pub(super) until_ms: Option<u64>,
}

impl Filter {
    /// Reads the query of a list.
    ///
    /// Errors: the first member that cannot be.
    pub(super) fn asked(head: &Parts) -> Result<Self, Invalid> {
        let text = |name| parameter(&head.uri, name).filter(|text| !text.is_empty());
        let states = text("state").unwrap_or_default();
        Ok(Self {
            states: states.split(',').filter(|state| !state.is_empty()).map(state).collect::<Result<_, _>>()?,
            queue: text("queue"),
            kind: text("type"),
            worker_id: text("worker_id"),
            error_type: None,
            since_ms: text("since").map(|at| time("since", &at)).transpose()?,
            until_ms: text("until").map(|at| time("until", &at)).transpose()?,
        })
    }

    /// Reads the `filter` of a body.
    ///
    /// Errors: the first member that cannot be.
    pub(super) fn read(members: &Members) -> Result<Self, Invalid> {
        let text = |name| members.read::<String>(name, "is a string");
        let states: Vec<String> = match members.raw("state").map(RawValue::get) {
            Some(list) if list.starts_with('[') => members.read("state", STATES)?.unwrap_or_default(),
            _ => members.read::<String>("state", STATES)?.into_iter().collect(),
        };
        let earlier = [text("until")?, text("older_than")?, text("enqueued_before")?];
        let later = [text("since")?, text("enqueued_after")?];
        Ok(Self {
            states: Self::named(&states)?,
            queue: text("queue")?,
            kind: text("type")?,
            worker_id: text("worker_id")?,
            error_type: text("error_type")?,
            since_ms: later.into_iter().flatten().next().map(|at| time("since", &at)).transpose()?,
            until_ms: earlier.into_iter().flatten().next().map(|at| time("until", &at)).transpose()?,
        })
    }

    /// States by their names.
    ///
    /// Errors: [`Invalid::Member`] for a name that none has.
    pub(super) fn named(names: &[String]) -> Result<Vec<JobState>, Invalid> {
        names.iter().map(state).collect()
    }

    /// The same, with states for when none is named.
    pub(super) fn or_in(mut self, states: &[JobState]) -> Self {
        if self.states.is_empty() {
            self.states = states.to_vec();
        }
        self
    }

    pub(super) fn wants(&self, job: &Job) -> bool {
        let kind = &job.envelope.kind;
        let fits = |wanted: &String| wanted.strip_suffix('*').map_or(wanted == kind, |start| kind.starts_with(start));
        (self.states.is_empty() || self.states.contains(&job.state))
            && self.queue.as_ref().is_none_or(|queue| *queue == job.envelope.queue)
            && self.kind.as_ref().is_none_or(fits)
            && self.worker_id.as_ref().is_none_or(|worker_id| job.worker_id.as_ref() == Some(worker_id))
            && self.error_type.as_ref().is_none_or(|wanted| job.error_type().as_ref() == Some(wanted))
            && self.since_ms.is_none_or(|since| job.times.created >= since)
            && self.until_ms.is_none_or(|until| job.times.created < until)
    }
}

const STATES: &str = "is the name of a state, or an array of such names";

fn state(text: impl AsRef<str>) -> Result<JobState, Invalid> {
    let named = JobState::ALL.into_iter().find(|state| state.as_str() == text.as_ref());
    named.ok_or(Invalid::Member("state", STATES))
}

fn time(name: &'static str, text: &str) -> Result<u64, Invalid> {
    let at: Option<jiff::Timestamp> = text.parse().ok();
    let ms = at.and_then(|at| u64::try_from(at.as_millisecond()).ok());
    ms.ok_or(Invalid::Member(name, "is a time as in RFC 3339"))
}
