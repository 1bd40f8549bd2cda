//! The regions that operators have put at a hub, as its feed carries them.
//!
//! Shape: events `regions` with JSON. The first one of a feed, and each one behind a change, has the member `regions` with all of them; one without
//! that member says that the last one still holds, so that a sidecar has a look at the hub every few seconds for some bytes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::said::{Look, MalformedError, of_parts};
use crate::base::RegionId;
use crate::config::{RegionSource, Sighting};

/// The most regions that are put at a hub: as many as `discovery.regions_max` of a sidecar can be.
pub const PUT_REGIONS_MAX: usize = 200;
/// The longest body that puts a region: with the most regions an event stays below 1 MiB, the longest that a sidecar takes. Units: bytes.
pub const PUT_REGION_BYTES_MAX: usize = 4 * 1024;

/// A region that was put at a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRegion {
    /// Its id.
    pub id: RegionId,
    /// Its base URL; always `https`.
    pub url: String,
    /// Its weight; none where `discovery.defaults` of each sidecar has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl FeedRegion {
    /// The region of a sighting.
    #[must_use]
    pub fn of(seen: Sighting) -> Self {
        Self { id: seen.id, url: seen.url.text, weight: seen.weight, tags: seen.tags }
    }
}

/// An event `regions`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRegions<R> {
    /// All regions; none where those of the event before still hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<Vec<R>>,
}

impl FeedRegions<Value> {
    /// Reads an event: a look at the hub, or none where the look before still holds. Members of a later version are left alone; a region that cannot be
    /// read is among the malformed ones of the look.
    ///
    /// Errors: it is no event of regions.
    pub fn read(data: &str) -> serde_json::Result<Option<Look>> {
        let Self { regions } = serde_json::from_str(data)?;
        let Some(regions) = regions else { return Ok(None) };
        let mut look =
            Look { source: RegionSource::Hub, sightings: Vec::new(), malformed: Vec::new(), is_complete: true };
        for region in regions {
            match sighting(&region) {
                Ok(seen) => look.sightings.push(seen),
                Err(rule) => {
                    look.is_complete = false;
                    look.malformed.push((named(&region), rule));
                }
            }
        }
        Ok(Some(look))
    }
}

fn sighting(region: &Value) -> Result<Sighting, MalformedError> {
    let expected = MalformedError("expected id and url, and perhaps weight and tags");
    let region = FeedRegion::deserialize(region).map_err(|_| expected)?;
    Ok(of_parts(RegionSource::Hub, region.id.as_str(), &region.url, region.weight, region.tags)?)
}

/// The id of a region that cannot be read, where it has one.
fn named(region: &Value) -> String {
    let id = region["id"].as_str().and_then(|id| RegionId::parse(id).ok());
    id.map_or_else(|| "a region without an id".to_owned(), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(look: &Look) -> Vec<&str> {
        look.sightings.iter().map(|it| it.id.as_str()).collect()
    }

    #[test]
    fn an_event_has_all_regions_or_says_that_the_last_ones_hold() {
        let region = FeedRegion {
            id: RegionId::parse("eu-west-1").unwrap(),
            url: "https://eu.example.com:8443".to_owned(),
            weight: Some(2),
            tags: vec!["gdpr".to_owned()],
        };
        let sent = serde_json::to_string(&FeedRegions { regions: Some(vec![region]) }).unwrap();
        let look = FeedRegions::read(&sent).unwrap().unwrap();
        assert_eq!((ids(&look), look.is_complete, look.sightings[0].weight), (vec!["eu-west-1"], true, Some(2)));
        let same = serde_json::to_string(&FeedRegions::<FeedRegion> { regions: None }).unwrap();
        assert_eq!((same.as_str(), FeedRegions::read(&same).unwrap()), ("{}", None));
        assert_eq!(FeedRegions::read(r#"{"later":1}"#).unwrap(), None);
        assert!(FeedRegions::read(r#"{"regions":[]}"#).unwrap().unwrap().sightings.is_empty());
        assert!(FeedRegions::read("[").is_err());
    }

    #[test]
    fn a_region_of_a_later_hub_that_cannot_be_read_is_named_and_takes_no_other_out() {
        let look = FeedRegions::read(
            r#"{"regions":[{"id":"a","url":"https://a.example.com","geo":"eu"},{"id":"b","url":"quic://b"},{"name":"c"}]}"#,
        );
        let look = look.unwrap().unwrap();
        let malformed: Vec<_> = look.malformed.iter().map(|(about, _)| about.as_str()).collect();
        assert_eq!((ids(&look), look.is_complete), (vec!["a"], false));
        assert_eq!(malformed, ["b", "a region without an id"]);
    }
}
