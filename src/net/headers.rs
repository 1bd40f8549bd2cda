//! Headers at the hop: those of one connection are removed, all others travel.
//!
//! Spec: RFC 9110 §7.6.1.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, LOCATION, UPGRADE};
use http::{HeaderValue, Method, StatusCode, Uri, request};
use smallvec::SmallVec;

/// Whether a header describes one connection, whether or not a `Connection` line names it; or is `Expect`, which is about a body that has come.
#[must_use]
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
            | "expect"
    )
}

/// Names that a `Connection` line cannot take away from the far side: without them the message would mean something else.
const KEPT: [&str; 7] =
    ["host", "content-length", "content-type", "authorization", "ojs-version", "x-request-id", "ojs-federation-hops"];

/// Removes everything that belongs to the connection on which the message came: the fixed set, the names in *every*
/// `Connection` line, and `Expect`, which is about a body that has arrived, or that hyper has asked for.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    strip(headers, |_| false);
}

/// The same, and those that are `others`.
fn strip(headers: &mut HeaderMap, others: impl Fn(&HeaderName) -> bool) {
    // Few messages carry any, and one walk over the names costs less than a look-up for each.
    let leaves = |name: &&HeaderName| is_hop_by_hop(name) || others(name);
    if !headers.keys().any(|name| leaves(&name)) {
        return;
    }
    let leaving: SmallVec<[HeaderName; 4]> = headers.keys().filter(leaves).cloned().collect();
    if leaving.contains(&CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .map(|token| token.trim().to_ascii_lowercase())
            .filter(|token| !KEPT.contains(&token.as_str()))
            .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in leaving {
        headers.remove(name);
    }
}

/// The numbers below ten thousand, with zeros before them: nearly all lengths and counts.
static SMALL: [[u8; 4]; 10_000] = {
    let mut table = [[b'0'; 4]; 10_000];
    let mut number = 0;
    while number < table.len() {
        let (mut rest, mut place) = (number, 4);
        while rest > 0 {
            place -= 1;
            table[number][place] += (rest % 10) as u8;
            rest /= 10;
        }
        number += 1;
    }
    table
};

fn small(number: u64) -> Option<&'static [u8]> {
    let digits = SMALL.get(usize::try_from(number).ok()?)?;
    let zeros = digits.iter().take(3).take_while(|digit| **digit == b'0').count();
    digits.get(zeros..)
}

/// A number as a header's value; a small one takes no memory.
#[must_use]
pub fn number(number: u64) -> HeaderValue {
    if let Some(Ok(digits)) = small(number).map(|digits| HeaderValue::from_maybe_shared(Bytes::from_static(digits))) {
        return digits;
    }
    let mut digits = [0; 20];
    let (mut rest, mut start) = (number, digits.len());
    for digit in digits.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        (rest, start) = (rest / 10, start - 1);
    }
    let digits = &digits[start..];
    HeaderValue::from_bytes(digits).unwrap_or(HeaderValue::from_static("0"))
}

/// Headers in which frameworks and gateways look for a method or a path other than those of the request line.
const RESTATING: [&str; 5] =
    ["x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"];

/// Whether a header names a method or a path that some server would take in place of the request line's.
#[must_use]
pub fn restates_request(headers: &HeaderMap) -> bool {
    // Gateways that turn headers into variables cannot distinguish a dash from an underscore.
    let folded = |byte: u8| if byte == b'_' { b'-' } else { byte };
    headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with('x')).any(|name| {
        RESTATING.iter().any(|known| known.len() == name.len() && name.bytes().map(folded).eq(known.bytes()))
    })
}

/// The prefix of the headers that the sidecar itself puts on answers.
const OURS: &str = "ojs-federation-";

/// Prepares a region's answer for the client. Removed are: headers of our connection; the length, which is written anew
/// (but for answers to HEAD, which have none); headers that look like the sidecar's; and a redirect to anywhere but a
/// path of ours: a client that followed one would send its job past the region's identity check, to the host that the
/// answer names.
pub fn strip_answer(method: &Method, status: StatusCode, headers: &mut HeaderMap) {
    let is_told_anew = *method != Method::HEAD;
    strip(headers, |name| is_ours(name) || is_told_anew && *name == CONTENT_LENGTH);
    if status.is_redirection() && headers.get_all(LOCATION).iter().any(leads_away) {
        headers.remove(LOCATION);
    }
}

/// Removes headers from a region's answer that only the sidecar may send.
pub fn strip_ours(headers: &mut HeaderMap) {
    while let Some(name) = headers.keys().find(|name| is_ours(name)).cloned() {
        headers.remove(name);
    }
}

fn is_ours(name: &HeaderName) -> bool {
    name.as_str().starts_with(OURS)
}

