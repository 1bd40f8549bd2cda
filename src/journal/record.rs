//! What the journal holds: closed words, ids, regions, fingerprints and times. Nothing of what a job contains, and no token.

use super::leases::Lease;
use crate::outcome::Placement;

/// A longer id is not kept: no server makes one, and what is kept must have a bound.
pub const ID_BYTES_MAX: usize = 256;

/// The random bytes with which callers' headers are fingerprinted.
pub type Secret = [u8; 32];

/// One change for the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A placement, and the run of the program that changed it last.
    Placement(u64, Placement),
    Lease(Lease),
    Secret(Secret),
    DropPlacement(u64),
    DropLease(u64),
}
