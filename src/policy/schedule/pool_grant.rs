//! The part of a pool's places in the fleet that this sidecar has, and the results of FETCHes since the last look.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::policy::attempt::Grant;

/// The granted places of one pool; shared by all threads, and kept over a reload of the configuration.
#[derive(Debug)]
pub struct PoolGrant {
    /// Places in place of calls. None ever begins in it: places are counted by their leases.
    grant: Grant,
    most: AtomicU64,
    came: AtomicU64,
    lacked: AtomicU64,
    is_asked: AtomicBool,
    has_emptied: AtomicBool,
}

/// The FETCHes of a pool since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolSeen {
    /// The most jobs that its workers held at once when some came.
    pub most: u64,
    /// How many jobs came.
    pub came: u64,
    /// How many places FETCHes wanted beyond the granted ones.
    pub lacked: u64,
    /// Whether a region had no jobs for places that were there.
    pub has_emptied: bool,
}

impl Default for PoolGrant {
    /// No places until some are granted.
    fn default() -> Self {
        let grant = Grant::default();
        grant.set_limit(Some(0));
        let (most, came, lacked, is_asked, has_emptied) = Default::default();
        Self { grant, most, came, lacked, is_asked, has_emptied }
    }
}

impl PoolGrant {
    /// The grant itself.
    #[must_use]
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// A FETCH has come, and wanted so many places beyond the granted ones.
    pub fn asked(&self, lacking: u64) {
        self.is_asked.store(true, Relaxed);
        self.lacked.fetch_add(lacking, Relaxed);
    }

    /// So many jobs have come, and the workers hold so many now.
    pub fn came(&self, jobs: u64, held: u64) {
        self.came.fetch_add(jobs, Relaxed);
        self.most.fetch_max(held, Relaxed);
    }

    /// A region had no jobs for places that were there.
    pub fn emptied(&self) {
        self.has_emptied.store(true, Relaxed);
    }

    /// The FETCHes since the last look.
    pub fn seen(&self) -> PoolSeen {
        PoolSeen {
            most: self.most.swap(0, Relaxed),
            came: self.came.swap(0, Relaxed),
            lacked: self.lacked.swap(0, Relaxed),
            has_emptied: self.has_emptied.swap(false, Relaxed),
        }
    }

    /// Whether a FETCH has come since this was asked last.
    pub fn take_asked(&self) -> bool {
        self.is_asked.swap(false, Relaxed)
    }
}
