//! The turns of the shards of queues, by which tenants share workers.
//!
//! A FETCH names the shards of a higher band of priorities before those of a lower one, and within a band by turns.
//!
//! Spec: fair-scheduling 9.

use std::time::Instant;

use super::turns::{Call, End, Turns};
use crate::base::Draw;
use crate::policy::index::RegionIndex;

/// The turns of the shards of each band of each queue, in each region that was asked for them.
#[derive(Debug, Default)]
pub struct ShardTurns(Vec<((RegionIndex, usize, usize), Turns)>);

impl ShardTurns {
    /// The call for `count` jobs of the shards of a band, by the places of the queue and of the band. It is to be ended by [`Self::end`]. By `draw` the first turns
    /// of many sidecars differ.
    pub fn plan(
        &mut self,
        place: (RegionIndex, usize, usize),
        weights: &[u32],
        count: u64,
        draw: impl FnOnce() -> Draw,
        now: Instant,
    ) -> Call {
        let known = self.0.iter().position(|(known, _)| *known == place);
        let at = known.unwrap_or_else(|| {
            self.0.push((place, Turns::of_shards(weights, draw(), now)));
            self.0.len() - 1
        });
        let places: Vec<usize> = (0..weights.len()).collect();
        self.0[at].1.plan(count, &places, |_| None, now)
    }

    /// Notes the end of a call.
    pub fn end(&mut self, place: (RegionIndex, usize, usize), call: &Call, end: End<'_>, now: Instant) {
        if let Some((_, turns)) = self.0.iter_mut().find(|(known, _)| *known == place) {
            turns.end(call, end, now);
        }
    }
}
