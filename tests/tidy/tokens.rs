//! Rust source as tokens, without comments, literals and test code.

/// The tokens of `source`: identifiers, `::`, and single characters. Items under `#[cfg(test)]` are left out.
pub(crate) fn tokens(source: &str) -> Vec<&str> {
    without_tests(&split(source))
}

fn split(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = token_length(rest);
        let (token, after) = rest.split_at(length);
        let is_code = !first.is_whitespace() && first != '"' && !(first == '\'' && length > 1);
        if is_code && !token.starts_with("//") && !token.starts_with("/*") && raw_string(token).is_none() {
            found.push(token);
        }
        rest = after;
    }
    found
}

const fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Bytes up to and with `end`, else all.
fn until(text: &str, skip: usize, end: &str) -> usize {
    text.get(skip..).and_then(|tail| tail.find(end)).map_or(text.len(), |at| skip + at + end.len())
}

/// The length of the raw string that `text` begins with.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let is_string = after.as_bytes().get(hashes) == Some(&b'"');
    is_string.then(|| until(text, text.len() - after.len() + hashes + 1, &format!("\"{}", "#".repeat(hashes))))
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character literal, or the quote alone where a lifetime begins.
fn quote(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((after, escaped))) => until(text, after + escaped.len_utf8(), "'"),
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

fn token_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return until(text, 2, "*/");
    }
    if let Some(length) = raw_string(text) {
        return length;
    }
    if text.starts_with("::") {
        return 2;
    }
    match text.chars().next() {
        Some('"') => string(text),
        Some('\'') => quote(text),
        Some(c) if is_name(c) => text.find(|c| !is_name(c)).unwrap_or(text.len()),
        Some(c) => c.len_utf8(),
        None => 0,
    }
}

/// Where the bracket that opens at `at` is closed: the index behind it.
pub(crate) fn behind_bracket(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn is_test_attribute(tokens: &[&str]) -> bool {
    tokens.starts_with(&["#", "[", "cfg"]) && tokens.contains(&"test") && !tokens.contains(&"not")
}

/// The index behind the item that begins at `at`, attributes included.
fn behind_item(tokens: &[&str], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        match *token {
            ";" => return at + 1,
            "{" => return behind_bracket(tokens, at),
            "(" | "[" => at = behind_bracket(tokens, at),
            _ => at += 1,
        }
    }
    at
}

fn without_tests<'s>(tokens: &[&'s str]) -> Vec<&'s str> {
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let behind = if *token == "#" { behind_bracket(tokens, at + 1) } else { at + 1 };
        let part = tokens.get(at..behind).unwrap_or(&[]);
        if is_test_attribute(part) {
            at = behind_item(tokens, behind);
        } else {
            kept.extend_from_slice(part);
            at = behind;
        }
    }
    kept
}

#[test]
fn tokens_leave_out_comments_literals_and_tests() {
    let source = "//! crate::a\nuse super::b; /* c */ fn d<'e>() { f('\\'', '\"', \"super::g\\\"\", r#\"h\"#) }\n\
                  #[cfg(test)]\n#[expect(x)]\nmod tests { use super::*; }\n#[cfg(test)]\nmod testing;\nmod i;";
    let expected = "use super :: b ; fn d < ' e > ( ) { f ( , , , ) } mod i ;";
    assert_eq!(tokens(source).join(" "), expected);
}
