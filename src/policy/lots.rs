//! Regions by turn or by lot, without a look at each of them.

use smallvec::SmallVec;

use super::route::Candidates;
use super::view::RegionIndex;
use crate::base::Draw;

/// Regions of equal standing, in the configured order.
#[derive(Debug, Clone)]
pub(super) struct Lots {
    /// Each with the sum of the weights up to it and its own.
    regions: Vec<(RegionIndex, u64)>,
}

impl Lots {
    /// Shape: regions in the configured order, each with its weight.
    pub(super) fn of(regions: impl Iterator<Item = (RegionIndex, u32)>) -> Self {
        let mut sum = 0;
        let summed = regions.map(|(region, weight)| {
            sum += u64::from(weight);
            (region, sum)
        });
        Self { regions: summed.collect() }
    }

    /// The first `count` of the configured order, begun at the region whose turn it is.
    pub(super) fn in_turn(&self, turn: u64, count: usize) -> Candidates {
        let Some(turns) = u64::try_from(self.regions.len()).ok().filter(|turns| *turns > 0) else {
            return Candidates::new();
        };
        let first = usize::try_from(turn % turns).unwrap_or(0);
        let (before, from) = self.regions.split_at(first);
        from.iter().chain(before).take(count).map(|(region, _)| *region).collect()
    }

    /// The first `count` of an order that is drawn without replacement, in proportion to weights.
    ///
    /// A lot is a place on the line of those that are left; those that are gone are stepped over, so that each draw costs the
    /// same however many regions there are.
    pub(super) fn drawn(&self, draw: &mut Draw, count: usize) -> Candidates {
        let mut candidates = Candidates::new();
        let mut gone: SmallVec<[usize; 4]> = SmallVec::new();
        let mut left = self.regions.last().map_or(0, |(_, sum)| *sum);
        for _ in 0..count.min(self.regions.len()) {
            let mut lot = draw.below(left);
            let mut among = 0;
            for &place in &gone {
                let (start, end) = self.span(place);
                if lot < start {
                    break;
                }
                lot += end - start;
                among += 1;
            }
            let place = self.regions.partition_point(|(_, sum)| *sum <= lot);
            let Some((region, _)) = self.regions.get(place) else { break };
            let (start, end) = self.span(place);
            left -= end - start;
            candidates.push(*region);
            gone.insert(among, place);
        }
        candidates
    }

    /// Which part of the line is a region's.
    fn span(&self, place: usize) -> (u64, u64) {
        let sum = |place: usize| self.regions.get(place).map_or(0, |(_, sum)| *sum);
        (place.checked_sub(1).map_or(0, sum), sum(place))
    }
}
