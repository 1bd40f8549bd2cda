//! The text of a few additions, one behind the other, without an allocation where they are the usual ones.

/// An id and a tracking id, each with its member's name, and the object around one of them.
const INLINE_BYTES: usize = 128;

#[derive(Clone)]
pub(super) struct Text {
    inline: [u8; INLINE_BYTES],
    /// The used bytes of `inline`; a text that does not fit is in `spilled`, all of it.
    used: usize,
    spilled: Vec<u8>,
}

impl Default for Text {
    fn default() -> Self {
        Self { inline: [0; INLINE_BYTES], used: 0, spilled: Vec::new() }
    }
}

impl Text {
    #[inline]
    pub(super) fn push(&mut self, text: &str) {
        match self.inline.get_mut(self.used..self.used + text.len()) {
            Some(room) if self.spilled.is_empty() => {
                room.copy_from_slice(text.as_bytes());
                self.used += text.len();
            }
            _ => self.spill(text),
        }
    }

    #[cold]
    fn spill(&mut self, text: &str) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.used]);
        }
        self.spilled.extend_from_slice(text.as_bytes());
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        if self.spilled.is_empty() { &self.inline[..self.used] } else { &self.spilled }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        if self.spilled.is_empty() { self.used } else { self.spilled.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_follows_what_does() {
        let parts = ["x".repeat(INLINE_BYTES - 1), "y".to_owned(), String::new(), "zz".to_owned(), "end".to_owned()];
        let (mut text, mut expected) = (Text::default(), String::new());
        for part in parts {
            text.push(&part);
            expected.push_str(&part);
            assert_eq!((text.as_bytes(), text.len()), (expected.as_bytes(), expected.len()));
        }
    }
}