/// Whether a redirect may leave this host. Browsers drop tabs and line ends from a URL, cut control characters and spaces off its ends,
/// and take a backslash for a slash, so that only plain characters are let through.
fn leads_away(location: &HeaderValue) -> bool {
    let location = location.as_bytes();
    !location.starts_with(b"/")
        || matches!(location.get(1), Some(b'/' | b'\\'))
        || !location.iter().all(u8::is_ascii_graphic)
}

/// Whether a method asks for an echo of the request; some servers read methods in any case.
#[must_use]
pub fn is_echo(method: &Method) -> bool {
    method == Method::TRACE || ["TRACE", "TRACK"].iter().any(|echo| method.as_str().eq_ignore_ascii_case(echo))
}

/// Gives a request whose target names a host the form of all others: that host as `Host`, and the path alone.
///
/// Spec: RFC 9112 §3.2.2.
pub fn to_origin_form(request: &mut request::Parts) {
    let target = std::mem::take(&mut request.uri).into_parts();
    // An authority that was parsed is text.
    if let Some(host) = target.authority.and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
        request.headers.insert(HOST, host);
    }
    request.uri = target.path_and_query.map(Uri::from).unwrap_or_default();
}

/// Whether the message asks for a WebSocket tunnel; every other upgrade offer, such as `h2c`, is ignored.
#[must_use]
pub fn is_websocket_upgrade(headers: &HeaderMap) -> bool {
    let lists = |name: HeaderName, wanted: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case(wanted))
    };
    lists(CONNECTION, "upgrade") && lists(UPGRADE, "websocket")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn every_connection_line_is_obeyed_and_everything_else_travels() {
        let mut map = headers(&[
            ("connection", "keep-alive, x-a"),
            ("connection", "X-B"),
            ("x-a", "1"),
            ("x-b", "2"),
            ("x-c", "3"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
            ("keep-alive", "timeout=5"),
            ("expect", "100-continue"),
            ("traceparent", "00-1-2-01"),
        ]);
        strip_hop_by_hop(&mut map);
        let left: Vec<&str> = map.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-c", "traceparent"]);
    }

    #[test]
    fn a_connection_line_cannot_take_away_what_gives_the_message_its_meaning() {
        let mut map = headers(&[("connection", "host, content-type, close"), ("host", "a"), ("content-type", "b")]);
        strip_hop_by_hop(&mut map);
        assert_eq!(map.len(), 2);
    }

    #[test]
    fn a_number_is_written_as_people_write_it() {
        for value in (0..=10_001).chain([u64::MAX]) {
            assert_eq!(number(value), value.to_string());
        }
    }

    #[test]
    fn a_header_that_restates_method_or_path_is_found_in_either_spelling() {
        for name in
            ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "x_http_method_override", "X-Original-URL"]
        {
            assert!(restates_request(&headers(&[("host", "a"), (name, "POST")])), "{name}");
        }
        assert!(!restates_request(&headers(&[("x-request-id", "x-http-method"), ("x-http-methods", "POST")])));
    }

    #[test]
    fn a_redirect_that_leads_away_loses_its_location() {
        let check = |status: u16, location: &str, kept: bool| {
            let mut map = headers(&[("location", location), ("connection", "x-a"), ("x-a", "1")]);
            strip_answer(&Method::GET, StatusCode::from_u16(status).unwrap(), &mut map);
            assert_eq!(map.len(), usize::from(kept), "{status} {location}");
        };
        check(307, "/ojs/v1/queues", true);
        check(201, "https://region.example/ojs/v1/jobs/1", true);
        for away in [
            "http://elsewhere.example/",
            "//elsewhere.example/",
            "/\\elsewhere.example",
            "elsewhere",
            "/\t/elsewhere.example/",
            "/\t\\elsewhere.example/",
            "\t//elsewhere.example/",
            "/ /elsewhere.example",
        ] {
            check(308, away, false);
        }
        let mut map = headers(&[("location", "/ojs/v1/queues"), ("location", "//elsewhere.example/")]);
        strip_answer(&Method::GET, StatusCode::FOUND, &mut map);
        assert!(map.is_empty(), "one of several leads away");
    }

    #[test]
    fn a_regions_length_and_what_only_the_sidecar_says_are_removed() {
        let lines = [
            ("content-length", "5"),
            ("ojs-federation-region", "forged"),
            ("ojs-federation-replayed", "true"),
            ("ojs-federation-anything", "1"),
            ("ojs-version", "1.0"),
        ];
        for (method, left) in [(Method::GET, 1), (Method::POST, 1), (Method::HEAD, 2)] {
            let mut map = headers(&lines);
            strip_answer(&method, StatusCode::OK, &mut map);
            assert_eq!(map.len(), left, "{method}: {map:?}");
        }
    }

    #[test]
    fn only_a_websocket_offer_asks_for_a_tunnel() {
        assert!(is_websocket_upgrade(&headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")])));
        assert!(!is_websocket_upgrade(&headers(&[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")])));
        assert!(!is_websocket_upgrade(&headers(&[("upgrade", "websocket")])));
    }
}
