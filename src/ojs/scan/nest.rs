//! Which brackets are open, without recursion.

use smallvec::SmallVec;

/// The open brackets, one bit each: set for objects.
#[derive(Default)]
pub(super) struct Nest {
    bits: SmallVec<[u64; 2]>,
    pub(super) len: usize,
}

impl Nest {
    pub(super) fn push(&mut self, object: bool) {
        if self.len == self.bits.len() * 64 {
            self.bits.push(0);
        }
        if let Some(word) = self.bits.get_mut(self.len / 64) {
            let bit = 1 << (self.len % 64);
            *word = if object { *word | bit } else { *word & !bit };
        }
        self.len += 1;
    }

    pub(super) const fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    pub(super) fn top(&self) -> Option<bool> {
        let last = self.len.checked_sub(1)?;
        self.bits.get(last / 64).map(|word| word >> (last % 64) & 1 == 1)
    }
}
