//! Dead letters: jobs that have failed for good and are kept for operators.

use super::{Job, Store};
use crate::refused::Refused;

impl Store {
    pub(crate) fn dead_letter(&mut self, id: &str) -> Option<&Job> {
        self.settle();
        self.jobs.get(id).filter(|job| job.is_dead)
    }

    /// Gives a dead letter all its attempts again; its history stays.
    pub(crate) fn retry_dead_letter(&mut self, id: &str) -> Result<&Job, Refused> {
        if self.dead_letter(id).is_none() {
            return Err(Refused::NotFound);
        }
        self.revive(id)
    }

    pub(crate) fn delete_dead_letter(&mut self, id: &str) -> Result<(), Refused> {
        if self.dead_letter(id).is_none() {
            return Err(Refused::NotFound);
        }
        self.remove(id);
        Ok(())
    }
}
