//! The part of a job that the ledger of the hub gets.

/// The description of a job for the ledger of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ledger {
    /// None.
    Off,
    /// Its priority, the digest of its arguments, its workers and leases; no byte of its arguments.
    Metadata,
}
