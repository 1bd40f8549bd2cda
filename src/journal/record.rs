//! The content of the journal: closed words, ids, regions, fingerprints and times. It has no part of a job's content,
//! and no token.

/// The longest id that is recorded: no server makes a longer one, and records must have a bound. Units: bytes.
pub const ID_BYTES_MAX: usize = 256;

/// The random bytes with which callers' headers are fingerprinted.
pub type Secret = [u8; 32];
