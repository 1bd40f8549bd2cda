//! Figures of `Idempotency-Key`s that all sidecars of a hub know.

use super::families::{Counter, Families, IntGauge};
use super::family;
use super::label::{Cells, HubKey, HubQuestion, Label};
use crate::base::words;

words! {
    /// The end of an enqueue with the client's own tracking id, by the index of the hub.
    RepeatedId {
        /// The index does not know the id, or none of its jobs stands in the way.
        New = "new",
        /// The job is there already, and nothing was sent.
        Refused = "refused",
        /// The hub did not answer in time, and the job was sent.
        NoAnswer = "no_answer",
    }
}

impl Label for RepeatedId {
    fn index(self) -> usize {
        self as usize
    }
}

/// Figures of `Idempotency-Key`s that all sidecars of a hub know.
#[derive(Debug, Clone)]
pub struct HubKeys {
    /// Calls with a key that the hub was asked for.
    pub results: Cells<HubKey, Counter>,
    /// Questions about jobs.
    pub questions: Cells<HubQuestion, Counter>,
    /// Enqueues with the client's own tracking id.
    pub repeated_ids: Cells<RepeatedId, Counter>,
    /// Keys with an end that the hub does not have.
    pub unsettled: IntGauge,
    /// Changes of jobs that wait for the hub.
    pub changes_waiting: IntGauge,
    /// Those that were dropped.
    pub changes_dropped: IntGauge,
    /// Bytes of jobs that wait for the hub.
    pub bodies_waiting: IntGauge,
    /// Those that were dropped.
    pub bodies_dropped: IntGauge,
}

impl HubKeys {
    pub(super) fn of(families: &Families) -> Self {
        let results = families.counters(&family::HUB_KEYS);
        let questions = families.counters(&family::HUB_QUESTIONS);
        let repeated_ids = families.counters(&family::HUB_REPEATED_IDS);
        Self {
            results: Cells::each(HubKey::ALL, |result| results.with_label_values(&[result.as_str()])),
            questions: Cells::each(HubQuestion::ALL, |result| questions.with_label_values(&[result.as_str()])),
            repeated_ids: Cells::each(RepeatedId::ALL, |result| repeated_ids.with_label_values(&[result.as_str()])),
            unsettled: families.int_gauge(&family::HUB_KEYS_UNSETTLED),
            changes_waiting: families.int_gauge(&family::HUB_CHANGES_WAITING),
            changes_dropped: families.int_gauge(&family::HUB_CHANGES_DROPPED),
            bodies_waiting: families.int_gauge(&family::HUB_BODIES_WAITING),
            bodies_dropped: families.int_gauge(&family::HUB_BODIES_DROPPED),
        }
    }
}
