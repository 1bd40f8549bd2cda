//! The one place of the half-open probe, and its holder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

/// Leave to send one probe.
///
/// Cancel: a dropped permit frees its place.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    pub(super) epoch: u64,
    /// Names the holder of the half-open place; 0 for a permit of a closed breaker, which holds none.
    pub(super) number: u64,
    holder: Arc<AtomicU64>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.number != 0 {
            // Fails when the place has passed to a later permit, which then keeps it.
            let _ = self.holder.compare_exchange(self.number, 0, AcqRel, Acquire);
        }
    }
}

/// Where permits come from.
#[derive(Debug, Default)]
pub(super) struct Gate {
    issued: u64,
    /// The number of the permit that holds the half-open place; 0 for none.
    holder: Arc<AtomicU64>,
}

impl Gate {
    /// A permit that holds no place: any number may be out.
    pub(super) fn freely(&self, epoch: u64) -> Permit {
        Permit { epoch, number: 0, holder: Arc::clone(&self.holder) }
    }

    /// The permit that holds the place; `None` while another does.
    pub(super) fn alone(&mut self, epoch: u64) -> Option<Permit> {
        self.issued += 1;
        self.holder.compare_exchange(0, self.issued, AcqRel, Acquire).ok()?;
        Some(Permit { epoch, number: self.issued, holder: Arc::clone(&self.holder) })
    }

    /// Takes the place back from its holder.
    pub(super) fn clear(&self) {
        self.holder.store(0, Release);
    }
}
