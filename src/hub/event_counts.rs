//! The figures of a hub about the event streams that it reads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Instant;

use crate::base::words;

#[expect(unreachable_pub, reason = "the macro of closed words makes public types")]
mod closed {
    use super::words;

    words! {
        /// The fate of an event, or of the steps of a job that a list shows.
        EventResult {
            /// It is in the index.
            Taken = "taken",
            /// It is no step of a job: progress, or a job that is available again.
            Other = "other",
            /// It cannot be read, is about another queue, or its time is out of bounds.
            Odd = "odd",
            /// It has more than 64 KiB.
            TooLong = "too_long",
            /// The region does not have its job any more, of which nothing else is known.
            Gone = "gone",
            /// The meta of its job could be read in two ways, so that it is not known to be bound.
            Unclear = "unclear",
            /// The region has not shown its job, several times.
            Unanswered = "unanswered",
        }

        /// The state of the stream of one queue.
        StreamState {
            /// Events come.
            Open = "open",
            /// It is to be opened, again or for the first time.
            Connecting = "connecting",
            /// The region has no such stream.
            Absent = "absent",
            /// The region refuses it, or answers something else.
            Refused = "refused",
        }

        /// The end of a look at the lists of a queue, for events that were missed.
        CatchUp {
            /// All that was asked for was read.
            Done = "done",
            /// There were more jobs than are read.
            Cut = "cut",
            /// The region does not answer; it is asked again.
            Failed = "failed",
            /// The region has no such list.
            Absent = "absent",
        }
    }
}

pub(super) use closed::{CatchUp, EventResult, StreamState};

/// Counts since the start of this hub, and the present state of each stream.
#[derive(Debug, Default)]
pub(super) struct EventCounts {
    results: [Cell<u64>; EventResult::ALL.len()],
    catch_ups: [Cell<u64>; CatchUp::ALL.len()],
    /// How often events may have been missed: a stream has ended, or its server has said so.
    pub(super) gaps: Cell<u64>,
    /// The state of each stream, by its queue.
    pub(super) streams: RefCell<BTreeMap<String, StreamState>>,
    /// Whether this hub reads them; another one of the same record does otherwise.
    pub(super) is_reading: Cell<bool>,
    /// Events that were read and are not in the index yet, and since when the oldest waits.
    pub(super) waiting: Cell<(usize, Option<Instant>)>,
}

fn add<const N: usize>(counts: &[Cell<u64>; N], place: usize, count: u64) {
    if let Some(it) = counts.get(place) {
        it.set(it.get().saturating_add(count));
    }
}

impl EventCounts {
    /// Counts events.
    pub(super) fn note(&self, result: EventResult, count: usize) {
        add(&self.results, result as usize, count as u64);
    }

    /// Counts a look at the lists of a queue.
    pub(super) fn caught_up(&self, end: CatchUp) {
        add(&self.catch_ups, end as usize, 1);
    }

    /// Notes the state of a stream.
    pub(super) fn set(&self, queue: &str, state: StreamState) {
        self.streams.borrow_mut().insert(queue.to_owned(), state);
    }

    /// Whether events come from any stream. Without any stream there is nothing to open.
    pub(super) fn is_any_open(&self) -> bool {
        let streams = self.streams.borrow();
        streams.is_empty() || streams.values().any(|it| *it == StreamState::Open)
    }

    /// Each result with its count.
    pub(super) fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        EventResult::ALL.iter().zip(&self.results).map(|(it, count)| (it.as_str(), count.get()))
    }

    /// Each end of a look at lists with its count.
    pub(super) fn catch_ups(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CatchUp::ALL.iter().zip(&self.catch_ups).map(|(it, count)| (it.as_str(), count.get()))
    }

    /// Each state with the number of streams in it.
    pub(super) fn states(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let streams = self.streams.borrow();
        let count = |state: StreamState| streams.values().filter(|it| **it == state).count();
        StreamState::ALL.map(|state| (state.as_str(), count(state))).into_iter()
    }
}
