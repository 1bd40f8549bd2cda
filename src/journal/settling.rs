//! Keys with an end that the hub does not have.

use super::Journal;
use super::keys::Keys;
use super::table::Found;
use crate::outcome::Placement;

impl Journal {
    /// The keys that are shared with other sidecars.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// The placements with the end of a key that the hub does not have and that no call holds, the oldest first, at most so many.
    #[must_use]
    pub fn unsettled(&self, max: usize) -> Vec<Found> {
        self.inner.table.lock().unsettled().take(max).collect()
    }

    /// How many placements have the end of a key that the hub does not have.
    #[must_use]
    pub fn unsettled_count(&self) -> usize {
        self.inner.table.lock().unsettled_count()
    }

    /// Notes that the hub has the end of the key, unless the placement was changed since it was found.
    pub fn note_settled(&self, mut found: Found) {
        if let Some(claim) = &mut found.placement.key_claim {
            claim.is_settled = true;
        }
        self.update(&mut found);
    }

    /// Leaves the claim of a placement that no record is kept of to the background.
    pub(super) fn abandon(&self, placement: &Placement) {
        if placement.unsettled().is_some() {
            self.inner.keys.abandon(placement.clone());
        }
    }
}
