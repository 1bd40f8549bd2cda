//! Which brackets are open, without recursion.

/// The open brackets, one bit each: set for objects.
#[derive(Default)]
pub(super) struct Nest {
    /// The innermost ones, at most 64, the last in the lowest bit.
    word: u64,
    /// Those around them, 64 each.
    outer: Vec<u64>,
    pub(super) len: usize,
}

impl Nest {
    #[inline]
    pub(super) fn push(&mut self, object: bool) {
        if self.len > 0 && self.len.is_multiple_of(64) {
            self.outer.push(self.word);
        }
        self.word = self.word << 1 | u64::from(object);
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.word >>= 1;
        self.len = self.len.saturating_sub(1);
        if self.len.is_multiple_of(64)
            && let Some(word) = self.outer.pop()
        {
            self.word = word;
        }
    }

    #[inline]
    pub(super) const fn top(&self) -> Option<bool> {
        if self.len == 0 { None } else { Some(self.word & 1 == 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_close_in_the_order_in_which_they_were_opened_however_deep() {
        let kinds: Vec<bool> = (0..300_u32).map(|place| place.count_ones() % 2 == 1).collect();
        let mut nest = Nest::default();
        for (len, kind) in kinds.iter().enumerate() {
            assert_eq!(nest.len, len);
            nest.push(*kind);
            // A neighbour that comes and goes changes nothing.
            nest.push(!kind);
            nest.pop();
            assert_eq!(nest.top(), Some(*kind));
        }
        for kind in kinds.iter().rev() {
            assert_eq!(nest.top(), Some(*kind));
            nest.pop();
        }
        assert_eq!((nest.top(), nest.len), (None, 0));
    }
}
