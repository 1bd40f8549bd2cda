//! The figures of a hub about tracking ids that several regions have.

use std::cell::Cell;

use super::record::ConflictStep;

/// Counts since the start of this hub.
#[derive(Debug, Default)]
pub(super) struct ConflictCounts {
    /// Tracking ids that were found in several regions.
    pub(super) repeated: Cell<u64>,
    results: [Cell<u64>; ConflictStep::RESULTS.len()],
}

impl ConflictCounts {
    /// Counts a result; other steps are none.
    pub(super) fn note(&self, step: ConflictStep) {
        let place = ConflictStep::RESULTS.iter().position(|it| *it == step);
        if let Some(count) = place.and_then(|place| self.results.get(place)) {
            count.set(count.get() + 1);
        }
    }

    /// Each result with its count.
    pub(super) fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ConflictStep::RESULTS.iter().zip(&self.results).map(|(step, count)| (step.as_str(), count.get()))
    }
}
