//! How many clients may be connected at once, and how much memory their connections may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bounds on client connections and on what they hold, shared by all listeners and threads.
#[derive(Debug, Clone)]
pub struct ConnectionPermits {
    held: Arc<Held>,
    max: usize,
}

#[derive(Debug)]
struct Held {
    open: AtomicUsize,
    /// Heads that are not complete, bodies on their way in, and answers that their clients do not read. Units: bytes.
    bytes: AtomicUsize,
    /// Bodies in memory, which are bounded elsewhere and take part of the room.
    bodies: Option<&'static AtomicUsize>,
    bytes_max: usize,
}

/// Leave for one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<Held>);

/// What one connection holds, given back when it is dropped. Units: bytes.
#[derive(Debug)]
pub(super) struct Charge {
    held: Arc<Held>,
    bytes: usize,
}

impl ConnectionPermits {
    /// At most `max` connections at once.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::within(max, usize::MAX, None)
    }

    /// The same, and so many bytes for what they hold together, of which the bodies in memory take their part.
    #[must_use]
    pub fn within(max: usize, bytes_max: usize, bodies: Option<&'static AtomicUsize>) -> Self {
        let (open, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { held: Arc::new(Held { open, bytes, bodies, bytes_max }), max }
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.held.open.load(Ordering::Relaxed)
    }

    /// What connections hold. Units: bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.held.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn acquire(&self) -> Option<Permit> {
        let more = |open| (open < self.max).then_some(open + 1);
        self.held.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Permit(Arc::clone(&self.held)))
    }
}

impl Permit {
    /// A charge of nothing yet.
    pub(super) fn charge(&self) -> Charge {
        Charge { held: Arc::clone(&self.0), bytes: 0 }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Charge {
    /// Holds so many bytes from now on; false, and what is held stays as it was, where there is no room. Less always fits.
    #[must_use]
    pub(super) fn set(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes {
            if bytes < self.bytes {
                self.held.bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
                self.bytes = bytes;
            }
            return true;
        }
        let more = bytes - self.bytes;
        let bodies = self.held.bodies.map_or(0, |bodies| bodies.load(Ordering::Relaxed));
        let room = self.held.bytes_max.saturating_sub(bodies);
        let fits = |sum: usize| sum.checked_add(more).filter(|sum| *sum <= room);
        let fits = self.held.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if fits {
            self.bytes = bytes;
        }
        fits
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_one_bound_with_the_bodies_in_memory() {
        static BODIES: AtomicUsize = AtomicUsize::new(0);
        let permits = ConnectionPermits::within(2, 10, Some(&BODIES));
        let (first, second) = (permits.acquire().unwrap(), permits.acquire().unwrap());
        assert!(permits.acquire().is_none());
        let (mut one, mut other) = (first.charge(), second.charge());
        assert!(one.set(6) && other.set(4) && !other.set(5));
        assert_eq!(permits.bytes(), 10);
        assert!(one.set(2) && other.set(8));
        BODIES.store(5, Ordering::Relaxed);
        assert!(other.set(1) && !other.set(4) && other.set(3), "the bodies take their part");
        drop((one, other));
        assert_eq!(permits.bytes(), 0);
    }
}
