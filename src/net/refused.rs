//! Why a client is refused before its request is served.

use http::StatusCode;

use super::framing::Violation;

/// Why a connection is answered without its request having been served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The bytes are no request that is read one way only.
    Malformed(Violation),
    /// A head was not complete in time.
    HeadTimeout,
    /// There are as many connections as there may be.
    Busy,
}

impl Refused {
    /// The status that says so.
    #[must_use]
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests"))]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Malformed(violation) => violation.status(),
            Self::HeadTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(violation) => violation.fmt(f),
            Self::HeadTimeout => f.write_str("the request head was not complete within limits.head_timeout"),
            Self::Busy => {
                f.write_str("there are limits.client_connections connections; close some, or raise the limit")
            }
        }
    }
}
