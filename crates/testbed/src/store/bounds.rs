//! Queues that are full.

use super::super::bounds::{Bound, Depth};
use super::{JobState, Store};

impl Store {
    /// Gives a queue a bound, or takes it away.
    pub(crate) fn bound(&mut self, queue: &str, bound: Option<Bound>) {
        self.settle();
        self.queues.entry(queue.to_owned()).or_default().bound = bound;
    }

    /// Makes room for so many jobs where the queue's strategy is to drop the oldest.
    ///
    /// Errors: how full the queue is, when it takes fewer.
    pub(crate) fn make_room(&mut self, queue: &str, coming: u64) -> Result<(), Depth> {
        self.settle();
        let Some((bound, depth)) = self.depth(queue) else { return Ok(()) };
        let excess = depth.jobs.saturating_add(coming).saturating_sub(depth.max);
        if excess > 0 && !bound.drops_oldest {
            return Err(depth);
        }
        for _ in 0..excess {
            let ready = self.queues.get(queue).into_iter().flat_map(|queue| &queue.ready);
            let oldest = ready.min_by_key(|((_, sequence), _)| *sequence).map(|(_, id)| id.clone());
            // A job that a worker has, or that waits for its time, is not dropped.
            let Some(oldest) = oldest else { return Err(depth) };
            let ended = self.end(&oldest, JobState::Discarded, |_| ());
            debug_assert!(ended.is_ok(), "the id comes from the store itself");
        }
        Ok(())
    }

    /// How full a queue is, from the share of its bound on that is worth a warning.
    pub(crate) fn pressure(&mut self, queue: &str) -> Option<Depth> {
        self.settle();
        let (bound, depth) = self.depth(queue)?;
        (depth.share() >= bound.warning).then_some(depth)
    }

    fn depth(&self, name: &str) -> Option<(Bound, Depth)> {
        let queue = self.queues.get(name)?;
        let bound = queue.bound?;
        let open = JobState::ALL.into_iter().filter(|state| !state.is_terminal());
        Some((bound, Depth { jobs: open.map(|state| queue.counts.of(state)).sum(), max: bound.depth_max }))
    }
}
