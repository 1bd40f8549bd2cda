//! Results that one thread's consecutive requests mostly share, computed once.

use std::cell::RefCell;

use http::HeaderValue;

use crate::base::RegionId;

/// A longer `Host` is not kept for the next request.
const HOST_BYTES_MAX: usize = 255;

/// The last results, within one configuration.
#[derive(Debug, Default)]
pub(crate) struct LastSeen {
    host: RefCell<Vec<u8>>,
    region: RefCell<Option<(RegionId, HeaderValue)>>,
}

impl LastSeen {
    /// Whether a `Host` is one of ours, as `is_ours` finds out unless it is the one that was found to be ours last.
    pub(crate) fn is_our_host(&self, host: Option<&[u8]>, is_ours: impl FnOnce(Option<&[u8]>) -> bool) -> bool {
        if host.is_some_and(|host| !host.is_empty() && *self.host.borrow() == host) {
            return true;
        }
        let ours = is_ours(host);
        if let Some(host) = host.filter(|host| ours && host.len() <= HOST_BYTES_MAX) {
            *self.host.borrow_mut() = host.to_vec();
        }
        ours
    }

    /// A region as a header's value; that of the answer before shares its bytes.
    pub(crate) fn region_value(&self, region: &RegionId) -> Option<HeaderValue> {
        let mut last = self.region.borrow_mut();
        if let Some((_, value)) = last.as_ref().filter(|(known, _)| known == region) {
            return Some(value.clone());
        }
        let value = HeaderValue::from_str(region.as_str()).ok()?;
        *last = Some((region.clone(), value.clone()));
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_that_was_found_to_be_ours_is_known() {
        let lately = LastSeen::default();
        assert!(!lately.is_our_host(Some(b""), |_| false), "what is there from the beginning is no host");
        assert!(!lately.is_our_host(Some(b"a"), |_| false));
        assert!(!lately.is_our_host(Some(b"a"), |_| false), "what was refused is not known");
        assert!(lately.is_our_host(Some(b"b"), |_| true));
        assert!(lately.is_our_host(Some(b"b"), |_| panic!("it is known")));
        assert!(!lately.is_our_host(Some(b"bb"), |_| false));
        assert!(!lately.is_our_host(None, |_| false));
    }

    #[test]
    fn each_region_is_named_by_its_own_id() {
        let lately = LastSeen::default();
        for id in ["eu", "eu", "us", "eu"] {
            let region = RegionId::parse(id).unwrap();
            assert_eq!(lately.region_value(&region).unwrap(), id);
        }
    }
}
