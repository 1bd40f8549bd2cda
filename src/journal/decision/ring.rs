//! The newest notes of one thread, in memory.

use parking_lot::Mutex;

use super::note::{Note, Wanted};

/// Notes that get their memory together: 128 are some 60 kB, so that a thread asks for memory once in so many jobs until it has all.
const CHUNK: usize = 128;

/// A bounded number of notes; a new note takes the place of the oldest.
///
/// One thread writes. A look-up holds the lock for a chunk at a time, some microseconds.
#[derive(Debug, Default)]
pub(super) struct Ring(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    chunks: Vec<Vec<Note>>,
    /// Where the next one goes.
    next: usize,
    rows_max: usize,
}

impl Ring {
    /// Sets the bound. Notes beyond it are forgotten.
    pub(super) fn set_rows_max(&self, rows_max: usize) {
        let mut notes = self.0.lock();
        notes.rows_max = rows_max;
        notes.chunks.truncate(rows_max.div_ceil(CHUNK));
        if notes.next >= rows_max {
            notes.next = 0;
        }
    }

    pub(super) fn push(&self, note: &Note) {
        self.0.lock().push(note);
    }

    /// Adds the wanted notes to `found`.
    pub(super) fn find(&self, wanted: &Wanted, found: &mut Vec<Note>) {
        let mut chunk = 0;
        loop {
            // Let go of between two chunks, so that its thread never waits for the whole search.
            let notes = self.0.lock();
            let Some(notes) = notes.chunks.get(chunk) else { return };
            found.extend(notes.iter().filter(|note| note.is_about(wanted)));
            chunk += 1;
        }
    }
}

impl Notes {
    fn push(&mut self, note: &Note) {
        if self.rows_max == 0 {
            return;
        }
        let (chunk, place) = (self.next / CHUNK, self.next % CHUNK);
        if chunk >= self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK.min(self.rows_max)));
        }
        let Some(notes) = self.chunks.get_mut(chunk) else { return };
        match notes.get_mut(place) {
            Some(slot) => *slot = *note,
            None => notes.push(*note),
        }
        self.next = (self.next + 1) % self.rows_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: usize) -> Note {
        let mut note = Note::default();
        note.job_id.set(format!("job-{number}").as_bytes());
        note
    }

    fn known(ring: &Ring, among: usize) -> Vec<usize> {
        let is_known = |number: &usize| {
            let mut found = Vec::new();
            ring.find(&Wanted::Job(format!("job-{number}")), &mut found);
            !found.is_empty()
        };
        (0..among).filter(is_known).collect()
    }

    #[test]
    fn the_newest_notes_are_kept_and_the_oldest_make_room() {
        let ring = Ring::default();
        ring.set_rows_max(CHUNK + 3);
        (0..2 * CHUNK).for_each(|number| ring.push(&note(number)));
        assert_eq!(known(&ring, 2 * CHUNK), (CHUNK - 3..2 * CHUNK).collect::<Vec<_>>());
    }

    #[test]
    fn a_bound_of_nothing_keeps_nothing_and_a_smaller_one_forgets() {
        let ring = Ring::default();
        ring.push(&note(0));
        assert!(known(&ring, 1).is_empty());
        ring.set_rows_max(3 * CHUNK);
        (0..3 * CHUNK).for_each(|number| ring.push(&note(number)));
        ring.set_rows_max(CHUNK);
        assert_eq!(known(&ring, 3 * CHUNK).len(), CHUNK);
        ring.push(&note(1_000));
        assert_eq!(known(&ring, 1_001).len(), CHUNK);
    }
}
