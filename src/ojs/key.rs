//! The text of a JSON string, decoded; and member names, compared the way Go servers compare them.
//!
//! Go's `encoding/json` matches struct fields without regard to case, so `"Meta"` reaches such a server as `meta`. A reader that
//! compares exactly would not see the pin inside. Both spellings are therefore recognised, and the odd one is refused.

use std::borrow::Cow;

/// A JSON string as it stands in the body, grammar already checked.
#[derive(Clone, Copy)]
pub(super) struct Text<'b> {
    /// The text that it is a part of. The name is cut out where it is needed: most names are only compared with a few
    /// known ones.
    whole: &'b str,
    /// The place in that text of the bytes between the quotes.
    inside: (usize, usize),
    /// Whether that holds a backslash.
    escaped: bool,
    /// Offset of the opening quote in the body.
    pub(super) at: usize,
}

impl<'b> Text<'b> {
    /// The string that begins and ends with the quotes at `at` and before `end` in the body.
    #[inline]
    pub(super) const fn in_body(body: &'b str, (at, end): (usize, usize), escaped: bool) -> Self {
        Self { whole: body, inside: (at + 1, end - 1), escaped, at }
    }

    /// Reads a string that was scanned before, quotes included.
    pub(super) fn quoted(quoted: &'b str, at: usize) -> Self {
        let raw = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
        Self { whole: raw, inside: (0, raw.len()), escaped: memchr::memchr(b'\\', raw.as_bytes()).is_some(), at }
    }

    /// The bytes between the quotes.
    #[inline]
    pub(super) fn raw(self) -> &'b str {
        self.whole.get(self.inside.0..self.inside.1).unwrap_or_default()
    }

    /// How long that is. Units: bytes.
    #[inline]
    pub(super) const fn raw_len(self) -> usize {
        self.inside.1 - self.inside.0
    }

    /// Offset behind the closing quote.
    pub(super) const fn end(self) -> usize {
        self.at + self.raw_len() + 2
    }

    /// The text it stands for. An unpaired surrogate becomes U+FFFD, as Go servers read it.
    #[inline]
    pub(super) fn decode(self) -> Cow<'b, str> {
        if self.escaped { Cow::Owned(unescape(self.raw())) } else { Cow::Borrowed(self.raw()) }
    }

    /// Whether the decoded name may begin with one of these letters, or with a letter that folds to one: lower-case
    /// letters but `k` and `s`, to which others fold, too.
    #[inline]
    pub(super) fn may_begin(self, letters: &[u8]) -> bool {
        debug_assert!(!letters.iter().any(|letter| b"ks".contains(letter)), "others fold to it");
        let first = self.whole.as_bytes().get(self.inside.0).map_or(b'"', u8::to_ascii_lowercase);
        first == b'\\' || letters.contains(&first)
    }

    /// Whether it begins with anything but a letter, digit or underscore of ASCII.
    #[inline]
    pub(super) fn begins_oddly(self) -> bool {
        self.whole.as_bytes().get(self.inside.0).is_some_and(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
    }
}

/// How a member name relates to a known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// Letter for letter.
    Exact,
    /// Only for a reader that folds case.
    Variant,
    /// Another name.
    Different,
}

/// Compares a decoded member name with a known one, which is ASCII without capitals.
pub(super) fn likeness(key: &str, name: &str) -> Likeness {
    debug_assert!(!may_fold(name), "{name} is a known name");
    if key == name {
        return Likeness::Exact;
    }
    if !may_fold(key) {
        return Likeness::Different;
    }
    // Most names differ in the first letter or in the length; a folded letter takes at most three bytes.
    let first = |text: &str| text.bytes().next().map(|byte| byte.to_ascii_lowercase());
    let other_letter = first(key) != first(name) && first(key).is_some_and(|byte| byte.is_ascii());
    if other_letter || key.len() < name.len() || key.len() > name.len() * 3 {
        return Likeness::Different;
    }
    if key.chars().map(fold).eq(name.chars().map(fold)) { Likeness::Variant } else { Likeness::Different }
}

/// Whether folding changes a name at all. One that it does not change is one of the known names, or none.
#[inline]
pub(super) fn may_fold(key: &str) -> bool {
    key.bytes().fold(false, |any, byte| any | byte.is_ascii_uppercase() | !byte.is_ascii())
}

