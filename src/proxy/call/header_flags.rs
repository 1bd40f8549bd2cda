//! Which headers a request came with, of those that every call is looked over for: one walk over the names in place of a look-up for
//! each.

use http::{HeaderMap, HeaderName};

use crate::net::headers::is_hop_by_hop;

/// Some of these headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderFlags(u16);

impl HeaderFlags {
    pub(crate) const REQUEST_ID: Self = Self(1);
    pub(crate) const USER_AGENT: Self = Self(1 << 1);
    pub(crate) const HOPS: Self = Self(1 << 2);
    pub(crate) const REGION: Self = Self(1 << 3);
    pub(crate) const CONTENT_ENCODING: Self = Self(1 << 4);
    pub(crate) const ACCEPT_ENCODING: Self = Self(1 << 5);
    pub(crate) const BLOCK_TIMEOUT: Self = Self(1 << 6);
    pub(crate) const IDEMPOTENCY_KEY: Self = Self(1 << 7);
    /// Headers that belong to the client's connection.
    pub(crate) const HOP_BY_HOP: Self = Self(1 << 8);
    /// A name with an `x` in front, which may restate the request line.
    pub(crate) const X: Self = Self(1 << 9);
    /// Headers that only browsers send: a page's origin, its relation to us, or a preflight's question.
    pub(crate) const BROWSER: Self = Self(1 << 10);

    /// The tenant, by either spelling.
    pub(crate) const TENANT: Self = Self(1 << 11);

    /// Those that are there.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        headers.keys().fold(Self(0), |seen, name| Self(seen.0 | Self::by_name(name).0))
    }

    /// Whether this one is there.
    pub(crate) const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    fn by_name(name: &HeaderName) -> Self {
        match name.as_str() {
            "x-request-id" => Self::REQUEST_ID,
            "user-agent" => Self::USER_AGENT,
            "ojs-federation-hops" => Self::HOPS,
            "ojs-federation-region" => Self::REGION,
            "content-encoding" => Self::CONTENT_ENCODING,
            "accept-encoding" => Self::ACCEPT_ENCODING,
            "ojs-block-timeout" => Self::BLOCK_TIMEOUT,
            "idempotency-key" => Self::IDEMPOTENCY_KEY,
            "origin" | "sec-fetch-site" | "access-control-request-method" => Self::BROWSER,
            "x-ojs-tenant" | "x-ojs-tenant-id" => Self::TENANT,
            other if other.starts_with('x') => Self::X,
            _ if is_hop_by_hop(name) => Self::HOP_BY_HOP,
            _ => Self(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, USER_AGENT};

    use super::*;
    use crate::net::origin::BROWSER_HEADERS;
    use crate::ojs::header::{
        BLOCK_TIMEOUT, FEDERATION_HOPS, FEDERATION_REGION, IDEMPOTENCY_KEY, REQUEST_ID, TENANT, TENANT_ID,
    };

    #[test]
    fn every_header_is_noted_under_the_name_by_which_it_is_read() {
        let all = [
            (REQUEST_ID, HeaderFlags::REQUEST_ID),
            (USER_AGENT, HeaderFlags::USER_AGENT),
            (FEDERATION_HOPS, HeaderFlags::HOPS),
            (FEDERATION_REGION, HeaderFlags::REGION),
            (CONTENT_ENCODING, HeaderFlags::CONTENT_ENCODING),
            (ACCEPT_ENCODING, HeaderFlags::ACCEPT_ENCODING),
            (BLOCK_TIMEOUT, HeaderFlags::BLOCK_TIMEOUT),
            (IDEMPOTENCY_KEY, HeaderFlags::IDEMPOTENCY_KEY),
            (TENANT, HeaderFlags::TENANT),
            (TENANT_ID, HeaderFlags::TENANT),
            (http::header::CONNECTION, HeaderFlags::HOP_BY_HOP),
            (HeaderName::from_static("x_http_method_override"), HeaderFlags::X),
            (http::header::CONTENT_TYPE, HeaderFlags(0)),
        ];
        let all =
            all.into_iter().chain(BROWSER_HEADERS.map(|name| (HeaderName::from_static(name), HeaderFlags::BROWSER)));
        let mut headers = HeaderMap::new();
        let mut together = 0;
        for (name, noted) in all {
            let alone = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("1"))]);
            assert_eq!(HeaderFlags::of(&alone), noted, "{name}");
            headers.insert(name, HeaderValue::from_static("1"));
            together |= noted.0;
        }
        assert_eq!(HeaderFlags::of(&headers), HeaderFlags(together));
    }
}
