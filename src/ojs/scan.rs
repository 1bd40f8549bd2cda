//! A bounded, strict JSON scanner over raw bytes.
//!
//! It checks UTF-8, the grammar of RFC 8259 and the depth, and returns places; it builds nothing. Numbers keep their
//! spelling (`1E400`, thirty digits), escapes of unpaired surrogates pass as Go servers let them pass, and duplicate
//! names are left to the caller. There is no recursion: open brackets are one bit each.
//!
//! Plane: data.

mod nest;
mod run;
mod string;

use super::key::Text;
use nest::Nest;
pub(super) use run::{ascii_run, plain_run};

/// Why a body is not acceptable JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The bytes are not JSON.
    #[error("at byte {offset}, expected {expected}")]
    Malformed {
        /// Where, in bytes from the start.
        offset: usize,
        /// The expectation at that place.
        expected: &'static str,
    },
    /// Brackets nest too deeply.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The deepest nesting that is accepted.
        limit: usize,
    },
}

/// Checks that `body` is one JSON value, nested at most `depth_max` deep.
///
/// Errors: [`ScanError`], with the first offence.
pub fn scan(body: &[u8], depth_max: usize) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(body, depth_max)?;
    scanner.skip()?;
    scanner.end()
}

/// Start and end of an object that was scanned before.
pub(super) type Jump = (usize, usize);

/// The reports of a [`Scanner::walk`], in the order of the bytes.
pub(super) trait Visit<'b> {
    type Error: From<ScanError>;
    /// Whether names are reported.
    const NAMES: bool = true;
    fn open(&mut self, at: usize, object: bool) -> Result<(), Self::Error>;
    /// `after` is the offset behind the name, before its colon.
    fn key(&mut self, key: Text<'b>, after: usize) -> Result<(), Self::Error>;
    fn close(&mut self, end: usize);
}

/// A place in a body, and the rules by which it is read from there.
pub(super) struct Scanner<'b, 'j> {
    text: &'b str,
    at: usize,
    depth: usize,
    depth_max: usize,
    jumps: &'j [Jump],
    /// The length of the longest member name so far, as it is written.
    longest_name: usize,
}

impl<'b> Scanner<'b, '_> {
    /// Starts at the first byte; checks the encoding of all of them.
    pub(super) fn new(body: &'b [u8], depth_max: usize) -> Result<Self, ScanError> {
        // The quicker one does not say where the fault is.
        let text = simdutf8::basic::from_utf8(body)
            .or_else(|_| std::str::from_utf8(body))
            .map_err(|error| ScanError::Malformed { offset: error.valid_up_to(), expected: "UTF-8 text" })?;
        Ok(Self { text, at: 0, depth: 0, depth_max, jumps: &[], longest_name: 0 })
    }
}

impl<'b, 'j> Scanner<'b, 'j> {
    /// Starts at `at` in a text that was scanned before; objects among `jumps` (sorted) are stepped over.
    pub(super) const fn again(text: &'b str, at: usize, jumps: &'j [Jump]) -> Self {
        Self { text, at, depth: 0, depth_max: usize::MAX, jumps, longest_name: 0 }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    pub(super) const fn text(&self) -> &'b str {
        self.text
    }

    /// The length of the longest member name that was passed, between its quotes. Units: bytes.
    pub(super) const fn longest_name(&self) -> usize {
        self.longest_name
    }

