//! Queues as a whole.

use super::super::queue::{Pace, QueueView};
use super::{Envelope, Store};

impl Store {
    /// The state of a queue; an unused one is empty.
    pub(crate) fn queue(&mut self, name: &str) -> QueueView {
        self.settle();
        let (paused, counts) =
            self.queues.get(name).map_or_else(Default::default, |queue| (queue.paused, queue.counts));
        QueueView { name: name.to_owned(), paused, counts }
    }

    pub(crate) fn queues(&mut self) -> Vec<QueueView> {
        let names: Vec<_> = self.queues.keys().cloned().collect();
        names.iter().map(|name| self.queue(name)).collect()
    }

    pub(crate) fn is_paused(&self, name: &str) -> bool {
        self.queues.get(name).is_some_and(|queue| queue.paused)
    }

    pub(crate) fn pause(&mut self, name: &str, paused: bool) {
        let now = self.settle();
        let was = std::mem::replace(&mut self.queues.entry(name.to_owned()).or_default().paused, paused);
        if was != paused {
            self.events.queue(if paused { "queue.paused" } else { "queue.resumed" }, name, now);
            self.changed.send_modify(|version| *version += 1);
        }
    }

    /// A job may limit its queue, from the moment when it is stored.
    pub(super) fn pace(&mut self, envelope: &Envelope) {
        let Some(max) = envelope.per_second_max else { return };
        let queue = self.queues.entry(envelope.queue.clone()).or_default();
        let last_ms = queue.pace.and_then(|pace| pace.last_ms);
        queue.pace = Some(Pace { step_ms: (1_000 / u64::from(max)).max(1), last_ms });
    }
}
