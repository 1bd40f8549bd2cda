//! The place of a value in a body, in a form for people: for error documents.

use super::scan::{ScanError, Scanner};

/// Deeper places are given by their surroundings.
const LEVELS_MAX: usize = 4;
/// A longer name, or one with other letters than identifiers have, could be a client's data.
const NAME_BYTES_MAX: usize = 64;

/// The place of an offset, such as `/steps/1`; `/` for the whole. The body was read before.
///
/// Shape: at most four levels deep; names that do not look like identifiers are shown as `?`.
#[must_use]
pub fn place_of(body: &[u8], offset: usize) -> String {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let mut pointer = String::new();
    let mut at = 0;
    for _ in 0..LEVELS_MAX {
        let Some((name, inner)) = child(text, at, offset) else { break };
        pointer.push('/');
        pointer.push_str(&name);
        at = inner;
    }
    if pointer.is_empty() { "/".to_owned() } else { pointer }
}

/// The object or array within the value at `at` that holds the offset: its name or number, and where it begins.
fn child(text: &str, at: usize, offset: usize) -> Option<(String, usize)> {
    let mut scanner = Scanner::again(text, at, &[]);
    let mut found = None;
    let mut number = 0_usize;
    let mut visit = |scanner: &mut Scanner<'_, '_>, name: Option<String>| {
        let is_container = matches!(scanner.next(), Some(b'{' | b'['));
        let (start, end) = scanner.skip()?;
        if is_container && (start..end).contains(&offset) {
            found = Some((name.unwrap_or_else(|| number.to_string()), start));
        }
        number += 1;
        Ok::<(), ScanError>(())
    };
    let walked = match scanner.next() {
        Some(b'{') => scanner.object(|scanner, key| visit(scanner, Some(shown(&key.decode())))),
        Some(b'[') => scanner.array(|scanner| visit(scanner, None)),
        _ => return None,
    };
    walked.ok()?;
    found
}

fn shown(name: &str) -> String {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if plain && name.len() <= NAME_BYTES_MAX { name.to_owned() } else { "?".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_with_names_and_numbers_and_never_with_data() {
        let body = br#" {"n":[1,{"x":0}],"steps":[{"id":"a"},7,{"options":{"meta":{"deep":{"deeper":1}}}}],"Bearer s":{"y":2}}"#;
        let text = std::str::from_utf8(body).unwrap();
        let check = |needle: &str, expected: &str| assert_eq!(place_of(body, text.find(needle).unwrap()), expected);
        check(r#"{"n""#, "/");
        check(r#""x""#, "/n/1");
        check(r#"{"id""#, "/steps/0");
        check(r#"{"options"#, "/steps/2");
        check(r#""meta""#, "/steps/2/options");
        check(r#""deeper""#, "/steps/2/options/meta");
        check(r#""y""#, "/?");
        assert_eq!(place_of(b"", 0), "/");
    }
}
