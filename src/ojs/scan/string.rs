//! Strings, and the names of members.

use super::run::plain_run;
use super::{ScanError, Scanner, Visit};
use crate::ojs::key::Text;

const NO_STRING: &str = "a string in double quotes";

impl<'b> Scanner<'b, '_> {
    /// Reads a string.
    #[inline]
    pub(in crate::ojs) fn string(&mut self) -> Result<Text<'b>, ScanError> {
        if self.next() != Some(b'"') {
            return Err(self.expected(NO_STRING));
        }
        self.quoted()
    }

    /// Reads the string with its opening quote here.
    #[inline]
    fn quoted(&mut self) -> Result<Text<'b>, ScanError> {
        let start = self.at;
        let escaped = self.pass_string()?;
        Ok(Text::in_body(self.text, (start, self.at), escaped))
    }

    /// Steps over the string with its opening quote here; returns whether it holds a backslash.
    #[inline]
    pub(super) fn pass_string(&mut self) -> Result<bool, ScanError> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        self.at += plain_run(&bytes[self.at..]);
        if bytes.get(self.at) != Some(&b'"') {
            return self.pass_escapes();
        }
        self.at += 1;
        Ok(false)
    }

    /// Steps over the rest of a string in which something stands that is no ordinary text.
    #[inline(never)]
    fn pass_escapes(&mut self) -> Result<bool, ScanError> {
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err(self.expected("no raw control character inside a string")),
                None => return Err(self.expected("the closing quote of a string")),
            }
            self.at += plain_run(&bytes[self.at..]);
        }
        self.at += 1;
        Ok(escaped)
    }

    #[inline]
    pub(super) fn key(&mut self) -> Result<Text<'b>, ScanError> {
        let key = self.string()?;
        self.colon()?;
        self.longest_name = self.longest_name.max(key.raw_len());
        Ok(key)
    }

    #[inline]
    fn pass_name(&mut self) -> Result<(), ScanError> {
        if self.next() != Some(b'"') {
            return Err(self.expected(NO_STRING));
        }
        let start = self.at + 1;
        self.pass_string()?;
        self.longest_name = self.longest_name.max(self.at - 1 - start);
        self.colon()
    }

    #[inline]
    fn colon(&mut self) -> Result<(), ScanError> {
        if self.next() != Some(b':') {
            return Err(self.expected("a colon after a member name"));
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn name<V: Visit<'b>>(&mut self, visit: &mut V) -> Result<(), V::Error> {
        if !V::NAMES {
            return Ok(self.pass_name()?);
        }
        let key = self.key()?;
        visit.key(key, key.end())
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        self.at += 1;
        if self.take(|byte| byte == b'u') {
            for _ in 0..4 {
                if !self.take(|byte| byte.is_ascii_hexdigit()) {
                    return Err(self.expected("four hexadecimal digits"));
                }
            }
            return Ok(());
        }
        let known = |byte| matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't');
        if self.take(known) { Ok(()) } else { Err(self.expected("a known escape")) }
    }
}
