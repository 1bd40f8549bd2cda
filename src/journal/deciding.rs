//! Notes of why jobs went where they went, kept and asked for.

use super::Journal;
use super::change::Work;
use super::decision::{Decided, Note, Notebook, Wanted};
use crate::base::RegionId;

impl Journal {
    /// Takes another bound on the notes of jobs; with 0 none are kept.
    pub fn set_decisions_max(&self, rows_max: usize) {
        self.inner.decisions.set_rows_max(rows_max);
    }

    /// Where one more thread keeps its notes of jobs.
    #[must_use]
    pub fn notebook(&self) -> Notebook {
        self.inner.decisions.notebook()
    }

    /// The numbers that these regions have in notes, in their order.
    #[must_use]
    pub fn region_numbers(&self, regions: impl Iterator<Item = RegionId>) -> Vec<u16> {
        self.inner.decisions.numbers(regions)
    }

    /// Keeps the note of a job; one that did not go as planned is on its way to the file, too. Waits for nothing.
    pub fn keep(&self, notebook: &mut Notebook, note: &mut Note, numbers: &[u16], went_as_planned: bool) {
        if notebook.keep(note, numbers, went_as_planned, self.work.is_some()) {
            self.wake();
        }
    }

    /// The notes of how a job was routed.
    pub async fn decided(&self, wanted: Wanted) -> Decided {
        let wake = self.work.is_some().then_some(|| self.wake());
        self.inner.decisions.decided(wanted, wake).await
    }

    /// Wakes the thread for a look-up. A thread with a full queue runs anyway.
    fn wake(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.try_send(Work::WAKE).is_ok())
    }
}
