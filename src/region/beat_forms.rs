//! How regions read the ids of heartbeats, as far as they have refused one of the two forms.
//!
//! The documents of OJS contradict each other: `active_jobs` is a number in one and an array of ids in the other. Some servers refuse
//! a number, and others an array.

use parking_lot::Mutex;

use crate::base::RegionId;

/// Far more regions than a federation has; of further ones nothing is remembered, which costs a second call each time.
const REGIONS_MAX: usize = 256;

/// The regions that want the ids in an array; shared by all threads, and kept over reloads.
#[derive(Debug, Default)]
pub struct BeatForms(Mutex<Vec<RegionId>>);

impl BeatForms {
    /// Whether heartbeats for this region are written with an array, for any form of the worker's.
    #[must_use]
    pub fn is_array(&self, region: &RegionId) -> bool {
        self.0.lock().contains(region)
    }

    /// A region has accepted the one form after it had refused the other.
    pub fn learn(&self, region: &RegionId, array: bool) {
        let mut regions = self.0.lock();
        regions.retain(|known| known != region);
        if array && regions.len() < REGIONS_MAX {
            regions.push(region.clone());
        }
    }
}
