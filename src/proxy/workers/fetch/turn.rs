//! Which queue of a FETCH is served first, where `scheduling` or the FETCH itself says more than the order of its queues.
//!
//! Spec: fair-scheduling 5.2, 7.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;

use crate::ojs::worker::FetchRequest;
use crate::policy::{QueueCall, QueueCallEnd, QueueDepth, QueueRules, QueueTurns};
use crate::proxy::state::Proxy;

/// The turns of the queues of one FETCH.
pub(super) struct Turn<'p, 'b> {
    proxy: &'p Proxy,
    claims: &'b FetchRequest<'b>,
    queues: Vec<&'b str>,
    rules: Cow<'p, QueueRules>,
    /// The jobs that the call under way has brought, by the place of their queue in the list.
    came: Vec<u64>,
}

impl<'p, 'b> Turn<'p, 'b> {
    /// The turns of a FETCH; none where it passes as its worker wrote it. The configuration goes before the words of the worker.
    pub(super) fn of(proxy: &'p Proxy, claims: &'b FetchRequest<'b>) -> Option<Self> {
        let configured = &proxy.shared.queue_rules;
        let rules = match (proxy.shared.config.scheduling.strategy, claims.strategy()) {
            (None, Some(strategy)) => {
                Cow::Owned(QueueRules { strategy, weights: claims.weights(), floor: configured.floor })
            }
            (None, None) if configured.keep_the_order() => return None,
            (Some(_), _) if configured.keep_the_order() && !claims.speaks_of_turns() => return None,
            _ => Cow::Borrowed(configured),
        };
        let queues: Vec<_> = claims.queues().collect();
        let came = vec![0; queues.len()];
        Some(Self { proxy, claims, queues, rules, came })
    }

    /// The calls for `count` jobs of the local region, in the order in which they are to be made. Each is to be ended by [`Self::end`].
    pub(super) fn plan(&self, count: usize) -> Vec<QueueCall> {
        if self.rules.keep_the_order() {
            return vec![QueueCall { order: (0..self.queues.len()).collect(), count: count as u64 }];
        }
        let view = self.proxy.shared.registry.view();
        let local = view.region(view.local);
        let depth_of = |place: usize| -> Option<QueueDepth> {
            let queue = self.queues.get(place)?;
            self.proxy.shared.traffic.used_elsewhere(queue);
            local.load.queue(queue).map(|figure| (figure.depth, figure.at))
        };
        self.with_turns(|turns, now| turns.plan(count as u64, depth_of, now))
    }

    /// One call for `count` jobs of those queues that are `wanted`.
    pub(super) fn plan_among(&self, count: usize, wanted: impl Fn(&str) -> bool) -> QueueCall {
        let wanted: Vec<usize> = (0..self.queues.len()).filter(|place| wanted(self.queues[*place])).collect();
        if self.rules.keep_the_order() {
            return QueueCall { order: wanted, count: count as u64 };
        }
        self.with_turns(|turns, now| turns.plan_among(count as u64, &wanted, now))
    }

    /// The body of a call. `body`: that of the FETCH.
    pub(super) fn body_of(&self, call: &QueueCall, body: &Bytes) -> Vec<Bytes> {
        let count = usize::try_from(call.count).unwrap_or(usize::MAX);
        self.claims.in_order(body, count, &call.order).into_vec()
    }

    /// A call has brought a job.
    pub(super) fn note(&mut self, queue: &str) {
        if let Some(place) = self.queues.iter().position(|known| *known == queue) {
            self.came[place] += 1;
        }
    }

    /// Notes the end of a call. Returns whether the region has handed out less than it was asked for, because it has no more.
    pub(super) fn end(&mut self, call: &QueueCall, is_answered: bool) -> bool {
        let came = std::mem::replace(&mut self.came, vec![0; self.queues.len()]);
        if !self.rules.keep_the_order() {
            let end = if is_answered { QueueCallEnd::Came(&came) } else { QueueCallEnd::Failed };
            self.with_turns(|turns, now| turns.end(call, end, now));
        }
        is_answered && came.iter().sum::<u64>() < call.count
    }

    fn with_turns<T>(&self, work: impl FnOnce(&mut QueueTurns, Instant) -> T) -> T {
        let shared = &self.proxy.shared;
        let now = shared.registry.clock().now();
        let draw = || self.proxy.random.draw();
        work(shared.queue_turns.lock().turns(&self.queues, &self.rules, draw, now), now)
    }
}
