//! The regions that operators have put at this hub, for the discovery of its sidecars.

use serde::{Deserialize, Serialize};

use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::region::discovery::{FeedRegion, FeedRegions, PUT_REGIONS_MAX};

/// A region, and the order that has put it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PutRegion {
    #[serde(flatten)]
    pub(super) region: FeedRegion,
    /// When, by the hub's clock. Units: milliseconds since the Unix epoch.
    pub(super) put_ms: u64,
    pub(super) reason: String,
    pub(super) ticket: String,
    pub(super) author: String,
}

impl PutRegion {
    /// As lists show it.
    pub(super) fn shown(&self) -> serde_json::Value {
        serde_json::json!({
            "id": self.region.id.as_str(),
            "url": self.region.url,
            "weight": self.region.weight,
            "tags": self.region.tags,
            "since": rfc3339(self.put_ms),
            "reason": self.reason,
            "ticket": self.ticket,
            "author": self.author,
        })
    }
}

/// All of them, by their ids. Shape: at most one for each id, and [`PUT_REGIONS_MAX`] at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PutRegions(Vec<PutRegion>);

/// The fate of a region that is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It is there, or is another one than before.
    Changed,
    /// It was there, just so.
    Same,
    /// There is no room for it.
    TooMany,
}

impl PutRegions {
    /// In the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PutRegion> {
        self.0.iter()
    }

    pub(super) fn get(&self, id: &RegionId) -> Option<&PutRegion> {
        self.place(id).ok().and_then(|place| self.0.get(place))
    }

    /// Puts a region in place of one with its id. A repetition changes nothing, also with other grounds.
    pub(super) fn put(&mut self, put: PutRegion) -> Put {
        match self.place(&put.region.id) {
            Ok(place) if self.0[place].region == put.region => return Put::Same,
            Ok(place) => self.0[place] = put,
            Err(_) if self.0.len() >= PUT_REGIONS_MAX => return Put::TooMany,
            Err(place) => self.0.insert(place, put),
        }
        Put::Changed
    }

    /// Takes a region out, and returns it.
    pub(super) fn delete(&mut self, id: &RegionId) -> Option<PutRegion> {
        self.place(id).ok().map(|place| self.0.remove(place))
    }

    /// The data of an event of the feed.
    pub(super) fn event(&self) -> FeedRegions<&FeedRegion> {
        FeedRegions { regions: Some(self.0.iter().map(|it| &it.region).collect()) }
    }

    fn place(&self, id: &RegionId) -> Result<usize, usize> {
        self.0.binary_search_by(|it| it.region.id.cmp(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::discovery::PUT_REGION_BYTES_MAX;

    fn of(id: &str, url: &str) -> PutRegion {
        let text = || "x".to_owned();
        let region = FeedRegion { id: RegionId::parse(id).unwrap(), url: url.to_owned(), weight: None, tags: vec![] };
        PutRegion { region, put_ms: 1, reason: text(), ticket: text(), author: text() }
    }

    #[test]
    fn an_id_is_there_once_and_a_repetition_changes_nothing() {
        let mut all = PutRegions::default();
        assert_eq!(all.put(of("b", "https://b")), Put::Changed);
        assert_eq!(all.put(of("a", "https://a")), Put::Changed);
        assert_eq!(all.put(PutRegion { put_ms: 2, reason: "y".to_owned(), ..of("b", "https://b") }), Put::Same);
        assert_eq!(all.put(of("b", "https://c")), Put::Changed);
        let shown: Vec<_> = all.iter().map(|it| (it.region.id.as_str(), it.region.url.as_str(), it.put_ms)).collect();
        assert_eq!(shown, [("a", "https://a", 1), ("b", "https://c", 1)]);
        let read: PutRegions = serde_json::from_str(&serde_json::to_string(&all).unwrap()).unwrap();
        assert_eq!(read, all);
        let b = RegionId::parse("b").unwrap();
        assert_eq!((all.delete(&b).is_some(), all.delete(&b).is_some()), (true, false));
    }

    #[test]
    fn the_event_with_the_most_and_longest_regions_is_shorter_than_a_sidecar_takes() {
        let mut all = PutRegions::default();
        let url = format!("https://{}", "u".repeat(PUT_REGION_BYTES_MAX));
        for number in 0..PUT_REGIONS_MAX {
            assert_eq!(all.put(of(&format!("r{number}"), &url)), Put::Changed);
        }
        assert_eq!(all.put(of("one-more", "https://x")), Put::TooMany);
        assert_eq!(all.put(of("r7", "https://x")), Put::Changed, "a known one can still be changed");
        assert!(serde_json::to_string(&all.event()).unwrap().len() < 1024 * 1024);
    }
}
