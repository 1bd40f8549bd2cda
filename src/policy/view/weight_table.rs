//! Regions by turn or by lot, without a look at each of them.

use smallvec::SmallVec;

use crate::base::Draw;
use crate::policy::index::{Candidates, RegionIndex, place_in_turn};

/// So many entries of the guide for each region, that most of them lead to one or two.
const GUIDES: u64 = 4;

/// Regions of equal standing, in the configured order.
#[derive(Debug, Clone)]
pub(in crate::policy) struct WeightTable {
    /// Each with the sum of the weights up to it and its own.
    regions: Vec<(RegionIndex, u64)>,
    /// For each stretch of the line the first place that reaches beyond its start, so that a lot is not searched for among all.
    guide: Vec<usize>,
    /// The length of a stretch, as a power of two.
    shift: u32,
}

impl WeightTable {
    /// Shape: regions in the configured order, each with its weight.
    pub(in crate::policy) fn of(regions: impl Iterator<Item = (RegionIndex, u32)>) -> Self {
        let mut sum = 0;
        let summed = regions.map(|(region, weight)| {
            sum += u64::from(weight);
            (region, sum)
        });
        let regions: Vec<(RegionIndex, u64)> = summed.collect();
        let stretches = GUIDES.saturating_mul(regions.len() as u64).max(1);
        let shift = (0..u64::BITS).find(|shift| sum >> shift <= stretches).unwrap_or(u64::BITS - 1);
        let starts = (0..=(sum >> shift) + 1).map(|stretch| stretch << shift);
        let guide = starts.map(|start| regions.partition_point(|(_, sum)| *sum <= start)).collect();
        Self { regions, guide, shift }
    }

    /// The first `count` of the configured order, begun at the region of the turn.
    pub(in crate::policy) fn in_turn(&self, turn: u64, count: usize) -> Candidates {
        let (before, from) = self.regions.split_at(place_in_turn(turn, self.regions.len()));
        from.iter().chain(before).take(count).map(|(region, _)| *region).collect()
    }

    /// The first `count` of an order that is drawn without replacement, in proportion to weights.
    ///
    /// A lot is a place on the line of the remaining regions; drawn ones are stepped over, so that the cost of a draw
    /// does not depend on the number of regions.
    pub(in crate::policy) fn drawn(&self, draw: &mut Draw, count: usize) -> Candidates {
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
            let place = self.place(lot);
            let Some((region, _)) = self.regions.get(place) else { break };
            let (start, end) = self.span(place);
            left -= end - start;
            candidates.push(*region);
            gone.insert(among, place);
        }
        candidates
    }

    /// The region whose part of the line holds a lot.
    fn place(&self, lot: u64) -> usize {
        let stretch = usize::try_from(lot >> self.shift).unwrap_or(usize::MAX);
        let guide = |stretch: usize| self.guide.get(stretch).copied().unwrap_or(self.regions.len());
        let (from, to) = (guide(stretch), guide(stretch.saturating_add(1)));
        debug_assert!(from <= to && to <= self.regions.len(), "the guide leads into the line and forward");
        let among = &self.regions[from..to];
        from + among.partition_point(|(_, sum)| *sum <= lot)
    }

    /// Which part of the line is a region's.
    fn span(&self, place: usize) -> (u64, u64) {
        let sum = |place: usize| self.regions.get(place).map_or(0, |(_, sum)| *sum);
        (place.checked_sub(1).map_or(0, sum), sum(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lot_belongs_to_the_region_on_whose_part_of_the_line_it_is() {
        let uneven = [1, 1, 5_000, 1, 7, 0, 3].into_iter().cycle().take(40).collect();
        for weights in [vec![], vec![1], vec![1, 1, 1], vec![3, 1, 1_000, 1], vec![100; 64], uneven] {
            let lots =
                WeightTable::of(weights.iter().enumerate().map(|(place, weight)| (RegionIndex::new(place), *weight)));
            let line = weights.iter().enumerate().flat_map(|(place, weight)| (0..*weight).map(move |_| place));
            for (lot, place) in (0..).zip(line) {
                assert_eq!(lots.place(lot), place, "{lot} of {weights:?}");
            }
        }
    }
}
