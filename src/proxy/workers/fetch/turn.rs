//! Which queue of a FETCH is served first, where `scheduling` or the FETCH itself says more than the order of its queues.
//!
//! Spec: fair-scheduling 5.2, 7.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::base::QueueOrder;
use crate::ojs::Segments;
use crate::ojs::worker::{FetchRequest, OwnTurns};
use crate::policy::{Pool, QueueCall, QueueCallEnd, QueueDepth, QueueRules, RegionIndex};
use crate::proxy::state::Proxy;

/// Queues of a list that take turns at most: a worker serves a few, and all lists are kept.
const QUEUES_MAX: usize = 64;
/// Names of a list that are compared in pairs, which costs less than a set of them.
const PAIRS_MAX: usize = 8;
/// The longest name of a queue that takes turns, which servers know none of. Units: bytes.
pub(super) const NAME_BYTES_MAX: usize = 256;

/// Whether the configuration says nothing about turns, so that the words of a worker are all there is.
pub(super) fn are_unconfigured(proxy: &Proxy) -> bool {
    let shared = &proxy.shared;
    let is_silent = shared.config.scheduling.strategy.is_none() && shared.queue_rules.keep_the_order();
    is_silent && shared.pools.is_empty() && shared.shards.is_none()
}

/// How the queues of a FETCH of a worker of this pool, or of none, take turns; none where they stay in their order. The configuration goes before `own`, the words
/// of the worker, which are left out of the call where they are understood.
pub(super) fn rules<'p>(
    proxy: &'p Proxy,
    claims: &mut FetchRequest<'_>,
    own: Option<OwnTurns>,
    pool: Option<&'p Pool>,
) -> Option<Cow<'p, QueueRules>> {
    let of_none = || (&proxy.shared.queue_rules, proxy.shared.config.scheduling.strategy.is_none());
    let (configured, is_silent) = pool.map_or_else(of_none, |pool| (pool.rules(), pool.is_silent()));
    // A word that is not understood is left for the server where nothing is configured.
    let is_heeded = |own: &OwnTurns| !is_silent || own.order.is_some() || !configured.keep_the_order();
    let own = own.filter(is_heeded);
    if let Some(own) = &own {
        claims.leave_out_turns(own);
    }
    let rules = match own.and_then(|own| Some((own.order?, own.weights))).filter(|_| is_silent) {
        Some((strategy, weights)) => {
            let (floor, pool) = (configured.floor, configured.pool.clone());
            Cow::Owned(QueueRules { strategy, weights: Arc::new(weights), floor, pool })
        }
        None => Cow::Borrowed(configured),
    };
    Some(rules).filter(|rules| !rules.keep_the_order() && claims.count().is_some() && take_turns(claims))
}

/// The turns of the queues of one FETCH.
pub(super) struct Turn<'p, 'b> {
    proxy: &'p Proxy,
    claims: &'b FetchRequest<'b>,
    rules: Cow<'p, QueueRules>,
    /// The jobs that the call under way has brought, by the place of their queue in the list.
    came: Vec<u64>,
}

impl<'p, 'b> Turn<'p, 'b> {
    /// `rules`: from [`rules`].
    pub(super) fn new(proxy: &'p Proxy, claims: &'b FetchRequest<'b>, rules: Cow<'p, QueueRules>) -> Self {
        Self { proxy, claims, rules, came: Vec::new() }
    }

    /// The call for `count` jobs of a region, of those queues that are `wanted`. It is to be ended by [`Self::end`].
    pub(super) fn plan(
        &self,
        region: RegionIndex,
        count: usize,
        wanted: impl Fn(&str) -> bool,
        now: Instant,
    ) -> QueueCall {
        let shared = &self.proxy.shared;
        let view = (self.rules.strategy == QueueOrder::LeastLoaded).then(|| shared.registry.view());
        let depth_of = |place: usize| -> Option<QueueDepth> {
            view.as_ref()?.region(region).load.queue(self.claims.queue(place)?).map(|figure| (figure.depth, figure.at))
        };
        let draw = || self.proxy.random.draw();
        let mut lists = shared.queue_turns.lock();
        let turns = lists.turns(region, self.claims.queues(), &self.rules, draw, now);
        turns.plan(count as u64, |place| self.claims.queue(place).is_some_and(&wanted), depth_of, now)
    }

    /// The body of a call. `body`: that of the FETCH.
    pub(super) fn body_of(&self, call: &QueueCall, body: &Bytes) -> Segments {
        let count = usize::try_from(call.count).unwrap_or(usize::MAX);
        self.claims.in_order(body, count, &call.order)
    }

    /// A call has brought a job.
    pub(super) fn note(&mut self, queue: &str) {
        if let Some(place) = self.claims.queues().position(|known| known == queue) {
            self.came.resize(self.claims.queues().len(), 0);
            self.came[place] += 1;
        }
    }

    /// Notes the end of a call.
    pub(super) fn end(&mut self, call: &QueueCall, is_answered: bool) {
        let came = std::mem::take(&mut self.came);
        let end = if is_answered { QueueCallEnd::Came(&came) } else { QueueCallEnd::Failed };
        let shared = &self.proxy.shared;
        shared.queue_turns.lock().end(call, end, shared.registry.clock().now());
    }
}

/// Whether the queues of a list can take turns. A name that is repeated is a worker's own way to give weight to a queue.
fn take_turns(claims: &FetchRequest<'_>) -> bool {
    let queues = claims.queues();
    (2..=QUEUES_MAX).contains(&queues.len())
        && queues.clone().all(|name| name.len() <= NAME_BYTES_MAX)
        && are_distinct(queues)
}

fn are_distinct<'q>(mut queues: impl ExactSizeIterator<Item = &'q str> + Clone) -> bool {
    if queues.len() > PAIRS_MAX {
        let mut seen = HashSet::with_capacity(queues.len());
        return queues.all(|name| seen.insert(name));
    }
    while let Some(name) = queues.next() {
        if queues.clone().any(|other| other == name) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_repeated_is_found_in_short_lists_and_in_long_ones() {
        let names: Vec<String> = (0..2 * PAIRS_MAX).map(|at| format!("q{at}")).collect();
        for length in 0..names.len() {
            let names = || names[..length].iter().map(String::as_str);
            assert!(are_distinct(names()), "{length}");
            for again in names() {
                let repeated: Vec<&str> = names().chain([again]).collect();
                assert!(!are_distinct(repeated.into_iter()), "{length} {again}");
            }
        }
    }
}
