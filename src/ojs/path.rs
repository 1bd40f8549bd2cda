//! The normal form of a path, for recognising the operation. The forwarded path is never rewritten.
//!
//! Servers disagree on doubled slashes, dot segments, percent-encoding, matrix parameters and backslashes. The normal form
//! undoes all of them, as far as any server might, so that an operation cannot hide behind a spelling.

use std::borrow::Cow;

/// The path of nearly all calls that create a job.
pub const JOBS_PATH: &str = "/ojs/v1/jobs";

/// The path (without query) with every such spelling undone.
///
/// Shape: begins with a slash and ends without one, except for the root itself; applying it twice changes nothing. Borrows when
/// the path is normal already.
#[must_use]
pub fn normal_path(raw: &str) -> Cow<'_, str> {
    if raw == JOBS_PATH || is_plain(raw) {
        return Cow::Borrowed(raw);
    }
    let decoded = decode_until_stable(raw);
    let text = String::from_utf8_lossy(&decoded);
    let normal = resolve(&text);
    if normal == raw { Cow::Borrowed(raw) } else { Cow::Owned(normal) }
}

/// The forms on the way from the raw path to its normal form: as servers see it that decode it not at all, once, twice and so
/// on, and that resolve slashes and dots or take them as they stand.
pub(super) fn forms_between(raw: &str) -> impl Iterator<Item = String> {
    // A fourth layer of encoding is beyond any chain of servers; the normal form covers the rest.
    let mut bytes = raw.as_bytes().to_vec();
    (0..4).flat_map(move |layer| {
        if layer > 0 {
            bytes = decode_once(&bytes);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        [resolve(&text), text]
    })
}

/// Whether the path is in its normal form: the common case, decided without an allocation.
fn is_plain(raw: &str) -> bool {
    let Some(rest) = raw.strip_prefix('/') else { return false };
    rest.is_empty()
        || rest.split('/').all(|segment| {
            !matches!(segment, "" | "." | "..") && !segment.bytes().any(|byte| matches!(byte, b'%' | b'\\' | b';'))
        })
}

/// Decodes percent-encoding until nothing changes: `%252F` is a slash.
fn decode_until_stable(raw: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(raw.len());
    for byte in raw.bytes() {
        decoded.push(byte);
        // Only the end can have become an escape, so looking there each time leaves none anywhere.
        while let [.., b'%', high, low] = *decoded.as_slice()
            && let Some(value) = hex(high, low)
        {
            decoded.truncate(decoded.len() - 3);
            decoded.push(value);
        }
    }
    decoded
}

/// Whether a path has an escape that only some servers undo: overlong UTF-8 (`%c0%af` for a slash), or `%u` and four digits.
#[must_use]
pub fn has_odd_escape(raw: &str) -> bool {
    if raw == JOBS_PATH || memchr::memchr(b'%', raw.as_bytes()).is_none() {
        return false;
    }
    let decoded = decode_until_stable(raw);
    // Valid UTF-8 has neither of the two pairs, and no byte above 0xf4. Spec: RFC 3629 §4.
    let is_overlong = |pair: &[u8]| matches!(pair, [0xe0, 0x80..=0x9f] | [0xf0, 0x80..=0x8f]);
    let is_wide = |part: &[u8]| {
        let [b'%', b'u' | b'U', digits @ ..] = part else { return false };
        digits.iter().all(u8::is_ascii_hexdigit)
    };
    decoded.iter().any(|byte| matches!(byte, 0xc0 | 0xc1 | 0xf5..))
        || decoded.windows(2).any(is_overlong)
        || decoded.windows(6).any(is_wide)
}

/// Any text as one segment of a path.
#[must_use]
pub fn path_segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}

/// The text of a query's value; an invalid encoding stays as it is.
#[must_use]
pub fn query_text(value: &str) -> String {
    String::from_utf8_lossy(&decode_once(value.as_bytes())).into_owned()
}

