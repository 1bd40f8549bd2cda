//! What a seed says, and the marks that jobs carry.

use std::collections::BTreeSet;

use ojs_sidecar::base::Draw;

/// The choices of one seed, in order.
pub struct Script {
    draw: Draw,
    marks: u64,
}

impl Script {
    pub fn new(seed: u64) -> Self {
        Self { draw: Draw::from_seed(seed), marks: 0 }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw.below(bound as u64)).unwrap()
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A mark that no other job carries.
    pub fn mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }
}

/// A mark as a job carries it; fit for a type and for a queue.
pub fn text_of(mark: u64) -> String {
    format!("cnry{mark}x")
}

/// The marks that occur in some bytes.
pub fn marks_in(bytes: &[u8]) -> BTreeSet<u64> {
    let mark_at = |at: usize| {
        let digits: Vec<u8> = bytes[at + 4..].iter().copied().take_while(u8::is_ascii_digit).collect();
        let ends = bytes.get(at + 4 + digits.len()) == Some(&b'x');
        String::from_utf8(digits).unwrap().parse().ok().filter(|_| ends)
    };
    memchr::memmem::find_iter(bytes, b"cnry").filter_map(mark_at).collect()
}
