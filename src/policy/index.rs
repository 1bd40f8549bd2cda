//! How the files of this folder name regions.

use smallvec::SmallVec;

/// A region's place in the registry; valid for every view and the settings of one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(u16);

impl RegionIndex {
    /// The region at a place of the configured order, which has room for 256. Small, because each call carries several.
    #[must_use]
    pub const fn new(place: usize) -> Self {
        debug_assert!(place < u16::MAX as usize, "a registry has at most 256 regions");
        Self(if place < u16::MAX as usize { place as u16 } else { u16::MAX })
    }

    /// The place as it is written down.
    #[must_use]
    pub(super) const fn number(self) -> u16 {
        self.0
    }

    /// The place, for tables with one entry a region.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// The index of a turn among `count` places; the first where there is none.
#[expect(clippy::cast_possible_truncation, reason = "a remainder is less than its divisor, which is a usize")]
pub(super) const fn place_in_turn(turn: u64, count: usize) -> usize {
    match count as u64 {
        0 => 0,
        turns => (turn % turns) as usize,
    }
}

/// Regions to try, in order.
pub(super) type Candidates = SmallVec<[RegionIndex; 4]>;
