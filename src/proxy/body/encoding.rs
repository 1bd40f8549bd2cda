//! Bodies that a client has compressed: they are decompressed for routing, and go on without their coding.
//!
//! Spec: RFC 9110 8.4, 15.5.16; ojs-protocol 1.1.

use std::io::{self, Read as _};

use bytes::{Bytes, BytesMut};
use flate2::bufread::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::collect::OVERLOADED_RETRY_AFTER;
use super::offload::offload;
use crate::ojs::ErrorDocument;
use crate::proxy::state::{Collected, Proxy, Share};

/// Text shrinks to a tenth; a body that grows more than this was made to fill memory.
const RATIO_MAX: usize = 100;
/// Below this, any ratio is taken: jobs with one long repetition are short. Units: bytes.
const RATIO_FREE_BYTES: usize = 1024 * 1024;
/// Decompressed at once, between two looks at the bounds. Units: bytes.
const STEP_BYTES: usize = 16 * 1024;
/// The assumed ratio of decompression, which decides on which thread a body is decompressed.
const USUAL_RATIO: usize = 16;

/// How a body is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Not at all.
    Plain,
    /// By gzip, once.
    Gzip,
}

/// Takes the coding of a body from its headers, which say nothing of it any more then.
///
/// Errors: 415 for any other coding, and for several.
pub(crate) fn take(headers: &mut HeaderMap) -> Result<Encoding, ErrorDocument> {
    let mut encoding = Encoding::Plain;
    for value in headers.get_all(CONTENT_ENCODING) {
        for name in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            // `identity` is no coding, and an empty element of a list is none.
            if is("") || is("identity") {
                continue;
            }
            if encoding != Encoding::Plain || !(is("gzip") || is("x-gzip")) {
                return Err(ErrorDocument::content_encoding());
            }
            encoding = Encoding::Gzip;
        }
    }
    headers.remove(CONTENT_ENCODING);
    Ok(encoding)
}

impl Encoding {
    /// The body as it was before it was coded. An empty one was not.
    ///
    /// Errors: 413 for a body that is longer than `limits.body_bytes` or grows beyond the ratio; 503 while other bodies
    /// take the memory; 400 for a body that is not gzip, or breaks off.
    pub(crate) async fn decoded(self, proxy: &Proxy, body: Collected) -> Result<Collected, ErrorDocument> {
        if self == Self::Plain || body.bytes().is_empty() {
            return Ok(body);
        }
        let limits = &proxy.shared.config.limits;
        let (bytes_max, share) = (limits.body_bytes, proxy.shared.buffered.request(limits.buffered_bytes));
        let compressed = body.hold();
        let guess = compressed.len().saturating_mul(USUAL_RATIO);
        offload(guess, move || gunzip(&compressed, bytes_max, share)).await
    }
}

fn gunzip(compressed: &Bytes, bytes_max: usize, mut share: Share) -> Result<Collected, ErrorDocument> {
    let by_ratio = RATIO_FREE_BYTES.max(compressed.len().saturating_mul(RATIO_MAX));
    let mut decoder = MultiGzDecoder::new(&compressed[..]);
    let mut body = BytesMut::new();
    loop {
        let begun = body.len();
        if !share.grow(STEP_BYTES) {
            return Err(ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER));
        }
        body.resize(begun + STEP_BYTES, 0);
        let read = fill(&mut decoder, &mut body[begun..]).map_err(|_| ErrorDocument::no_gzip())?;
        body.truncate(begun + read);
        if body.len() > bytes_max {
            return Err(ErrorDocument::body_too_large(bytes_max));
        }
        if body.len() > by_ratio {
            return Err(ErrorDocument::compression_ratio(RATIO_MAX));
        }
        if read < STEP_BYTES {
            return Ok(Collected::joined(body, share));
        }
    }
}

/// Reads until the room is full or nothing follows.
fn fill(decoder: &mut MultiGzDecoder<&[u8]>, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match decoder.read(&mut room[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;

    use super::*;
    use crate::proxy::state::buffered::Buffered;

    fn gzip(body: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap().into()
    }

    fn check(compressed: &[u8], expected: Result<&[u8], &str>) {
        let all = Buffered::default();
        let body = gunzip(&Bytes::copy_from_slice(compressed), 8 * 1024 * 1024, all.request(usize::MAX));
        let body = body.map(Collected::hold).map_err(|document| document.reason.as_str());
        assert_eq!(body.as_deref().map_err(|reason| *reason), expected);
        drop(body);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn what_was_compressed_comes_back_within_the_bounds() {
        let long = "0123456789 ".repeat(20_000).into_bytes();
        for body in [&b"{}"[..], &[b'x'; STEP_BYTES], &[b'x'; RATIO_FREE_BYTES], &long] {
            check(&gzip(body), Ok(body));
        }
        let several = [gzip(b"one "), gzip(b"two")].concat();
        check(&several, Ok(b"one two"));
        check(&gzip(&[b'x'; RATIO_FREE_BYTES + 1]), Err("compression_ratio"));
        let random: Vec<u8> = (0..9_000_000_u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        check(&gzip(&random), Err("body_too_large"));
        let whole = gzip(b"{}");
        for broken in [&whole[..whole.len() - 1], &whole[..5], b"{}", &[&whole[..], b"{}"].concat()] {
            check(broken, Err("content_encoding"));
        }
        let full = gunzip(&whole, 100, Buffered::default().request(1));
        assert_eq!(full.map(Collected::hold).map_err(|it| it.status.as_u16()), Err(503));
    }

    #[test]
    fn only_gzip_is_a_coding_that_is_read() {
        let check = |values: &[&'static str], expected: Option<Encoding>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            let taken = take(&mut headers);
            assert_eq!(
                taken.as_ref().err().map(|document| document.status.as_u16()),
                expected.is_none().then_some(415)
            );
            assert_eq!(
                (taken.ok(), headers.is_empty()),
                (expected, expected.is_some() || values.is_empty()),
                "{values:?}"
            );
        };
        check(&[], Some(Encoding::Plain));
        check(&["identity"], Some(Encoding::Plain));
        check(&["", "Identity, "], Some(Encoding::Plain));
        check(&["GZip"], Some(Encoding::Gzip));
        check(&["identity", "x-gzip"], Some(Encoding::Gzip));
        for other in ["gzip, gzip", "br", "zstd", "deflate, gzip", "gzip;q=1", "gzip\u{9}x"] {
            check(&[other], None);
        }
        check(&["gzip", "gzip"], None);
    }
}
