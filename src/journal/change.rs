//! Changes on their way to the file.

use tokio::sync::oneshot;

use super::lease::Lease;
use super::record::Secret;
use crate::config::PutPool;
use crate::outcome::Placement;
use crate::policy::Quota;
use crate::switch::{HubState, Switches};

/// One change for the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A placement, and the run of the program that changed it last.
    Placement(u64, Placement),
    Lease(Lease),
    Secret(Secret),
    /// All switches that were set here and are in force.
    Switches(Switches),
    /// The last state of the hub.
    Hub(HubState),
    /// The last pools of workers that the hub has named.
    PutPools(Vec<PutPool>),
    /// The last quotas that the hub has named.
    Quotas(Vec<Quota>),
    DropPlacement(u64),
    DropLease(u64),
    /// A lease has no place any more.
    DropPlace(u64),
}

impl Change {
    /// Whether it takes a placement out of the file.
    pub(super) const fn is_drop(&self) -> bool {
        matches!(self, Self::DropPlacement(_))
    }
}

/// Changes that belong together, and the call that waits for them.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) changes: Vec<Change>,
    /// Gets whether they are on disk.
    pub(super) done: Option<oneshot::Sender<bool>>,
}

impl Work {
    /// Leases have changed, or notes wait: the next round writes them together with all other changes.
    pub(super) const WAKE: Self = Self { changes: Vec::new(), done: None };
}
