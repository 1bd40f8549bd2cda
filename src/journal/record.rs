//! What the journal holds: closed words, ids, regions, fingerprints and times. Nothing of what a job contains, and no token.

/// A longer id is not kept: no server makes one, and what is kept must have a bound.
pub const ID_BYTES_MAX: usize = 256;

/// The random bytes with which callers' headers are fingerprinted.
pub type Secret = [u8; 32];
