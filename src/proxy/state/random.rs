//! Random bits for identifiers and decisions, from the operating system's generator, a buffer at a time.

use std::cell::RefCell;

use rustls::crypto::SecureRandom;

use crate::base::Draw;
use crate::spool::RowNonce;

/// Asking the system costs more than the bits; at 18 bytes a job this asks once for about 28 jobs.
const BUFFER_BYTES: usize = 512;

/// One thread's supply of random bits. Identifiers made of them are unique over all sidecars.
#[derive(Debug)]
pub struct Random {
    source: &'static dyn SecureRandom,
    buffer: RefCell<Buffer>,
}

#[derive(Debug)]
struct Buffer {
    bytes: [u8; BUFFER_BYTES],
    used: usize,
}

impl Default for Random {
    fn default() -> Self {
        let source = rustls::crypto::aws_lc_rs::default_provider().secure_random;
        Self { source, buffer: RefCell::new(Buffer { bytes: [0; BUFFER_BYTES], used: BUFFER_BYTES }) }
    }
}

impl Random {
    /// The random part of a UUIDv7.
    #[must_use]
    pub fn uuid_bits(&self) -> [u8; 10] {
        self.take()
    }

    /// A token that nothing else has.
    #[must_use]
    pub fn token(&self) -> [u8; 32] {
        self.take()
    }

    /// Random bytes for sealing one row of the outage spool.
    #[must_use]
    pub fn nonce(&self) -> RowNonce {
        self.take()
    }

    /// The seed of one decision.
    #[must_use]
    pub fn draw(&self) -> Draw {
        Draw::from_seed(u64::from_ne_bytes(self.take()))
    }

    #[expect(
        clippy::expect_used,
        reason = "aws-lc has no randomness only where the system has none; no id may be guessed then"
    )]
    fn take<const N: usize>(&self) -> [u8; N] {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.used + N > BUFFER_BYTES {
            self.source.fill(&mut buffer.bytes).expect("the operating system supplies random bytes");
            buffer.used = 0;
        }
        let mut taken = [0; N];
        let from = buffer.used;
        if let Some(bytes) = buffer.bytes.get(from..from + N) {
            taken.copy_from_slice(bytes);
        }
        buffer.used += N;
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn bits_do_not_repeat_over_many_refills() {
        let random = Random::default();
        let seen: HashSet<[u8; 10]> = (0..1_000).map(|_| random.uuid_bits()).collect();
        assert_eq!(seen.len(), 1_000);
    }
}
