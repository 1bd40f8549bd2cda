//! The shards of the queues of one FETCH, in the order in which a region is to serve them.
//!
//! The queue's own name goes first: its jobs were there before its shards, or have no tenant. Then come the shards, the higher band of priorities
//! before the lower one, and within a band by turns. All of it is one call.
//!
//! Spec: fair-scheduling 9.

use std::time::Instant;

use bytes::Bytes;

use super::turn::Turn;
use crate::ojs::Segments;
use crate::ojs::shards::{Place, Shards};
use crate::ojs::worker::FetchRequest;
use crate::policy::{QueueCall, QueueCallEnd, RegionIndex};
use crate::proxy::state::Proxy;

/// The queues of one FETCH that have shards.
pub(super) struct Sharded<'p> {
    proxy: &'p Proxy,
    shards: &'p Shards,
    /// The place of each in the list of the FETCH, and in that of all queues with shards.
    queues: Vec<(usize, usize)>,
    /// The jobs that the call under way has brought of each shard, by queue, band and shard.
    came: Vec<(usize, Place)>,
    /// All jobs that it has brought.
    brought: u64,
}

/// One call for jobs of shards.
#[derive(Debug)]
pub(super) struct ShardCalls {
    count: u64,
    /// In the order of the call: the queue, the band, and the turns of its shards.
    bands: Vec<(usize, usize, QueueCall)>,
}

/// A call of queues with shards.
#[derive(Debug)]
pub(super) struct ShardedCall {
    pub(super) body: Segments,
    pub(super) turn: Option<QueueCall>,
    pub(super) shards: ShardCalls,
}

impl<'p> Sharded<'p> {
    /// The queues of a FETCH that have shards; none where no queue of it has any.
    pub(super) fn of(proxy: &'p Proxy, claims: &FetchRequest<'_>) -> Option<Self> {
        let shards = proxy.shared.shards.as_deref()?;
        let mut queues: Vec<(usize, usize)> = Vec::new();
        for (place, name) in claims.queues().enumerate() {
            // A name that is repeated is a worker's own way to give weight to a queue; its shards are asked once.
            let queue = shards.queues().iter().position(|queue| queue.name() == name);
            queues.extend(queue.filter(|it| queues.iter().all(|(_, known)| known != it)).map(|queue| (place, queue)));
        }
        (!queues.is_empty()).then_some(Self { proxy, shards, queues, came: Vec::new(), brought: 0 })
    }

    /// The call for a region, of the queues that are `wanted`, and of their shards that are `admitted`. Its turns are to be ended, and its shards by [`Self::end`].
    pub(super) fn call(
        &self,
        (claims, body): (&FetchRequest<'_>, &Bytes),
        turn: Option<&Turn<'_, '_>>,
        (region, missing): (RegionIndex, Option<usize>),
        (wanted, admitted): (impl Fn(&str) -> bool, impl Fn(usize, usize) -> bool),
        now: Instant,
    ) -> ShardedCall {
        let of_turn = turn.zip(missing).map(|(turn, missing)| turn.plan(region, missing, &wanted, now));
        let listed = claims.queues().enumerate().filter(|(_, queue)| wanted(queue)).map(|(place, _)| place);
        let order: Vec<usize> = of_turn.as_ref().map_or_else(|| listed.collect(), |call| call.order.clone());
        let shards = self.plan(region, missing.unwrap_or(1) as u64, &order, admitted, now);
        let names = |place, quoted: &str, to: &mut String| self.write(&shards, place, quoted, to);
        let body = claims.with_names(body, missing, &order, names);
        ShardedCall { body, turn: of_turn, shards }
    }

    /// The turns of a call for `count` jobs of a region, of the queues at these places of the list. It is to be ended by [`Self::end`].
    fn plan(
        &self,
        region: RegionIndex,
        count: u64,
        order: &[usize],
        admitted: impl Fn(usize, usize) -> bool,
        now: Instant,
    ) -> ShardCalls {
        let mut turns = self.proxy.shared.shard_turns.lock();
        let mut bands = Vec::with_capacity(self.queues.len());
        for queue in order.iter().filter_map(|place| self.queue_at(*place)) {
            let of = &self.shards.queues()[queue];
            for band in 0..of.bands() {
                let draw = || self.proxy.random.draw();
                let mut call = turns.plan((region, queue, band), of.weights(), count, draw, now);
                call.order.retain(|shard| admitted(queue, *shard));
                bands.push((queue, band, call));
            }
        }
        ShardCalls { count, bands }
    }

    fn queue_at(&self, place: usize) -> Option<usize> {
        self.queues.iter().find(|(at, _)| *at == place).map(|(_, queue)| *queue)
    }

    /// Writes the names of the queue at a place of the list, by which its FETCH names it; `false` for one without shards.
    fn write(&self, calls: &ShardCalls, place: usize, quoted: &str, to: &mut String) -> bool {
        let Some(queue) = self.queue_at(place) else { return false };
        let of = &self.shards.queues()[queue];
        if of.takes_jobs() {
            to.push_str(quoted);
            to.push(',');
        }
        for (_, band, call) in calls.bands.iter().filter(|(it, ..)| *it == queue) {
            of.list(*band, &call.order, quoted, to);
        }
        if of.takes_jobs() {
            to.pop();
        } else {
            to.push_str(quoted);
        }
        true
    }

    /// The call has brought a job of a shard.
    pub(super) fn note(&mut self, queue: usize, place: Place) {
        self.came.push((queue, place));
    }

    /// The call has brought so many jobs, of whatever queues.
    pub(super) const fn brought(&mut self, count: usize) {
        self.brought += count as u64;
    }

    /// Notes the end of a call.
    pub(super) fn end(&mut self, region: RegionIndex, calls: &ShardCalls, is_answered: bool) {
        let (came, brought) = (std::mem::take(&mut self.came), std::mem::take(&mut self.brought));
        let is_of = |queue: usize, band: usize, it: &(usize, Place)| it.0 == queue && usize::from(it.1.band) == band;
        let last = calls.bands.iter().rposition(|(queue, band, _)| came.iter().any(|it| is_of(*queue, *band, it)));
        let now = self.proxy.shared.registry.clock().now();
        let mut turns = self.proxy.shared.shard_turns.lock();
        for (at, (queue, band, call)) in calls.bands.iter().enumerate() {
            // Behind the last job of a full call nothing was looked for.
            let is_reached = last.is_some_and(|last| at <= last) || brought < calls.count;
            if !is_answered || !is_reached {
                turns.end((region, *queue, *band), call, QueueCallEnd::Failed, now);
                continue;
            }
            let mut jobs = if came.is_empty() { Vec::new() } else { vec![0; self.shards.queues()[*queue].shards()] };
            for it in came.iter().filter(|it| is_of(*queue, *band, it)) {
                jobs.get_mut(usize::from(it.1.shard)).into_iter().for_each(|jobs| *jobs += 1);
            }
            turns.end((region, *queue, *band), call, QueueCallEnd::Came(&jobs), now);
        }
    }
}
