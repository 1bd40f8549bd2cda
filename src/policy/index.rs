//! How the files of this folder name regions.

use smallvec::SmallVec;

/// A region's place in the registry; valid for every view and the settings of one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(u16);

impl RegionIndex {
    /// The region at a place of the configured order, which has room for 256. Small, because each call carries several.
    #[must_use]
    pub const fn new(place: usize) -> Self {
        Self(if place < u16::MAX as usize { place as u16 } else { u16::MAX })
    }

    /// The place, for tables with one entry a region.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Regions to try, in order.
pub(super) type Candidates = SmallVec<[RegionIndex; 4]>;
