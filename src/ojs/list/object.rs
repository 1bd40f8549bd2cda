//! Values of a text that was scanned before, taken apart where they stand.

use std::borrow::Cow;

use crate::ojs::key::Text;
use crate::ojs::member::DEPTH_MAX;
use crate::ojs::scan::{ScanError, Scanner, scan};

/// One member of an object.
pub(in crate::ojs) struct Member<'b> {
    /// The name, escapes decoded.
    pub(in crate::ojs) name: Cow<'b, str>,
    /// Name and value as they were written.
    pub(in crate::ojs) written: &'b str,
    /// The value as it was written.
    pub(in crate::ojs) value: &'b str,
    /// Where the value begins, in bytes from the start of the text.
    pub(in crate::ojs) at: usize,
}

/// The kind of a value, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ojs) enum Kind {
    Object,
    Array,
    Text,
    Number,
    Flag,
    Null,
}

impl Kind {
    pub(in crate::ojs) fn of(value: &str) -> Self {
        match value.as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::Text,
            Some(b't' | b'f') => Self::Flag,
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number,
        }
    }

    /// Whether nothing can stand inside it.
    pub(in crate::ojs) const fn is_scalar(self) -> bool {
        !matches!(self, Self::Object | Self::Array)
    }
}

/// The members of an object, in their order; none for any other value.
pub(in crate::ojs) fn members(text: &str) -> Vec<Member<'_>> {
    let mut found = Vec::new();
    let mut scanner = Scanner::again(text, 0, &[]);
    let read = scanner.object(|scanner, key| {
        let (at, end) = scanner.skip()?;
        found.push(Member { name: key.decode(), written: &text[key.at..end], value: &text[at..end], at });
        Ok::<(), ScanError>(())
    });
    if read.is_ok() { found } else { Vec::new() }
}

/// Where the elements of the array stand that begins at `at`; `None` when there are more than `most`, or no array.
pub(in crate::ojs) fn elements(text: &str, at: usize, most: usize) -> Option<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    let mut scanner = Scanner::again(text, at, &[]);
    let read = scanner.array(|scanner| {
        let place = scanner.skip()?;
        if found.len() <= most {
            found.push(place);
        }
        Ok::<(), ScanError>(())
    });
    (read.is_ok() && found.len() <= most).then_some(found)
}

/// The value of a member; of the last one where there are several, as servers read it.
pub(in crate::ojs) fn find<'m, 'b>(members: &'m [Member<'b>], name: &str) -> Option<&'m Member<'b>> {
    members.iter().rev().find(|member| member.name == name)
}

/// A body that is one JSON object, without the white space around it.
pub(in crate::ojs) fn whole(body: &[u8]) -> Option<&str> {
    scan(body, DEPTH_MAX).ok()?;
    let text = std::str::from_utf8(body).ok()?.trim_matches([' ', '\n', '\r', '\t']);
    (Kind::of(text) == Kind::Object).then_some(text)
}

/// The text of a string value.
pub(in crate::ojs) fn text_of(value: &str) -> Option<Cow<'_, str>> {
    (Kind::of(value) == Kind::Text).then(|| Text::quoted(value, 0).decode())
}

/// A whole number that is not negative.
pub(in crate::ojs) fn count_of(value: &str) -> Option<u64> {
    value.parse().ok()
}

/// Appends a string, quoted.
pub(in crate::ojs) fn push_quoted(json: &mut String, text: &str) {
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            '\0'..='\u{1f}' => json.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => json.push(letter),
        }
    }
    json.push('"');
}
