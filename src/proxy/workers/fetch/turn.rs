//! Which queue of a FETCH is served first, where `scheduling` or the FETCH itself says more than the order of its queues.
//!
//! Spec: fair-scheduling 5.2, 7.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Instant;

use bytes::Bytes;

use crate::ojs::worker::{FetchRequest, OwnTurns};
use crate::policy::{Pool, QueueCall, QueueCallEnd, QueueDepth, QueueRules, QueueTurns, RegionIndex};
use crate::proxy::state::Proxy;

/// Queues of a list that take turns at most: a worker serves a few, and all lists are kept.
const QUEUES_MAX: usize = 64;
/// The longest name of a queue that takes turns, which servers know none of. Units: bytes.
pub(super) const NAME_BYTES_MAX: usize = 256;

/// The turns of the queues of one FETCH.
pub(super) struct Turn<'p, 'b> {
    proxy: &'p Proxy,
    claims: &'b FetchRequest<'b>,
    own: Option<OwnTurns>,
    queues: Vec<&'b str>,
    /// None where the queues stay in their order, and only the words of the worker are cut out.
    rules: Option<Cow<'p, QueueRules>>,
    /// The jobs that the call under way has brought, by the place of their queue in the list.
    came: Vec<u64>,
}

impl<'p, 'b> Turn<'p, 'b> {
    /// The turns of a FETCH of a worker of this pool, or of none; none where it passes as its worker wrote it. The configuration goes before the words of
    /// the worker.
    pub(super) fn of(proxy: &'p Proxy, claims: &'b FetchRequest<'b>, pool: Option<&'p Pool>) -> Option<Self> {
        let of_none = || (&proxy.shared.queue_rules, proxy.shared.config.scheduling.strategy.is_none());
        let (configured, is_silent) = pool.map_or_else(of_none, |pool| (pool.rules(), pool.is_silent()));
        let mut own = claims.own_turns();
        let rules = match own.as_mut().map(|own| (own.order, &mut own.weights)) {
            Some((Some(strategy), weights)) if is_silent => {
                let (floor, pool) = (configured.floor, configured.pool.clone());
                Some(Cow::Owned(QueueRules { strategy, weights: std::mem::take(weights), floor, pool }))
            }
            // A word that is not understood is left for the server where nothing is configured.
            Some((None, _)) if is_silent && configured.keep_the_order() => return None,
            None if configured.keep_the_order() => return None,
            _ => Some(Cow::Borrowed(configured)),
        };
        let queues: Vec<_> = claims.queues().collect();
        let rules = rules.filter(|rules| !rules.keep_the_order() && claims.count().is_some() && take_turns(&queues));
        if rules.is_none() && own.is_none() {
            return None;
        }
        let came = vec![0; queues.len()];
        Some(Self { proxy, claims, own, queues, rules, came })
    }

    /// The call for `count` jobs of a region, of those queues that are `wanted`. It is to be ended by [`Self::end`].
    pub(super) fn plan(&self, region: RegionIndex, count: usize, wanted: impl Fn(&str) -> bool) -> QueueCall {
        let places: Vec<usize> = (0..self.queues.len()).filter(|place| wanted(self.queues[*place])).collect();
        let count = count as u64;
        let Some(rules) = &self.rules else { return QueueCall::as_listed(places, count) };
        let view = self.proxy.shared.registry.view();
        let depth_of = |place: usize| -> Option<QueueDepth> {
            view.region(region).load.queue(self.queues.get(place)?).map(|figure| (figure.depth, figure.at))
        };
        self.with_turns(region, rules, |turns, now| turns.plan(count, &places, depth_of, now))
    }

    /// The body of a call. `body`: that of the FETCH.
    pub(super) fn body_of(&self, call: &QueueCall, body: &Bytes) -> Vec<Bytes> {
        let count = usize::try_from(call.count).unwrap_or(usize::MAX);
        self.claims.in_order(body, count, &call.order, self.own.as_ref()).into_vec()
    }

    /// The words of the worker, which are cut out of its FETCH.
    pub(super) const fn own(&self) -> Option<&OwnTurns> {
        self.own.as_ref()
    }

    /// The body of the FETCH without the words of its worker about turns.
    pub(super) fn body_as_listed(&self, body: &Bytes) -> Vec<Bytes> {
        self.own.as_ref().map_or_else(|| vec![body.clone()], |own| self.claims.without(body, own).into_vec())
    }

    /// A call has brought a job.
    pub(super) fn note(&mut self, queue: &str) {
        if let Some(place) = self.queues.iter().position(|known| *known == queue) {
            self.came[place] += 1;
        }
    }

    /// Notes the end of a call.
    pub(super) fn end(&mut self, region: RegionIndex, call: &QueueCall, is_answered: bool) {
        let came = std::mem::replace(&mut self.came, vec![0; self.queues.len()]);
        if let Some(rules) = &self.rules {
            let end = if is_answered { QueueCallEnd::Came(&came) } else { QueueCallEnd::Failed };
            self.with_turns(region, rules, |turns, now| turns.end(call, end, now));
        }
    }

    fn with_turns<T>(
        &self,
        region: RegionIndex,
        rules: &QueueRules,
        work: impl FnOnce(&mut QueueTurns, Instant) -> T,
    ) -> T {
        let shared = &self.proxy.shared;
        let now = shared.registry.clock().now();
        let draw = || self.proxy.random.draw();
        work(shared.queue_turns.lock().turns(region, &self.queues, rules, draw, now), now)
    }
}

/// Whether the queues of a list can take turns. A name that is repeated is a worker's own way to give weight to a queue.
fn take_turns(queues: &[&str]) -> bool {
    let mut seen = HashSet::new();
    (2..=QUEUES_MAX).contains(&queues.len())
        && queues.iter().all(|name| name.len() <= NAME_BYTES_MAX && seen.insert(*name))
}
