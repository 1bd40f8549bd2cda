//! Bounds of a pool.

use std::time::Duration;

/// The least that the buffer of a connection may hold: regions that fill it are as many as there are calls.
const BUFFER_BYTES: usize = 64 * 1024;

/// Bounds of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Idle connections kept; further ones are closed.
    pub idle_max: usize,
    /// How long one is kept idle.
    pub idle_timeout: Duration,
    /// How long one lives at most.
    pub lifetime: Duration,
    /// A response head, in bytes.
    pub head_bytes: usize,
    /// Header lines of a response.
    pub headers: usize,
}

impl PoolLimits {
    /// The bytes of a region that a connection may hold unread: room for a head, and for the pieces of a stream.
    pub(super) fn buffer_bytes(&self) -> usize {
        BUFFER_BYTES.max(self.head_bytes.saturating_mul(2))
    }
}