/// Decodes one layer of percent-encoding.
pub(super) fn decode_once(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, behind @ ..] = rest {
        match rest {
            [b'%', high, low, behind @ ..] if hex(*high, *low).is_some() => {
                decoded.extend(hex(*high, *low));
                rest = behind;
            }
            _ => {
                decoded.push(*first);
                rest = behind;
            }
        }
    }
    decoded
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Slashes, dots and matrix parameters.
fn resolve(text: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split(['/', '\\']) {
        match segment.split_once(';').map_or(segment, |(name, _)| name) {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_escape_that_only_some_servers_undo_is_odd() {
        for odd in [
            "/ojs/v1/webhooks/%c0%ae%c0%ae/jobs",
            "/ojs/v1/webhooks/..%c0%afjobs",
            "/ojs/v1/webhooks/%uff0e%uFF0E/jobs",
            "/ojs/v1/webhooks/%25c0%25ae/jobs",
            "/ojs/v1/webhooks/%25u002e/jobs",
            "/%e0%80%ae",
            "/%f0%80%80%ae",
            "/%F8%80%80%80%ae",
        ] {
            assert!(has_odd_escape(odd), "{odd}");
        }
        for plain in ["/ojs/v1/jobs", "/%c3%a9", "/%e2%82%ac", "/%f0%9f%98%80", "/%ed%95%9c", "/100%", "/%up", "/%e9t"]
        {
            assert!(!has_odd_escape(plain), "{plain}");
        }
    }

    #[test]
    fn any_text_stays_one_path_segment() {
        assert_eq!(path_segment("email.high-1"), "email.high-1");
        assert_eq!(path_segment("a/b?c%ü"), "a%2Fb%3Fc%25%C3%BC");
    }

    #[test]
    fn a_path_has_one_normal_form_however_it_is_spelled() {
        for (raw, normal) in [
            ("/ojs/v1/jobs", "/ojs/v1/jobs"),
            ("/ojs/v1/jobs/", "/ojs/v1/jobs"),
            ("//ojs///v1/jobs", "/ojs/v1/jobs"),
            ("/ojs/./v1/x/../jobs", "/ojs/v1/jobs"),
            ("/../ojs/v1/jobs", "/ojs/v1/jobs"),
            ("/ojs/v1/%6aobs", "/ojs/v1/jobs"),
            ("/ojs/v1/%256Aobs", "/ojs/v1/jobs"),
            ("/ojs/v1%2Fjobs", "/ojs/v1/jobs"),
            ("/ojs/v1/x/%2e%2E/jobs", "/ojs/v1/jobs"),
            ("/ojs/v1/jobs;a=b", "/ojs/v1/jobs"),
            ("/ojs/v1/x/..;/jobs", "/ojs/v1/jobs"),
            ("/ojs\\v1%5cjobs", "/ojs/v1/jobs"),
            ("/%%34%31", "/A"),
            ("/%zz", "/%zz"),
            ("/%", "/%"),
            ("/%ff", "/\u{FFFD}"),
            ("/", "/"),
            ("", "/"),
            ("*", "/*"),
        ] {
            assert_eq!(normal_path(raw), normal, "{raw}");
        }
        assert!(matches!(normal_path("/ojs/v1/jobs/0190?"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn the_normal_form_is_its_own_normal_form(raw in r"[/a%2fF5eE.;\\cé]{0,40}") {
            let once = normal_path(&raw).into_owned();
            prop_assert_eq!(normal_path(&once), once.as_str());
            prop_assert!(once.starts_with('/'));
        }

        #[test]
        fn encoding_any_byte_any_number_of_times_changes_nothing(
            layers in proptest::collection::vec(0_usize..5, 12),
        ) {
            let path = "/ojs/v1/jobs";
            let mut raw = String::new();
            for (byte, layers) in path.bytes().zip(layers) {
                match layers {
                    0 => raw.push(char::from(byte)),
                    _ => raw.push_str(&format!("%{}{byte:02x}", "25".repeat(layers - 1))),
                }
            }
            prop_assert_eq!(normal_path(&raw), path);
        }
    }
}
