//! The closed set of reasons for which the bytes of a client, or of a region, are refused.

use http::StatusCode;

/// Why a request, or a region's answer, could be read in two ways, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Violation {
    /// A line that ends in a bare LF, a bare CR between messages, or a second blank line before a request.
    #[error("a line does not end in CRLF; end every line of a request head with CRLF")]
    LineEnd,
    /// Anything but `METHOD SP target SP HTTP/1.x`.
    #[error("the request line is not `METHOD target HTTP/1.1` with single spaces")]
    RequestLine,
    /// A target with bytes that have to be percent-encoded, or that does not start with a slash.
    #[error("the request target is not a path; percent-encode everything outside printable ASCII")]
    Target,
    /// A target with another scheme than `http`, or without a valid host and port.
    #[error(
        "the request target is neither a path nor `http://`, a host of the sidecar and a path; this is not a forward proxy"
    )]
    AbsoluteTarget,
    /// The CONNECT method.
    #[error("CONNECT is not served; this is not a forward proxy")]
    Connect,
    /// Any version but 1.0 and 1.1, the HTTP/2 preface included.
    #[error("the HTTP version is not served; use HTTP/1.1")]
    Version,
    /// The request line alone is longer than a head may be.
    #[error("the request target is longer than limits.head_bytes allows")]
    TargetTooLong,
    /// The head is longer than a head may be.
    #[error("the request head is longer than limits.head_bytes allows")]
    HeadTooLong,
    /// More header lines than are read.
    #[error("the request has more header lines than limits.headers allows")]
    TooManyHeaders,
    /// A header line that continues the one before.
    #[error("a header line is folded; send every header on one line")]
    Folded,
    /// White space between a header's name and its colon.
    #[error("a header name is followed by white space; remove it")]
    SpaceBeforeColon,
    /// A header name that is empty or no token, or that some servers read as another one.
    #[error("a header line has no valid name")]
    HeaderName,
    /// A control byte in a header's value.
    #[error("a header value has a control byte in it")]
    HeaderValue,
    /// A second `Content-Length`, even an equal one.
    #[error("there is more than one Content-Length; send one")]
    LengthTwice,
    /// A `Content-Length` that is no plain decimal number.
    #[error("the Content-Length is not a plain decimal number")]
    LengthInvalid,
    /// `Content-Length` beside `Transfer-Encoding`.
    #[error("Content-Length and Transfer-Encoding are both given; send one of them")]
    LengthAndCoding,
    /// A `Transfer-Encoding` other than exactly one `chunked`.
    #[error("the Transfer-Encoding is not exactly `chunked`")]
    Coding,
    /// `Transfer-Encoding` in HTTP/1.0.
    #[error("HTTP/1.0 has no Transfer-Encoding; send a Content-Length or use HTTP/1.1")]
    CodingInHttp10,
    /// HTTP/1.1 without `Host`.
    #[error("there is no Host header")]
    HostMissing,
    /// A second `Host`.
    #[error("there is more than one Host header; send one")]
    HostTwice,
    /// A `Host` that is no host and port.
    #[error("the Host header is not a host and port")]
    HostInvalid,
    /// The connection ended inside a head.
    #[error("the connection ended before the request head did")]
    HeadTruncated,
    /// A chunk size other than 1 to 16 hexadecimal digits and CRLF.
    #[error("a chunk size is not 1 to 16 hexadecimal digits and CRLF")]
    ChunkSize,
    /// A chunk extension.
    #[error("chunk extensions are not accepted")]
    ChunkExtension,
    /// A chunk that is longer than its size says.
    #[error("a chunk does not end in CRLF where its size says")]
    ChunkEnd,
    /// Trailers that are too long, or that speak of the message's length or host.
    #[error("the trailers are longer than 8 KiB, or name a length, a transfer coding or a host")]
    Trailer,
    /// No fault of the bytes: there is no memory for more of them.
    #[error("clients hold as much memory as limits.memory allows; send the request again later")]
    NoRoom,
    /// More bytes behind an answer than its head announces.
    #[error("more bytes follow the answer than its head announces")]
    Surplus,
}

impl Violation {
    /// The status that answers it.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            Self::HeadTooLong | Self::TooManyHeaders => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Finds the violation that made a request's body fail, in the causes of the error that reading the body gave.
    ///
    /// `None` means that the client went away, or that the connection failed.
    #[must_use]
    pub fn in_causes_of(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(violation) = error.downcast_ref::<Self>() {
                return Some(*violation);
            }
            // The `source` of an I/O error is the source of the error that it wraps, so that the wrapped error is asked
            // for.
            let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            if let Some(violation) = wrapped.and_then(|wrapped| wrapped.downcast_ref::<Self>()) {
                return Some(*violation);
            }
            cause = error.source();
        }
        None
    }
}

impl From<Violation> for std::io::Error {
    fn from(violation: Violation) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, violation)
    }
}
