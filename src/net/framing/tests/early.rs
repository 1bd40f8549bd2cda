//! What is refused before its line has ended.

use super::*;

#[test]
fn a_line_is_refused_at_the_first_byte_with_which_none_begins() {
    use Violation as V;
    for (text, violation) in [
        ("PO\u{b4}", V::RequestLine),
        ("GET /a\0", V::Target),
        ("GET / HTTP/1.1 ", V::RequestLine),
        ("GET / HTTP/1.1\rx", V::RequestLine),
        ("GET / HTTP/1.1\r\nx: a\rb", V::HeaderValue),
        ("GET / HTTP/1.1\r\nx: a\0", V::HeaderValue),
        ("GET / HTTP/1.1\r\nx ", V::SpaceBeforeColon),
        ("GET / HTTP/1.1\r\n(", V::HeaderName),
        ("GET / HTTP/1.1\r\n ", V::Folded),
        ("GET / HTTP/1.1\r\nHost: a\r\n\rx", V::LineEnd),
    ] {
        check(text, Some(violation));
        let (all_but_one, _) = text.as_bytes().split_at(text.len() - text.chars().next_back().unwrap().len_utf8());
        assert_eq!(feed_cut(all_but_one, &[1]).2, None, "{text:?}");
    }
    let long = format!("GET / HTTP/1.1\r\n{}", "a".repeat(head::NAME_BYTES_MAX + 1));
    let roomy = HeadLimits { bytes: 2 * long.len(), ..LIMITS };
    assert_eq!(Framing::new(roomy).feed(long.as_bytes()).map_err(|breach| breach.violation), Err(V::HeaderName));
}