    /// The first byte of the next value or mark, white space skipped.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u8> {
        match self.text.as_bytes().get(self.at) {
            Some(&byte) if byte > b' ' => Some(byte),
            _ => self.next_behind_space(),
        }
    }

    #[inline(never)]
    fn next_behind_space(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// Demands that nothing but white space is left.
    pub(super) fn end(&mut self) -> Result<(), ScanError> {
        if self.next().is_some() { Err(self.expected("the end of the body")) } else { Ok(()) }
    }

    /// Steps over one value of any kind; returns where it stands.
    #[inline]
    pub(super) fn skip(&mut self) -> Result<(usize, usize), ScanError> {
        let first = self.next();
        let start = self.at;
        match first {
            Some(b'{' | b'[') => self.pass_container()?,
            _ => self.scalar(first)?,
        }
        Ok((start, self.at))
    }

    #[inline(never)]
    fn pass_container(&mut self) -> Result<(), ScanError> {
        self.walk(&mut Nobody)
    }

    /// Steps over one value and reports its parts. The jumps are not reported.
    pub(super) fn walk<V: Visit<'b>>(&mut self, visit: &mut V) -> Result<(), V::Error> {
        let mut nest = Nest::default();
        loop {
            match self.next() {
                Some(b'{') if self.jump() => {}
                Some(open @ (b'{' | b'[')) => {
                    let object = open == b'{';
                    self.enter(nest.len)?;
                    visit.open(self.at - 1, object)?;
                    nest.push(object);
                    if self.next() != Some(closing(object)) {
                        if object {
                            self.name(visit)?;
                        }
                        continue;
                    }
                }
                first => self.scalar(first)?,
            }
            loop {
                let Some(object) = nest.top() else { return Ok(()) };
                match self.next() {
                    Some(b',') => {
                        self.at += 1;
                        if object {
                            self.name(visit)?;
                        }
                        break;
                    }
                    Some(byte) if byte == closing(object) => {
                        self.at += 1;
                        nest.pop();
                        visit.close(self.at);
                    }
                    _ => return Err(self.unclosed(object).into()),
                }
            }
        }
    }

    /// Reads an object member by member; `member` must step over each value. Returns whether it has members.
    pub(super) fn object<E: From<ScanError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Text<'b>) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.enclosed(true, |scanner| {
            let key = scanner.key()?;
            member(scanner, key)
        })
    }

    /// Reads an array element by element; `element` must step over each. Returns whether it has any.
    pub(super) fn array<E: From<ScanError>>(
        &mut self,
        element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.enclosed(false, element)
    }

    fn enclosed<E: From<ScanError>>(
        &mut self,
        object: bool,
        mut item: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.next() != Some(if object { b'{' } else { b'[' }) {
            return Err(self.expected(if object { "an object" } else { "an array" }).into());
        }
        self.enter(0)?;
        self.depth += 1;
        let mut any = false;
        if self.next() != Some(closing(object)) {
            any = true;
            loop {
                item(self)?;
                match self.next() {
                    Some(b',') => self.at += 1,
                    Some(byte) if byte == closing(object) => break,
                    _ => return Err(self.unclosed(object).into()),
                }
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(any)
    }

    /// Steps over a value that is no container; `first` is its first byte.
    #[inline]
    fn scalar(&mut self, first: Option<u8>) -> Result<(), ScanError> {
        match first {
            Some(b'"') => self.pass_string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => Err(self.expected("a JSON value")),
        }
    }

    #[inline]
    fn literal(&mut self, word: &'static str) -> Result<(), ScanError> {
        if !self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            return Err(self.expected("true, false or null"));
        }
        self.at += word.len();
        Ok(())
    }

    #[inline]
    fn number(&mut self) -> Result<(), ScanError> {
        let byte = |at: usize| self.text.as_bytes().get(at).copied().unwrap_or_default();
        let mut at = self.at + usize::from(byte(self.at) == b'-');
        at = if byte(at) == b'0' { at + 1 } else { self.digits(at)? };
        if byte(at) == b'.' {
            at = self.digits(at + 1)?;
        }
        if matches!(byte(at), b'e' | b'E') {
            at += 1;
            at = self.digits(at + usize::from(matches!(byte(at), b'+' | b'-')))?;
        }
        self.at = at;
        Ok(())
    }

    /// Where the digits end that begin at `from`; there is at least one.
    #[inline]
    fn digits(&self, from: usize) -> Result<usize, ScanError> {
        let mut at = from;
        while self.text.as_bytes().get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        if at == from { Err(ScanError::Malformed { offset: from, expected: "a digit" }) } else { Ok(at) }
    }

    /// Steps over one byte when `wanted` holds for it.
    #[inline]
    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let found = self.text.as_bytes().get(self.at).copied().is_some_and(wanted);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn enter(&mut self, nested: usize) -> Result<(), ScanError> {
        if self.depth + nested >= self.depth_max {
            return Err(ScanError::TooDeep { limit: self.depth_max });
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over the object that begins here when its end is known.
    #[inline]
    fn jump(&mut self) -> bool {
        if self.jumps.is_empty() {
            return false;
        }
        let Ok(place) = self.jumps.binary_search_by_key(&self.at, |jump| jump.0) else { return false };
        let Some(&(_, end)) = self.jumps.get(place) else { return false };
        self.at = end;
        true
    }

    #[cold]
    const fn unclosed(&self, object: bool) -> ScanError {
        self.expected(if object { "a comma or a closing brace" } else { "a comma or a closing bracket" })
    }

    #[cold]
    const fn expected(&self, expected: &'static str) -> ScanError {
        ScanError::Malformed { offset: self.at, expected }
    }
}

struct Nobody;

impl Visit<'_> for Nobody {
    type Error = ScanError;
    const NAMES: bool = false;

    fn open(&mut self, _: usize, _: bool) -> Result<(), ScanError> {
        Ok(())
    }

    fn key(&mut self, _: Text<'_>, _: usize) -> Result<(), ScanError> {
        Ok(())
    }

    fn close(&mut self, _: usize) {}
}

const fn closing(object: bool) -> u8 {
    if object { b'}' } else { b']' }
}

#[cfg(test)]
mod tests;