/// The rest of `key` behind `prefix`, however its case is written, and whether the prefix is exact.
pub(super) fn strip_prefix_folded<'k>(key: &'k str, prefix: &str) -> Option<(&'k str, bool)> {
    if let Some(rest) = key.strip_prefix(prefix) {
        return Some((rest, true));
    }
    if !may_fold(key) {
        return None;
    }
    let mut letters = key.chars();
    for expected in prefix.chars() {
        if letters.next().map(fold) != Some(fold(expected)) {
            return None;
        }
    }
    Some((letters.as_str(), false))
}

/// Folds one letter: ASCII case, and the two other letters whose simple folding is ASCII.
const fn fold(letter: char) -> char {
    match letter {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        other => other.to_ascii_lowercase(),
    }
}

#[inline(never)]
fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut letters = escape.chars();
        let decoded = match letters.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let (decoded, behind) = unescape_unit(letters.as_str());
                text.push(decoded);
                rest = behind;
                continue;
            }
            Some(other) => other,
            None => break,
        };
        text.push(decoded);
        rest = letters.as_str();
    }
    text.push_str(rest);
    text
}

/// Decodes the characters behind `\u`: four digits, and the second half of a surrogate pair when it is there.
fn unescape_unit(text: &str) -> (char, &str) {
    let Some((unit, rest)) = hex4(text) else { return (char::REPLACEMENT_CHARACTER, text) };
    if let Some(letter) = char::from_u32(unit) {
        return (letter, rest);
    }
    let low = rest.strip_prefix("\\u").and_then(hex4);
    if let (0xD800..=0xDBFF, Some((low @ 0xDC00..=0xDFFF, behind))) = (unit, low) {
        let letter = char::from_u32(0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
        return (letter.unwrap_or(char::REPLACEMENT_CHARACTER), behind);
    }
    (char::REPLACEMENT_CHARACTER, rest)
}

fn hex4(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(quoted: &str) -> String {
        Text::quoted(quoted, 0).decode().into_owned()
    }

    #[test]
    fn escapes_decode_and_unpaired_surrogates_become_the_replacement_character() {
        for (quoted, expected) in [
            (r#""plain""#, "plain"),
            (r#""a\n\t\"\\\/\b\f\r""#, "a\n\t\"\\/\u{8}\u{c}\r"),
            (r#""\u006deta""#, "meta"),
            (r#""\ud83d\ude00!""#, "\u{1F600}!"),
            (r#""\ud800x""#, "\u{FFFD}x"),
            (r#""\ud800\u0041""#, "\u{FFFD}A"),
            (r#""\udc00\ud800""#, "\u{FFFD}\u{FFFD}"),
        ] {
            assert_eq!(decoded(quoted), expected, "{quoted}");
        }
    }

    #[test]
    fn a_name_may_begin_with_a_letter_however_it_is_written() {
        for (quoted, may) in [
            (r#""meta""#, true),
            (r#""Meta""#, true),
            (r#""\u006deta""#, true),
            (r#""args""#, false),
            (r#""""#, false),
            ("\"\u{17F}\"", false),
        ] {
            let end = quoted.len() + 1;
            let body = format!(" {quoted}");
            assert_eq!(Text::in_body(&body, (1, end), quoted.contains('\\')).may_begin(b"tm"), may, "{quoted}");
            assert_eq!(Text::quoted(quoted, 1).may_begin(b"tm"), may, "{quoted}");
        }
    }

    #[test]
    fn names_fold_like_go_struct_fields() {
        for (key, name, expected) in [
            ("meta", "meta", Likeness::Exact),
            ("Meta", "meta", Likeness::Variant),
            ("META", "meta", Likeness::Variant),
            ("option\u{17F}", "options", Likeness::Variant),
            ("\u{212A}ey\u{17F}", "keys", Likeness::Variant),
            ("m\u{117}ta", "meta", Likeness::Different),
            ("metas", "meta", Likeness::Different),
            ("met", "meta", Likeness::Different),
            ("", "meta", Likeness::Different),
        ] {
            assert_eq!(likeness(key, name), expected, "{key}");
        }
        assert_eq!(strip_prefix_folded("OJ\u{17F}.x", "ojs."), Some(("x", false)));
        assert_eq!(strip_prefix_folded("ojs.x", "ojs."), Some(("x", true)));
        assert_eq!(strip_prefix_folded("ojs", "ojs."), None);
    }
}
