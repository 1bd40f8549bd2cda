//! Patterns with `*` for any run of characters and `?` for one, compiled once.

use wildmatch::WildMatch;

/// A compiled pattern.
///
/// Matching allocates nothing. One without `*` and `?`, or with one `*` at its end alone, is compared byte by byte; else it takes time in proportion to the text, for each character of the longest piece between
/// stars at most once.
#[derive(Debug, Clone)]
pub struct Glob(Pattern);

#[derive(Debug, Clone)]
enum Pattern {
    Text(Box<str>),
    /// The beginning of the text.
    Start(Box<str>),
    Wild(WildMatch),
}

impl Glob {
    /// Compiles a pattern; every text is one.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let is_text = |part: &str| !part.contains(['*', '?']);
        Self(match pattern.strip_suffix('*').filter(|start| is_text(start)) {
            Some(start) => Pattern::Start(start.into()),
            None if is_text(pattern) => Pattern::Text(pattern.into()),
            None => Pattern::Wild(WildMatch::new(pattern)),
        })
    }

    /// Whether the whole text fits the pattern.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match &self.0 {
            Pattern::Text(pattern) => **pattern == *text,
            Pattern::Start(start) => text.starts_with(&**start),
            Pattern::Wild(pattern) => pattern.matches(text),
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
