//! The head of a document in XML: byte order mark and declaration.

use super::flaw::{Flaw, FlawKind};
use super::task::is_space;

/// An XML declaration, where there is one, is of version 1.0 and UTF-8, and has nothing else. The parser takes other names in it, too. Spec: XML 1.0 §2.8.
pub(super) fn check_declaration(text: &str) -> Result<(), Flaw> {
    let (start, end) = (text.len() - without_mark(text).len(), declaration_end(text));
    let Some(declaration) = text.get(start..end).filter(|it| !it.is_empty()) else { return Ok(()) };
    let flaw = |kind, field: &str, expected: &str| {
        Err(Flaw { kind, field: field.to_owned(), line: 1, column: 1, expected: expected.to_owned() })
    };
    let (mut rest, mut names) = (declaration.trim_start_matches("<?xml").trim_end_matches("?>"), ["", "", ""]);
    let mut values = ["1.0", "utf-8", "no"];
    for place in 0..names.len() {
        let Some((name, value, behind)) = pseudo_attribute(rest) else { break };
        (names[place], values[place], rest) = (name, value, behind);
    }
    let (version, encoding, standalone) = match names {
        ["version", "", ""] => (values[0], "utf-8", "no"),
        ["version", "encoding", ""] => (values[0], values[1], "no"),
        ["version", "standalone", ""] => (values[0], "utf-8", values[1]),
        ["version", "encoding", "standalone"] => (values[0], values[1], values[2]),
        _ => {
            return flaw(FlawKind::Syntax, "xml", "expected a declaration with `version`, `encoding` and `standalone`");
        }
    };
    if version != "1.0" {
        return flaw(FlawKind::Syntax, "version", "expected XML 1.0");
    }
    if !encoding.eq_ignore_ascii_case("utf-8") {
        return flaw(FlawKind::Encoding, "encoding", "expected UTF-8; send the document in it and declare it so");
    }
    if !matches!(standalone, "yes" | "no") || !rest.chars().all(is_space) {
        return flaw(FlawKind::Syntax, "xml", "expected a declaration with `version`, `encoding` and `standalone`");
    }
    Ok(())
}

/// The first `name="value"` behind white space, and the rest behind it.
fn pseudo_attribute(text: &str) -> Option<(&str, &str, &str)> {
    let trimmed = text.trim_start_matches(is_space);
    let (name, rest) = trimmed.split_once('=').filter(|_| trimmed.len() < text.len())?;
    let rest = rest.trim_start_matches(is_space);
    let quote = rest.chars().next().filter(|it| matches!(it, '"' | '\''))?;
    let (value, rest) = rest.get(1..)?.split_once(quote)?;
    Some((name.trim_end_matches(is_space), value, rest))
}

/// The text without a byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The end of the XML declaration; that of the byte order mark where there is none.
pub(super) fn declaration_end(text: &str) -> usize {
    let start = text.len() - without_mark(text).len();
    let rest = without_mark(text);
    let is_declaration = rest.strip_prefix("<?xml").is_some_and(|it| it.starts_with(is_space));
    match rest.find("?>") {
        Some(end) if is_declaration => start + end + "?>".len(),
        _ => start,
    }
}
