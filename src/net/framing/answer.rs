//! The end of a region's answers: whether the received bytes are one whole answer, and whether a head can be read one
//! way only.

use http::{HeaderMap, Version};

use super::head::{Head, plain_header, plain_length};
use super::{Alone, Violation};

/// Judges how the head of an answer delimits its body, by the rules for requests: an answer that two readers could
/// delimit differently is refused, also where hyper accepts it.
///
/// Errors: [`Violation`]. Spec: RFC 9112 §6.3.
pub(in crate::net) fn judge_answer(version: Version, headers: &HeaderMap) -> Result<(), Violation> {
    let mut head = Head::of_answer(version == Version::HTTP_11);
    for (name, value) in headers {
        head.delimiting_field(name.as_str().as_bytes(), value.as_bytes())?;
    }
    head.end().map(drop)
}

/// The one answer that these bytes are, with a body that they end with. `None` for everything else, and for every head that is
/// not as nearly all are: the HTTP library reads that by itself.
pub(in crate::net) fn whole_answer(bytes: &[u8]) -> Option<Alone> {
    let behind = bytes.strip_prefix(b"HTTP/1.1 ")?;
    let (status, behind) = behind.split_first_chunk::<3>()?;
    // Other answers have no body, for any head.
    if !matches!(status, [b'2'..=b'5', b'0'..=b'9', b'0'..=b'9']) || matches!(status, b"204" | b"304") {
        return None;
    }
    let reason = memchr::memchr(b'\n', behind)?;
    let (line, mut rest) = behind.split_at_checked(reason + 1)?;
    if !line.ends_with(b"\r\n")
        || line.iter().any(|byte| !byte.is_ascii_graphic() && !matches!(byte, b' ' | b'\r' | b'\n'))
    {
        return None;
    }
    let (mut length, mut length_ends) = (None, 0);
    while !rest.starts_with(b"\r\n") {
        let (name, value) = plain_header(rest)?;
        rest = rest.get(name.len() + value.len() + ":\r\n".len()..)?;
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                if length.is_some() {
                    return None;
                }
                length = Some(plain_length(value.trim_ascii())?);
                length_ends = bytes.len() - rest.len();
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => return None,
            _ => {}
        }
    }
    let head = bytes.len() - rest.len() + "\r\n".len();
    let body = bytes.len() - head;
    (body > 0 && length? == body as u64).then_some(Alone { head, length_ends, number: 0 })
}
