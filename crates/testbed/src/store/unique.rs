//! Jobs that keep out others of their kind.

use std::collections::HashSet;

use super::super::unique::{OnConflict, Unique};
use super::{DuplicateIds, Envelope, Job, JobState, Store};

/// The fate of a submitted job.
#[derive(Debug)]
pub(crate) struct Submitted<'s> {
    pub(crate) job: &'s Job,
    /// Whether there was one already, which is then shown.
    pub(crate) is_duplicate: bool,
}

impl Store {
    /// Stores a job unless its own policy, or its id, says that it is there.
    ///
    /// Errors: the id of the job that is there.
    pub(crate) fn submit(&mut self, mut envelope: Envelope) -> Result<Submitted<'_>, String> {
        self.settle();
        let id = envelope.id.clone().unwrap_or_default();
        let is_taken = self.is_taken(&id);
        if is_taken && self.duplicate_ids == DuplicateIds::Same {
            return self.enqueue(envelope).map(|job| Submitted { job, is_duplicate: true }).map_err(|_| id);
        }
        let there = envelope.unique.as_ref().filter(|_| !is_taken);
        let there = there.and_then(|unique| Some((unique.on_conflict, self.twin(unique)?)));
        match there {
            None => {}
            Some((OnConflict::Reject, twin)) => return Err(twin.id.clone()),
            Some((OnConflict::Ignore, twin)) => {
                let id = twin.id.clone();
                return self.jobs.get(&id).map(|job| Submitted { job, is_duplicate: true }).ok_or(id);
            }
            Some((on_conflict, twin)) => {
                if on_conflict == OnConflict::ReplaceExceptSchedule && twin.state == JobState::Scheduled {
                    envelope.scheduled.clone_from(&twin.envelope.scheduled);
                }
                // An ended one keeps its state.
                if let Some(twin) = Some(twin.id.clone()).filter(|_| !twin.state.is_terminal()) {
                    let ended = self.end(&twin, JobState::Cancelled, |_| ());
                    debug_assert!(ended.is_ok(), "the id comes from the store itself");
                }
            }
        }
        self.enqueue(envelope).map(|job| Submitted { job, is_duplicate: false }).map_err(|_| id)
    }

    /// Which of these jobs would be refused if all of them were stored, and because of which job; one that an earlier one of
    /// them keeps out has no such id.
    pub(crate) fn clashes(&mut self, envelopes: &[Envelope]) -> Vec<(usize, Option<String>)> {
        self.settle();
        let (mut ids, mut keys) = (HashSet::new(), HashSet::new());
        let mut clashes = Vec::new();
        for (index, envelope) in envelopes.iter().enumerate() {
            let id = envelope.id.as_ref().filter(|_| self.duplicate_ids == DuplicateIds::Refuse);
            let same_id = id.filter(|id| self.jobs.contains_key(*id) || !ids.insert(*id)).cloned();
            let unique = envelope.unique.as_ref();
            let refuses = unique.filter(|unique| unique.on_conflict == OnConflict::Reject);
            let twin = refuses.and_then(|unique| self.twin(unique)).map(|twin| twin.id.clone());
            let among = unique.is_some_and(|unique| !keys.insert(unique.key.as_str())) && refuses.is_some();
            if same_id.is_some() || twin.is_some() || among {
                clashes.push((index, same_id.or(twin)));
            }
        }
        clashes
    }

    /// The job that is the same one and still counts.
    fn twin(&self, unique: &Unique) -> Option<&Job> {
        let counts = |job: &&Job| {
            let until = |period_ms| job.times.created.saturating_add(period_ms);
            unique.states.contains(&job.state) && unique.period_ms.is_none_or(|period_ms| self.at_ms < until(period_ms))
        };
        let same = self.keys.0.get(&unique.key)?.iter().rev();
        same.filter_map(|id| self.jobs.get(id)).find(counts)
    }
}
