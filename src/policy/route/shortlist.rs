//! How failover may go on after the first candidate: `prefer_regions` first, `exclude_regions` never.

use super::ranking::Ranking;
use crate::policy::refusal::Refusal;
use crate::policy::view::View;

/// Orders the candidates behind the first one and removes those that may only be a first choice.
pub(super) fn arrange(view: &View, ranking: &mut Ranking) {
    for (place, slot) in ranking.slots.iter_mut().enumerate() {
        slot.place = place;
    }
    if let Some((_, rest)) = ranking.slots.split_first_mut() {
        rest.sort_unstable_by_key(|slot| (slot.standing, view.settings.preference(slot.region), slot.place));
    }
    let refused = &mut ranking.refused;
    ranking.slots.retain(|slot| {
        let keep = slot.place == 0 || !view.is_excluded(slot.region);
        if !keep {
            refused.push((slot.region, Refusal::Excluded));
        }
        keep
    });
}
