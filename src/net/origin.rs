//! Which web page a request comes from, as browsers say it.
//!
//! A page of any origin can make a browser send requests to local addresses: a browser is not a client of ours, unless its page
//! was served by us or its origin is one that the operator allows.
//!
//! Spec: Fetch 3.2 (`Origin`), 3.3 (preflights), 3.9 (local network); Fetch Metadata 2.3 (`Sec-Fetch-Site`).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, GetAll, HOST, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// The header by which browsers give the page's relation to the address that it calls.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");
const ALLOW_CREDENTIALS: HeaderName = HeaderName::from_static("access-control-allow-credentials");
/// How long a browser may cache a preflight. Units: seconds.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("600");
/// An answer that depends on the origin is not given to another origin from a cache.
const VARY_ORIGIN: HeaderValue = HeaderValue::from_static("origin");
/// All headers of an answer, for calls without credentials.
const ALL: HeaderValue = HeaderValue::from_static("*");

/// The headers that only browsers send.
#[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests"))]
pub const BROWSER_HEADERS: [&str; 3] = ["origin", "sec-fetch-site", "access-control-request-method"];

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// No browser says that a page sent it.
    None,
    /// A page that was served by the address that the request goes to.
    Own,
    /// A page of one of the allowed origins, at this place of the list.
    Allowed(usize),
    /// A page of another origin.
    Foreign,
}

impl Page {
    /// Where a request with these headers comes from; `allowed` are origins in lower case, such as `https://ui.example:8443`.
    #[must_use]
    pub fn of(headers: &HeaderMap, allowed: &[String]) -> Self {
        let mut origins = headers.get_all(ORIGIN).iter();
        let origin = match (origins.next(), origins.next()) {
            (None, _) if is_from_same_origin(&headers.get_all(SEC_FETCH_SITE)) => return Self::None,
            (Some(origin), None) => origin.as_bytes(),
            _ => return Self::Foreign,
        };
        if let Some(place) = allowed.iter().position(|it| it.as_bytes().eq_ignore_ascii_case(origin)) {
            return Self::Allowed(place);
        }
        let own = headers.get(HOST).zip(origin.strip_prefix(b"http://"));
        let is_own = own.is_some_and(|(host, authority)| host.as_bytes().eq_ignore_ascii_case(authority));
        if is_own && is_from_same_origin(&headers.get_all(SEC_FETCH_SITE)) { Self::Own } else { Self::Foreign }
    }
}

/// Whether no line names another origin: `same-site` is a page of another port or host name of this machine.
fn is_from_same_origin(lines: &GetAll<'_, HeaderValue>) -> bool {
    lines.iter().all(|line| matches!(line.as_bytes(), b"same-origin" | b"none"))
}

/// Whether a browser asks for permission before the request proper. Always answered here: a region's permission would
/// be for its own pages.
#[must_use]
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Permits an allowed origin the request that its preflight asks for.
pub fn permit(asked: &HeaderMap, answer: &mut HeaderMap) {
    for (wish, leave) in [
        (ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_ALLOW_METHODS),
        (ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_ALLOW_HEADERS),
        (REQUEST_PRIVATE_NETWORK, ALLOW_PRIVATE_NETWORK),
    ] {
        if let Some(wish) = asked.get(wish) {
            answer.insert(leave, wish.clone());
        }
    }
    answer.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
}

/// Lets a page of this allowed origin read the answer; a region's own headers about origins are replaced.
pub fn show(origin: &str, answer: &mut HeaderMap) {
    // The configuration was checked: an origin is a header's value.
    let Ok(origin) = HeaderValue::from_str(origin) else { return };
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ALL);
    answer.remove(ALLOW_CREDENTIALS);
    answer.append(VARY, VARY_ORIGIN);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(lines: &[(&'static str, &'static str)]) -> Page {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Page::of(&headers, &["https://ui.example".to_owned(), "http://localhost:3000".to_owned()])
    }

    #[test]
    fn only_our_own_pages_and_allowed_origins_are_not_foreign() {
        const HOST: (&str, &str) = ("host", "localhost:8080");
        for (lines, expected) in [
            (&[][..], Page::None),
            (&[("sec-fetch-site", "none")], Page::None),
            (&[("sec-fetch-site", "same-origin")], Page::None),
            (&[("sec-fetch-site", "cross-site")], Page::Foreign),
            (&[("sec-fetch-site", "same-site")], Page::Foreign),
            (&[("sec-fetch-site", "Same-Origin")], Page::Foreign),
            (&[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], Page::Foreign),
            (&[("origin", "http://localhost:8080")], Page::Own),
            (&[("origin", "http://LOCALHOST:8080"), ("sec-fetch-site", "same-origin")], Page::Own),
            (&[("origin", "http://localhost:8080"), ("sec-fetch-site", "cross-site")], Page::Foreign),
            (&[("origin", "https://localhost:8080")], Page::Foreign),
            (&[("origin", "http://localhost")], Page::Foreign),
            (&[("origin", "http://localhost:80800")], Page::Foreign),
            (&[("origin", "https://ui.example"), ("sec-fetch-site", "cross-site")], Page::Allowed(0)),
            (&[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")], Page::Allowed(1)),
            (&[("origin", "https://ui.example.evil.example")], Page::Foreign),
            (&[("origin", "http://ui.example")], Page::Foreign),
            (&[("origin", "https://ui.example"), ("origin", "https://evil.example")], Page::Foreign),
            (&[("origin", "null")], Page::Foreign),
            (&[("origin", "")], Page::Foreign),
        ] {
            assert_eq!(page(&[&[HOST], lines].concat()), expected, "{lines:?}");
        }
        assert_eq!(page(&[("origin", "http://")]), Page::Foreign, "no host is no origin");
    }
}
