//! How many enqueues a region has under way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The enqueues under way, and the most that there were.
#[derive(Debug, Clone, Default)]
pub(super) struct AtOnce(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One enqueue under way, until it is answered or given up.
#[derive(Debug)]
pub(super) struct UnderWay(AtOnce);

impl AtOnce {
    pub(super) fn begin(&self) -> UnderWay {
        let now = self.0.now.fetch_add(1, SeqCst) + 1;
        self.0.most.fetch_max(now, SeqCst);
        UnderWay(self.clone())
    }

    pub(super) fn now(&self) -> usize {
        self.0.now.load(SeqCst)
    }

    pub(super) fn most(&self) -> usize {
        self.0.most.load(SeqCst)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.now.fetch_sub(1, SeqCst);
    }
}
