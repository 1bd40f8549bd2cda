//! A call's headers, for as many tries as it takes.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers as they came, for the first try, and a copy in one piece for the others: most calls need none, and another map would count
/// who shares each of its values.
#[derive(Debug)]
pub(super) struct CallHeaders {
    /// There until the first try. The map that the client's connection has made comes back to it with the answer, and its room with it.
    map: Option<HeaderMap>,
    /// One line behind the other: the lengths of name and value, then both. Empty before the first try.
    lines: Vec<u8>,
}

/// The bytes of a length in front of a name or a value: no head is as long as it can say.
const LENGTH_BYTES: usize = size_of::<u32>();

impl From<HeaderMap> for CallHeaders {
    fn from(map: HeaderMap) -> Self {
        Self { map: Some(map), lines: Vec::new() }
    }
}

impl CallHeaders {
    /// The headers for one try.
    pub(super) fn for_one_try(&mut self) -> HeaderMap {
        let Some(map) = self.map.take() else { return self.unpacked() };
        let bytes = map.iter().map(|(name, value)| 2 * LENGTH_BYTES + name.as_str().len() + value.len()).sum();
        self.lines = Vec::with_capacity(bytes);
        for (name, value) in &map {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                self.lines.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_ne_bytes());
                self.lines.extend_from_slice(part);
            }
        }
        map
    }

    /// All of them.
    pub(super) fn all(&self) -> Cow<'_, HeaderMap> {
        self.map.as_ref().map_or_else(|| Cow::Owned(self.unpacked()), Cow::Borrowed)
    }

    /// Whether there is one by this name.
    pub(super) fn has(&self, name: &HeaderName) -> bool {
        match &self.map {
            Some(map) => map.contains_key(name),
            None => self.lines().any(|(known, _)| known == name.as_str().as_bytes()),
        }
    }

    fn unpacked(&self) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in self.lines() {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                map.append(name, value);
            }
        }
        map
    }

    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.lines.as_slice();
        std::iter::from_fn(move || Some((part(&mut rest)?, part(&mut rest)?)))
    }
}

/// Takes the next name or value.
fn part<'l>(rest: &mut &'l [u8]) -> Option<&'l [u8]> {
    let (length, behind) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    let (part, behind) = behind.split_at_checked(usize::try_from(u32::from_ne_bytes(*length)).ok()?)?;
    *rest = behind;
    Some(part)
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HOST, SET_COOKIE};

    use super::*;

    #[test]
    fn each_try_has_the_headers_of_the_first() {
        let mut map = HeaderMap::new();
        map.append(HOST, HeaderValue::from_static("localhost"));
        map.append("x-empty", HeaderValue::from_static(""));
        map.append("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        map.append(SET_COOKIE, HeaderValue::from_static("a=1"));
        map.append(SET_COOKIE, HeaderValue::from_static("b=2"));
        let mut headers = CallHeaders::from(map.clone());
        for _ in 0..3 {
            assert_eq!(*headers.all(), map);
            assert!(headers.has(&HOST) && headers.has(&HeaderName::from_static("x-empty")) && !headers.has(&ACCEPT));
            assert_eq!(headers.for_one_try(), map);
        }
    }
}
