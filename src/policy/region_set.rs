//! A set of regions as bits, so that "is it permitted" costs one load.

use smallvec::SmallVec;

use super::index::RegionIndex;

const BITS: usize = u64::BITS as usize;

/// A set of regions of one registry.
///
/// Shape: up to 64 regions without an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionSet(SmallVec<[u64; 1]>);

impl RegionSet {
    /// Whether the region is in the set.
    #[must_use]
    pub fn contains(&self, region: RegionIndex) -> bool {
        self.0.get(region.get() / BITS).is_some_and(|word| word >> (region.get() % BITS) & 1 == 1)
    }

    /// Puts a region into the set.
    pub fn insert(&mut self, region: RegionIndex) {
        let word = region.get() / BITS;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= 1 << (region.get() % BITS);
        }
    }

    /// Its members, in registry order.
    pub fn iter(&self) -> impl Iterator<Item = RegionIndex> + '_ {
        (0..self.0.len() * BITS).map(RegionIndex::new).filter(|&region| self.contains(region))
    }
}

impl FromIterator<RegionIndex> for RegionSet {
    fn from_iter<I: IntoIterator<Item = RegionIndex>>(regions: I) -> Self {
        let mut set = Self::default();
        for region in regions {
            set.insert(region);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_inserted_and_nothing_else_beyond_64_regions_too() {
        let members = [0, 3, 63, 64, 200].map(RegionIndex::new);
        let set: RegionSet = members.into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), members);
        assert!(!set.contains(RegionIndex::new(1)) && !set.contains(RegionIndex::new(1_000)));
    }
}
