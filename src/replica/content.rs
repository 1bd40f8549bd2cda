//! A call as one piece of bytes: its path, its headers and its body. In files and databases are sealed copies only.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue};

/// A call as it goes to a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The path, with its query.
    pub path: PathAndQuery,
    /// The headers of its caller.
    pub headers: HeaderMap,
    /// The job, stamped.
    pub body: Bytes,
}

impl Content {
    /// Shape: the path, the number of headers, name and value of each, then the body. A length of four bytes stands in front of each text.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length());
        self.write(&mut bytes);
        bytes
    }

    pub(super) fn length(&self) -> usize {
        let lines: usize = self.headers.iter().map(|(name, value)| 8 + name.as_str().len() + value.len()).sum();
        8 + self.path.as_str().len() + lines + self.body.len()
    }

    /// Adds [`Self::to_bytes`].
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.path.as_str().as_bytes());
        bytes.extend_from_slice(&length(self.headers.len()));
        for (name, value) in &self.headers {
            put(bytes, name.as_str().as_bytes());
            put(bytes, value.as_bytes());
        }
        bytes.extend_from_slice(&self.body);
    }

    /// The call of these bytes; `None` for bytes that are none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let path = PathAndQuery::try_from(take(&mut rest)?).ok()?;
        let mut headers = HeaderMap::new();
        for _ in 0..take_length(&mut rest)? {
            let name = HeaderName::from_bytes(take(&mut rest)?).ok()?;
            // More headers than a map takes are no call.
            headers.try_append(name, HeaderValue::from_bytes(take(&mut rest)?).ok()?).ok()?;
        }
        Some(Self { path, headers, body: Bytes::copy_from_slice(rest) })
    }
}

/// No head and no body is too long for that.
pub(super) fn length(of: usize) -> [u8; 4] {
    u32::try_from(of).unwrap_or(u32::MAX).to_be_bytes()
}

pub(super) fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(&length(text.len()));
    bytes.extend_from_slice(text);
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    usize::try_from(u32::from_be_bytes(*length)).ok()
}

pub(super) fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = take_length(rest)?;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_it_was_written_and_every_cut_one_is_none() {
        let mut headers = HeaderMap::new();
        headers.append("x-a", HeaderValue::from_static("1"));
        headers.append("x-a", HeaderValue::from_bytes(b"\xe9").unwrap());
        let call = Content {
            path: PathAndQuery::from_static("/ojs/v1/jobs?x=1"),
            headers,
            body: Bytes::from_static(b"{\"type\":\"a\"}"),
        };
        let bytes = call.to_bytes();
        assert_eq!(Content::read(&bytes).as_ref(), Some(&call));
        let head = bytes.len() - call.body.len();
        for cut in 0..head {
            assert_eq!(Content::read(&bytes[..cut]), None, "{cut}");
        }
    }
}
