//! How many clients may be connected at once, and how much memory they may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory of an idle connection: its task, its timers and its socket. Units: bytes.
const CONNECTION_BYTES: usize = 4 * 1024;
/// Of the memory, one part in so many is kept from answers, which may be held for minutes: for requests on their way in.
const KEPT_FOR_REQUESTS: usize = 4;

/// Bounds on client connections and their memory, shared by all listeners and threads.
#[derive(Debug, Clone)]
pub struct ConnectionPermits {
    held: Arc<Held>,
    max: usize,
}

#[derive(Debug)]
struct Held {
    open: AtomicUsize,
    /// Heads and bodies that are not complete, and answers that are not at their end. Units: bytes.
    bytes: AtomicUsize,
    /// Bodies in memory, which are bounded elsewhere and take part of the room.
    bodies: Option<&'static AtomicUsize>,
    bytes_max: usize,
}

/// Leave for one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<Held>);

/// The bytes that connections may hold together, for a charge on them; no connection by itself.
#[derive(Debug, Clone)]
pub(super) struct Memory(Arc<Held>);

/// The memory of one connection, given back when it is dropped. Units: bytes.
#[derive(Debug)]
pub(super) struct Charge {
    held: Arc<Held>,
    bytes: usize,
    /// So many bytes are left for others.
    leaves: usize,
}

impl ConnectionPermits {
    /// At most `max` connections at once.
    #[must_use]
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests"))]
    pub fn new(max: usize) -> Self {
        Self::within(max, usize::MAX, None)
    }

    /// The same, with a bound on the bytes of all connections together, of which bodies in memory take their part. The
    /// number of connections is bounded so that idle ones alone fit these bytes.
    #[must_use]
    pub fn within(max: usize, bytes_max: usize, bodies: Option<&'static AtomicUsize>) -> Self {
        let (open, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let max = max.min((bytes_max / CONNECTION_BYTES).max(1));
        Self { held: Arc::new(Held { open, bytes, bodies, bytes_max }), max }
    }
    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.held.open.load(Ordering::Relaxed)
    }

    /// The memory of the connections. Units: bytes.
    #[must_use]
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests"))]
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
    /// A charge of nothing yet, for a request on its way in.
    pub(super) fn incoming(&self) -> Charge {
        Charge { held: Arc::clone(&self.0), bytes: 0, leaves: 0 }
    }

    /// A charge of nothing yet, for an answer on its way out.
    pub(super) fn outgoing(&self) -> Charge {
        self.memory().outgoing()
    }

    /// The account for memory that outlives the connection.
    pub(super) fn memory(&self) -> Memory {
        Memory(Arc::clone(&self.0))
    }
}

impl Memory {
    /// A charge of nothing yet, for an answer on its way out.
    pub(super) fn outgoing(&self) -> Charge {
        Charge { held: Arc::clone(&self.0), bytes: 0, leaves: self.0.bytes_max / KEPT_FOR_REQUESTS }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Charge {
    /// Whether nothing is held.
    pub(super) const fn is_nothing(&self) -> bool {
        self.bytes == 0
    }

    /// Charges so many bytes from now on; false, with the charge unchanged, where there is no room. Less always fits.
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
        let room = self.held.bytes_max.saturating_sub(bodies).saturating_sub(self.leaves);
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
        let kib = |count: usize| count << 10;
        let permits = ConnectionPermits::within(2, kib(10), Some(&BODIES));
        let (first, second) = (permits.acquire().unwrap(), permits.acquire().unwrap());
        assert!(permits.acquire().is_none());
        let (mut one, mut other) = (first.incoming(), second.incoming());
        assert!(one.set(kib(6)) && other.set(kib(4)) && !other.set(kib(5)));
        assert_eq!(permits.bytes(), kib(10));
        assert!(one.set(kib(2)) && other.set(kib(8)));
        BODIES.store(kib(5), Ordering::Relaxed);
        assert!(other.set(kib(1)) && !other.set(kib(4)) && other.set(kib(3)), "the bodies take their part");
        drop((one, other));
        assert_eq!(permits.bytes(), 0);
    }

    #[test]
    fn answers_leave_a_quarter_of_the_memory_to_requests() {
        let permits = ConnectionPermits::within(10, 16 << 10, None);
        let permit = permits.acquire().unwrap();
        let (mut answer, mut request) = (permit.outgoing(), permit.incoming());
        assert!(!answer.set((12 << 10) + 1) && answer.set(12 << 10));
        assert!(request.set(4 << 10) && !permit.outgoing().set(1));
    }

    #[test]
    fn connections_are_no_more_than_their_memory_has_room_for() {
        assert_eq!(ConnectionPermits::within(1_000, 40 << 10, None).max, 10);
        assert_eq!(ConnectionPermits::within(5, 40 << 10, None).max, 5);
    }
}
