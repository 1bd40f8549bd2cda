//! Patterns with `*` for any run of characters and `?` for one, compiled once.
//!
//! A pattern is cut at its stars into pieces. The first piece must stand at the beginning and the last at the end; those
//! between are looked for from left to right, each as early as possible. Taking the earliest place never spoils a later one,
//! so nothing is ever tried again. A piece without `?` is found in linear time.

use memchr::memmem;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Glob {
    first: Piece,
    /// What follows the first star; `None` when there is no star and `first` is all.
    rest: Option<Rest>,
}

#[derive(Debug, Clone)]
struct Rest {
    middle: Vec<Piece>,
    last: Piece,
}

#[derive(Debug, Clone)]
enum Piece {
    /// Plain text.
    Text(Box<memmem::Finder<'static>>),
    /// Text in which `None` stands for any one character.
    Masked(Vec<Option<char>>),
}

impl Glob {
    /// Compiles a pattern; every text is one.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let mut pieces = pattern.split('*');
        let first = Piece::new(pieces.next().unwrap_or_default());
        let Some(last) = pieces.next_back() else { return Self { first, rest: None } };
        let middle = pieces.filter(|piece| !piece.is_empty()).map(Piece::new).collect();
        Self { first, rest: Some(Rest { middle, last: Piece::new(last) }) }
    }

    /// Whether the whole text fits the pattern.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let Some(mut tail) = self.first.strip_prefix(text) else { return false };
        let Some(rest) = &self.rest else { return tail.is_empty() };
        for piece in &rest.middle {
            match piece.skip_past(tail) {
                Some(after) => tail = after,
                None => return false,
            }
        }
        rest.last.is_suffix_of(tail)
    }
}

impl Piece {
    fn new(text: &str) -> Self {
        if text.contains('?') {
            Self::Masked(text.chars().map(|c| (c != '?').then_some(c)).collect())
        } else {
            Self::Text(Box::new(memmem::Finder::new(text.as_bytes()).into_owned()))
        }
    }

    fn strip_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(finder) => {
                text.as_bytes().starts_with(finder.needle()).then(|| text.get(finder.needle().len()..))?
            }
            Self::Masked(mask) => {
                let mut rest = text.chars();
                mask.iter()
                    .all(|wanted| rest.next().is_some_and(|c| wanted.is_none_or(|wanted| wanted == c)))
                    .then_some(rest.as_str())
            }
        }
    }

    /// What follows the earliest occurrence.
    fn skip_past<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(finder) => {
                let found = finder.find(text.as_bytes())?;
                text.get(found + finder.needle().len()..)
            }
            Self::Masked(_) => text.char_indices().find_map(|(at, _)| self.strip_prefix(text.get(at..)?)),
        }
    }

    fn is_suffix_of(&self, text: &str) -> bool {
        match self {
            Self::Text(finder) => text.as_bytes().ends_with(finder.needle()),
            Self::Masked(mask) => {
                let mut rest = text.chars();
                mask.iter().rev().all(|wanted| rest.next_back().is_some_and(|c| wanted.is_none_or(|w| w == c)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_stands_for_any_run_and_a_question_mark_for_one_character() {
        fn check(pattern: &str, fits: &[&str], fails: &[&str]) {
            let glob = Glob::new(pattern);
            for text in fits {
                assert!(glob.matches(text), "{pattern} {text}");
            }
            for text in fails {
                assert!(!glob.matches(text), "{pattern} {text}");
            }
        }
        check("", &[""], &["a"]);
        check("email.send", &["email.send"], &["email.sends", "xemail.send", ""]);
        check("*", &["", "anything"], &[]);
        check("**", &["", "anything"], &[]);
        check("email.*", &["email.", "email.send"], &["email", "xemail.send"]);
        check("*.send", &["email.send", ".send"], &["email.sends"]);
        check("a*a", &["aa", "aba"], &["a", "ab"]);
        check("a*b*c", &["abc", "aXbYc", "abbcc"], &["acb", "ab"]);
        check("*ab*ab*", &["abab", "xabyabz"], &["ab", "aab"]);
        check("v?.*", &["v1.x", "vé."], &["v.x", "v12.x"]);
        check("*?", &["a", "ab", "é"], &[""]);
        check("a*?b*c", &["axbc", "aabbc"], &["abc"]);
    }

    /// The obvious definition, exponential and therefore only for short texts.
    fn by_definition(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', pattern)), _) if by_definition(pattern, text) => true,
            (Some(('*', _)), Some((_, text))) => by_definition(pattern, text),
            (Some((wanted, pattern)), Some((c, text))) => {
                (*wanted == '?' || wanted == c) && by_definition(pattern, text)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(pattern in "[ab?*é]{0,8}", text in "[abé]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(Glob::new(&pattern).matches(&text), by_definition(&chars(&pattern), &chars(&text)));
        }
    }
}
