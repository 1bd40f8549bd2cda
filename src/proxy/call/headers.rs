//! A call's headers, for as many tries as it takes.

use std::borrow::Cow;

use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::ojs::header::BLOCK_TIMEOUT;

/// The headers as received, for the first try, and a copy in one piece for further tries. Most calls need no copy, and
/// a second map would count references to each of its values. The copy holds only the position of `Host`, which differs
/// for each region.
#[derive(Debug)]
pub(crate) struct CallHeaders {
    /// There until the first try. The map that the client's connection has made comes back to it with the answer, and its room with it.
    map: Option<HeaderMap>,
    /// One line behind the other: the lengths of name and value, then both, but no `Host`. Empty before the first try.
    lines: Vec<u8>,
    /// Whether they let a region hold an enqueue back. Known from the first try on.
    may_block: bool,
    /// Whether there is one try, so that no copy is made.
    is_once: bool,
}

/// The lengths of a name and of its value, which stand in front of the two. No head is too long for that.
type Lengths = [[u8; 4]; 2];

impl From<HeaderMap> for CallHeaders {
    fn from(map: HeaderMap) -> Self {
        Self { map: Some(map), lines: Vec::new(), may_block: false, is_once: false }
    }
}

impl CallHeaders {
    /// The headers of a call that is tried once: none are left behind that.
    pub(crate) fn once(map: HeaderMap) -> Self {
        Self { is_once: true, ..map.into() }
    }

    /// The headers for one try.
    pub(crate) fn for_one_try(&mut self) -> HeaderMap {
        let Some(map) = self.map.take() else { return self.unpacked() };
        if self.is_once {
            self.may_block = map.contains_key(BLOCK_TIMEOUT);
            return map;
        }
        let others = || map.iter().filter(|(name, _)| **name != HOST);
        let bytes = others().map(|(name, value)| size_of::<Lengths>() + name.as_str().len() + value.len()).sum();
        self.lines = Vec::with_capacity(bytes);
        for (name, value) in others() {
            self.may_block |= *name == BLOCK_TIMEOUT;
            let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
            let lengths: Lengths =
                [name.len(), value.len()].map(|length| u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
            self.lines.extend_from_slice(lengths.as_flattened());
            self.lines.extend_from_slice(name);
            self.lines.extend_from_slice(value);
        }
        map
    }

    /// All of them.
    pub(crate) fn all(&self) -> Cow<'_, HeaderMap> {
        self.map.as_ref().map_or_else(|| Cow::Owned(self.unpacked()), Cow::Borrowed)
    }

    /// Whether the region that was tried may have held an enqueue back.
    pub(crate) const fn may_block(&self) -> bool {
        self.may_block
    }

    /// Whether there is one by this name.
    pub(crate) fn has(&self, name: &HeaderName) -> bool {
        match &self.map {
            Some(map) => map.contains_key(name),
            None => self.lines().any(|(known, _)| known == name.as_str().as_bytes()),
        }
    }

    fn unpacked(&self) -> HeaderMap {
        debug_assert!(!self.is_once, "no copy was made");
        let mut map = HeaderMap::new();
        map.insert(HOST, HeaderValue::from_static(""));
        for (name, value) in self.lines() {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                map.append(name, value);
            }
        }
        map
    }

    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.lines.as_slice();
        std::iter::from_fn(move || {
            let (lengths, line) = rest.split_first_chunk::<{ size_of::<Lengths>() }>()?;
            let (name, line) = line.split_at_checked(length(lengths.first_chunk()?)?)?;
            let (value, behind) = line.split_at_checked(length(lengths.last_chunk()?)?)?;
            rest = behind;
            Some((name, value))
        })
    }
}

fn length(bytes: &[u8; 4]) -> Option<usize> {
    usize::try_from(u32::from_ne_bytes(*bytes)).ok()
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, SET_COOKIE};

    use super::*;

    #[test]
    fn each_try_has_the_headers_of_the_first_and_room_for_the_regions_own_host() {
        let mut map = HeaderMap::new();
        map.append(HOST, HeaderValue::from_static("localhost"));
        map.append(BLOCK_TIMEOUT, HeaderValue::from_static("5"));
        map.append("x-empty", HeaderValue::from_static(""));
        map.append("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        map.append(SET_COOKIE, HeaderValue::from_static("a=1"));
        map.append(SET_COOKIE, HeaderValue::from_static("b=2"));
        let mut headers = CallHeaders::from(map.clone());
        assert_eq!(*headers.all(), map);
        assert_eq!(headers.for_one_try(), map);
        assert!(headers.may_block());
        map.insert(HOST, HeaderValue::from_static(""));
        for _ in 0..3 {
            assert_eq!(*headers.all(), map);
            assert!(
                headers.has(&SET_COOKIE) && headers.has(&HeaderName::from_static("x-empty")) && !headers.has(&ACCEPT)
            );
            let sent = headers.for_one_try();
            assert_eq!(sent, map);
            assert_eq!(sent.keys().next(), Some(&HOST), "it comes first, as the client had it");
        }
    }

    #[test]
    fn headers_that_are_sent_once_are_not_copied() {
        let map =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("a")), (BLOCK_TIMEOUT, "5".parse().unwrap())]);
        let mut headers = CallHeaders::once(map.clone());
        assert!(headers.has(&ACCEPT));
        assert_eq!((headers.for_one_try(), headers.lines.capacity()), (map, 0));
        assert!(headers.may_block());
    }

    #[test]
    fn without_the_header_for_it_no_region_holds_an_enqueue_back() {
        let mut headers = CallHeaders::from(HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("5"))]));
        headers.for_one_try();
        assert!(!headers.may_block());
    }
}
