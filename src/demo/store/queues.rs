//! Queues as a whole.

use super::super::queue::QueueView;
use super::Store;

impl Store {
    /// A queue as it stands; one that nobody has used is empty.
    pub(in crate::demo) fn queue(&mut self, name: &str) -> QueueView {
        self.settle();
        let (paused, counts) =
            self.queues.get(name).map_or_else(Default::default, |queue| (queue.paused, queue.counts));
        QueueView { name: name.to_owned(), paused, counts }
    }

    pub(in crate::demo) fn queues(&mut self) -> Vec<QueueView> {
        let names: Vec<_> = self.queues.keys().cloned().collect();
        names.iter().map(|name| self.queue(name)).collect()
    }

    pub(in crate::demo) fn is_paused(&self, name: &str) -> bool {
        self.queues.get(name).is_some_and(|queue| queue.paused)
    }

    pub(in crate::demo) fn pause(&mut self, name: &str, paused: bool) {
        let now = self.settle();
        let was = std::mem::replace(&mut self.queues.entry(name.to_owned()).or_default().paused, paused);
        if was != paused {
            self.events.queue(if paused { "queue.paused" } else { "queue.resumed" }, name, now);
            self.changed.send_modify(|version| *version += 1);
        }
    }
}
