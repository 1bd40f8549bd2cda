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
        self.0[at].1.plan(count, |_| true, |_| None, now)
    }

    /// Notes the end of a call.
    pub fn end(&mut self, place: (RegionIndex, usize, usize), call: &Call, end: End<'_>, now: Instant) {
        if let Some((_, turns)) = self.0.iter_mut().find(|(known, _)| *known == place) {
            turns.end(call, end, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use super::*;
    use crate::ojs::shards::ShardedQueue;

    const SHARDS: u8 = 32;
    const LOUD_JOBS: usize = 10_000;
    const SMALL_TENANTS: usize = 40;
    const SMALL_JOBS: usize = 25;

    /// The waits of the jobs of small tenants, in dispatches, ascending: each tenant enqueues a job every 250 dispatches beside one that enqueued 10 000 at once. One job is
    /// dispatched at a time, by the turns of shards with weights for some tenants, or in the order of arrival.
    fn waits(shards: Option<&[&str]>) -> Vec<usize> {
        let weights: BTreeMap<_, _> = shards.into_iter().flatten().map(|tenant| ((*tenant).to_owned(), 1)).collect();
        let queue = ShardedQueue::new("email", SHARDS, &[], &weights, 1, true);
        let place_of = |tenant: &str| if shards.is_some() { usize::from(queue.place(tenant, 0).shard) } else { 0 };
        let (mut turns, now, at) = (ShardTurns::default(), Instant::now(), (RegionIndex::new(0), 0, 0));
        let mut waiting: Vec<VecDeque<Option<usize>>> = vec![VecDeque::new(); usize::from(SHARDS)];
        waiting[place_of("loud")].extend(std::iter::repeat_n(None, LOUD_JOBS));
        let (mut waits, interval) = (Vec::new(), LOUD_JOBS / 40);
        for dispatch in 0..2 * LOUD_JOBS {
            for tenant in 0..SMALL_TENANTS {
                let is_its = dispatch % interval == tenant * interval / SMALL_TENANTS;
                if is_its && dispatch / interval < SMALL_JOBS {
                    waiting[place_of(&format!("small-{tenant}"))].push_back(Some(dispatch));
                }
            }
            let call = turns.plan(at, queue.weights(), 1, || Draw::from_seed(7), now);
            let mut came = vec![0; waiting.len()];
            if let Some(first) = call.order.iter().copied().find(|place| !waiting[*place].is_empty()) {
                came[first] = 1;
                waits.extend(waiting[first].pop_front().flatten().map(|arrived| dispatch - arrived));
            }
            turns.end(at, &call, End::Came(&came), now);
        }
        waits.sort_unstable();
        assert_eq!(waits.len(), SMALL_TENANTS * SMALL_JOBS, "each job was dispatched once");
        waits
    }

    #[test]
    fn small_tenants_wait_for_a_round_of_shards_beside_a_loud_one_and_not_for_its_jobs() {
        let part = |waits: &[usize], percent: usize| waits[(waits.len() - 1) * percent / 100];
        let (fifo, shared, named) = (waits(None), waits(Some(&[])), waits(Some(&["loud"])));
        // The table of docs/scheduling.md.
        let row = |waits: &[usize]| [50, 95, 99, 100].map(|percent| part(waits, percent));
        assert_eq!(row(&fifo), [7_375, 9_738, 9_948, 10_000]);
        assert_eq!(row(&shared), [0, 1, 9_629, 10_869]);
        assert_eq!(row(&named), [0, 0, 0, 1]);
        // A tenant that meets the loud one in its shard waits behind it.
        let unlucky = shared.iter().filter(|wait| **wait > 10 * usize::from(SHARDS)).count();
        assert!(unlucky <= shared.len() * 3 / usize::from(SHARDS), "{unlucky}");
    }
}
