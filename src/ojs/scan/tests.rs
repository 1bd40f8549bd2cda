use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

fn check(body: &[u8], expected: Result<(), ScanError>) {
    assert_eq!(scan(body, 8), expected, "{:?}", String::from_utf8_lossy(body));
}

#[test]
fn what_rfc_8259_allows_passes_with_its_spelling() {
    for body in [
        "null",
        " {} ",
        "[]",
        "\t[ 1 , -0.0e+10, 1E400, 123456789012345678901234567890 ]\r\n",
        r#"{"a":{"b":[true,false,null,"x"]},"a":1}"#,
        r#""\ud800 \u0041 \" \\ \/ \b\f\n\r\t é""#,
        "\"0123456701234567\\\"012345670123456\"",
    ] {
        check(body.as_bytes(), Ok(()));
    }
}

#[test]
fn what_it_does_not_allow_is_refused_where_it_stands() {
    let malformed = |offset, expected| Err(ScanError::Malformed { offset, expected });
    for (body, expected) in [
        (&b""[..], malformed(0, "a JSON value")),
        (b"\xef\xbb\xbf{}", malformed(0, "a JSON value")),
        (b"{}x", malformed(2, "the end of the body")),
        (b"[1,]", malformed(3, "a JSON value")),
        (b"[1 2]", malformed(3, "a comma or a closing bracket")),
        (b"{\"a\":1,}", malformed(7, "a string in double quotes")),
        (b"{\"a\" 1}", malformed(5, "a colon after a member name")),
        (b"{\"a\":1]", malformed(6, "a comma or a closing brace")),
        (b"01", malformed(1, "the end of the body")),
        (b"1.", malformed(2, "a digit")),
        (b"-", malformed(1, "a digit")),
        (b"1e+", malformed(3, "a digit")),
        (b"nul", malformed(0, "true, false or null")),
        (b"\"a\nb\"", malformed(2, "no raw control character inside a string")),
        (b"\"01234567\x1f\"", malformed(9, "no raw control character inside a string")),
        (b"\"\\x\"", malformed(2, "a known escape")),
        (b"\"\\u12g4\"", malformed(5, "four hexadecimal digits")),
        (b"\"abc", malformed(4, "the closing quote of a string")),
        (b"\"\xff\"", malformed(1, "UTF-8 text")),
        (b"[NaN]", malformed(1, "a JSON value")),
    ] {
        check(body, expected);
    }
}

#[test]
fn depth_is_bounded_and_takes_no_stack() {
    let nested = |levels: usize| [b"[".repeat(levels), b"]".repeat(levels)].concat();
    check(&nested(8), Ok(()));
    check(&nested(9), Err(ScanError::TooDeep { limit: 8 }));
    check(br#"{"a":[{"a":[{"a":[{"a":[{}]}]}]}]}"#, Err(ScanError::TooDeep { limit: 8 }));
    assert_eq!(scan(&nested(1_000_000), usize::MAX), Ok(()));
    assert_eq!(scan(&b"[{\"a\":".repeat(1_000_000), 128), Err(ScanError::TooDeep { limit: 128 }));
}

#[test]
fn an_object_whose_end_is_known_is_stepped_over_unread() {
    // What stands inside is no JSON, so reading it would fail: that keeps nested jobs linear.
    let text = r#"{"a":[{#####},1],"b":{##}}"#;
    let mut scanner = Scanner::again(text, 0, &[(6, 13), (21, 25)]);
    assert_eq!(scanner.skip(), Ok((0, text.len())));
    assert!(Scanner::again(text, 0, &[(6, 13)]).skip().is_err());
}

fn oracle(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// JSON as people and machines write it, oddities included.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("1E400".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
        r#""[ -!#-\[\]-~éß漢]{0,40}""#,
        r#""(\\u[dD][89a-f][0-9a-f]{2}|\\["\\/bfnrt]|[a-z]){0,12}""#,
    ];
    leaf.prop_recursive(6, 48, 5, |inner| {
        prop_oneof![
            proptest::collection::vec((inner.clone(), "[ \n\r\t]{0,2}"), 0..5).prop_map(|items| {
                format!("[{}]", items.iter().map(|(v, s)| format!("{s}{v}{s}")).collect::<Vec<_>>().join(","))
            }),
            proptest::collection::vec(("[a-z]{0,9}", inner, "[ \n\r\t]{0,2}"), 0..5).prop_map(|items| {
                format!(
                    "{{{}}}",
                    items.iter().map(|(k, v, s)| format!("{s}\"{k}\"{s}:{s}{v}{s}")).collect::<Vec<_>>().join(",")
                )
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn it_accepts_what_serde_json_accepts(body in json()) {
        prop_assert!(oracle(body.as_bytes()));
        prop_assert_eq!(scan(body.as_bytes(), 64), Ok(()));
    }

    #[test]
    fn it_agrees_with_serde_json_on_damaged_documents(
        body in json(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0_u8..3), 1..4),
    ) {
        let mut bytes = body.into_bytes();
        for (at, byte, how) in damage {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match how {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        prop_assert_eq!(scan(&bytes, 64).is_ok(), oracle(&bytes), "{:?}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn it_agrees_with_serde_json_on_soup(body in r#"[\[\]{}:,"\\u0-9eE+.tfn a-]{0,24}"#) {
        prop_assert_eq!(scan(body.as_bytes(), 64).is_ok(), oracle(body.as_bytes()));
    }

    #[test]
    fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(scan(&body, 64).is_ok(), oracle(&body));
    }
}
