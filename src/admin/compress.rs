//! Compressed answers for callers that accept them: a scrape of all regions shrinks to a tenth.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue, Response};

/// Shorter answers fit into one packet as they are. Units: bytes.
const BYTES_MIN: usize = 1_400;

/// The answer, compressed where that is asked for and pays.
pub(super) fn compressed(asked: &HeaderMap, mut response: Response<Bytes>) -> Response<Bytes> {
    if response.body().len() < BYTES_MIN {
        return response;
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if !accepts_gzip(asked) {
        return response;
    }
    // Fast: the thread has probes to send, and numbers compress well in any case.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(response.body()).and_then(|()| encoder.finish());
    // Writing to memory does not fail; if it did, the plain answer would be as good.
    if let Ok(bytes) = written {
        *response.body_mut() = Bytes::from(bytes);
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Spec: RFC 9110 §12.5.3; a quality of 0 forbids.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|line| line.to_str().ok());
    let mut codings = lines.flat_map(|line| line.split(','));
    codings.any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let quality = quality.trim().strip_prefix("q=").and_then(|quality| quality.trim().parse::<f32>().ok());
        matches!(name.trim(), "gzip" | "x-gzip") && quality.is_some_and(|quality| quality > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_ask_for_it_and_do_not_forbid_it() {
        for (line, expected) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=nonsense", false),
            ("identity", false),
            ("zgzip", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(line))]);
            assert_eq!(accepts_gzip(&headers), expected, "{line}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
