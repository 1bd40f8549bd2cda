//! The notes of one thread's jobs, and the rations of its lines about failovers.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::journal::{Journal, Note, Notebook};
use crate::region::Registry;
use crate::telemetry::Ration;

/// A failover that repeats is counted each time and has a line this often.
pub(crate) const LINE_EVERY: Duration = Duration::from_secs(1);

/// Notes that wait for a job, so that a job need not ask for memory: as many as are commonly under way on a thread.
const FREE_MAX: usize = 64;

/// One thread's notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    #[expect(clippy::vec_box, reason = "a note is handed on in its box")]
    free: RefCell<Vec<Box<Note>>>,
    /// Begun with the first note, because not every proxy serves calls. Kept over reloads.
    book: Rc<RefCell<Option<Notebook>>>,
    /// The numbers of the regions, by their places; empty before the first note.
    numbers: RefCell<Vec<u16>>,
}

impl Notes {
    /// Those of the next configuration on the same thread.
    pub(crate) fn successor(&self) -> Self {
        Self { book: Rc::clone(&self.book), ..Self::default() }
    }

    /// An empty note.
    pub(crate) fn begin(&self) -> Box<Note> {
        let mut note = self.free.borrow_mut().pop().unwrap_or_default();
        note.clear();
        note
    }

    pub(crate) fn keep(&self, journal: &Journal, registry: &Registry, mut note: Box<Note>, went_as_planned: bool) {
        self.write(journal, registry, &mut note, went_as_planned);
        let mut free = self.free.borrow_mut();
        if free.len() < FREE_MAX {
            free.push(note);
        }
    }

    // Of its two callers one is on the way of every enqueue.
    #[inline]
    pub(crate) fn write(&self, journal: &Journal, registry: &Registry, note: &mut Note, went_as_planned: bool) {
        let mut book = self.book.borrow_mut();
        let book = book.get_or_insert_with(|| journal.notebook());
        if book.is_open() {
            let mut numbers = self.numbers.borrow_mut();
            if numbers.is_empty() {
                *numbers = journal.region_numbers(registry.regions().iter().map(|it| it.id.clone()));
            }
            journal.keep(book, note, &numbers, went_as_planned);
        }
    }
}

/// The rations of the lines about failovers, by the place of the region that is left.
pub(crate) fn failover_rations(regions: usize) -> Vec<Ration> {
    (0..regions).map(|_| Ration::new(1, LINE_EVERY)).collect()
}
