//! How many clients may be connected at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bound on client connections, shared by all listeners and threads.
#[derive(Debug, Clone)]
pub struct ConnectionPermits {
    open: Arc<AtomicUsize>,
    max: usize,
}

/// Leave for one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<AtomicUsize>);

impl ConnectionPermits {
    /// At most `max` connections at once.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { open: Arc::default(), max }
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) fn acquire(&self) -> Option<Permit> {
        let more = |open| (open < self.max).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Permit(Arc::clone(&self.open)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
