//! The turns of the queues of one list.

use std::time::{Duration, Instant};

use super::account::{Account, STEP};
use super::recent::Recent;
use super::rules::{Floor, Rules, WHOLE};
use crate::base::{Draw, QueueOrder};

/// Calls that one FETCH is split into at most: its worker waits for each of them.
pub(super) const CALLS_MAX: usize = 3;
/// Jobs of a call that are counted at most: no server hands out more at once.
const COUNT_MAX: u64 = 10_000;
/// Jobs whose places are worked out one by one at most; the shares of more are alike.
const PLACES_MAX: u64 = 64;
/// Jobs of each queue in an interval beyond its floor: a window may begin right behind a turn and end right before the next one.
const MARGIN: u64 = 3;
/// Turns are numbered from here on; the numbers below are those of queues that had none yet.
const FIRST_TURN: u64 = 1 << 16;
/// Where fewer jobs come in an interval, turns by time keep the floors, and a beginning is no reason for many turns.
const FEW: u64 = 64;
/// A queue with jobs has a turn in each such part of an interval, however few jobs come.
const TURNS_AN_INTERVAL: u32 = 4;

/// The jobs that wait in a queue, and when they were counted.
pub type Depth = (u64, Instant);

/// One call of a FETCH: the queue whose turn it is, and the others behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Places in the list, in the order in which the region is to serve them; each place once.
    pub order: Vec<usize>,
    /// How many jobs are asked for.
    pub count: u64,
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End<'a> {
    /// The region has answered, with so many jobs of each place of the list.
    Came(&'a [u64]),
    /// It is not known to have handed out anything.
    Failed,
}

/// The turns of the queues of one list.
#[derive(Debug)]
pub struct Turns {
    strategy: QueueOrder,
    floor: Option<Floor>,
    queues: Vec<Queue>,
    /// The jobs of all queues in the last interval.
    recent: Recent,
    /// The number of the last turn.
    turn: u64,
}

#[derive(Debug)]
struct Queue {
    /// The part of a round that a job of it takes.
    step: u64,
    account: Account,
    depth: Option<Depth>,
}

impl Queue {
    /// The jobs that wait there, as far as that is known.
    fn left(&self) -> u64 {
        self.depth.map_or(0, |(depth, _)| depth.saturating_sub(self.account.taken))
    }
}

/// The least is served first: queues that are owed a turn, by the number of their last one, then by the strategy, then as listed.
type Rank = (bool, Option<u64>, u64, u64, usize);

impl Turns {
    /// The turns of `queues`. By `draw` the first turns of many sidecars differ.
    #[must_use]
    pub fn new(rules: &Rules, queues: &[&str], mut draw: Draw, now: Instant) -> Self {
        let interval = rules.floor.map_or(Duration::ZERO, |floor| floor.interval);
        let queue = |name: &&str| {
            let (step, start) = (STEP / u64::from(rules.weight(name)), draw.unit());
            let turn_at = now.checked_sub((interval / TURNS_AN_INTERVAL).mul_f64(start)).unwrap_or(now);
            Queue { step, account: Account::new(draw.below(step), draw.below(FIRST_TURN), turn_at), depth: None }
        };
        Self {
            strategy: rules.strategy,
            floor: rules.floor,
            queues: queues.iter().map(queue).collect(),
            recent: Recent::new(interval, now),
            turn: FIRST_TURN,
        }
    }

    /// The calls for `count` jobs, at most [`CALLS_MAX`], in the order in which they are to be made. Each is to be ended by [`Self::end`].
    /// `depth_of` gives the depth of a place of the list, where it is known; only [`QueueOrder::LeastLoaded`] asks.
    pub fn plan(&mut self, count: u64, depth_of: impl Fn(usize) -> Option<Depth>, now: Instant) -> Vec<Call> {
        if self.strategy == QueueOrder::LeastLoaded {
            for (place, queue) in self.queues.iter_mut().enumerate() {
                let depth = depth_of(place);
                if depth != queue.depth {
                    (queue.depth, queue.account.taken) = (depth, 0);
                }
            }
        }
        let parts = if count <= 1 { vec![(self.head(now), count)] } else { self.parts(count, now) };
        parts.into_iter().map(|(head, count)| self.call(head, count, now)).collect()
    }

    /// One call for `count` jobs of the queues at these places. It is to be ended by [`Self::end`].
    pub fn plan_among(&mut self, count: u64, places: &[usize], now: Instant) -> Call {
        let mut order = places.to_vec();
        order.sort_by_cached_key(|place| self.rank(*place, now));
        if let Some(head) = order.first() {
            self.pay(*head, count.min(COUNT_MAX), now);
        }
        Call { order, count }
    }

    /// Notes the end of a call.
    pub fn end(&mut self, call: &Call, end: End<'_>, now: Instant) {
        let Some(&head) = call.order.first() else { return };
        let asked = call.count.min(COUNT_MAX);
        let End::Came(came) = end else {
            self.take_back(head, asked);
            return;
        };
        let of = |place: usize| came.get(place).copied().unwrap_or_default();
        let total = came.iter().sum();
        self.recent.add(total, now);
        self.owe_all(total, now);
        let served =
            call.order.iter().filter(|place| of(**place) > 0).map(|place| self.queues[*place].account.next).max();
        // The queue has had its turn, also where it was empty.
        self.take_back(head, asked.saturating_sub(of(head).max(1)));
        self.pay(head, of(head).saturating_sub(asked), now);
        for &place in &call.order[1..] {
            self.pay(place, of(place), now);
        }
        // A region serves the queues in their order: those before the last one with jobs are empty, and all of them where jobs are missing.
        let last = call.order.iter().rposition(|place| of(*place) > 0).unwrap_or_default();
        let empty = if total < call.count { call.order.len() } else { last };
        for &place in &call.order[..empty] {
            self.turn += 1;
            let account = &mut self.queues[place].account;
            account.found_empty(served.unwrap_or_default());
            (account.turn, account.turn_at) = (self.turn, now);
        }
    }

    /// The first queues of the calls for `count` jobs, and the jobs that are asked for in each.
    fn parts(&mut self, count: u64, now: Instant) -> Vec<(usize, u64)> {
        let mut parts: Vec<(usize, u64)> = Vec::with_capacity(CALLS_MAX);
        let (before, turn) = (self.queues.iter().map(|queue| queue.account).collect::<Vec<_>>(), self.turn);
        let places = count.min(PLACES_MAX);
        for _ in 0..places {
            let place = self.head(now);
            self.pay(place, 1, now);
            self.owe_all(1, now);
            match parts.iter().position(|(known, _)| *known == place) {
                Some(at) => parts[at].1 += 1,
                None if parts.len() < CALLS_MAX => parts.push((place, 1)),
                None => {}
            }
        }
        self.turn = turn;
        self.queues.iter_mut().zip(before).for_each(|(queue, account)| queue.account = account);
        // The shares of more jobs are as those of the first ones; the rest goes with the last call.
        parts.iter_mut().for_each(|part| {
            part.1 = u64::try_from(u128::from(part.1) * u128::from(count) / u128::from(places)).unwrap_or(count)
        });
        let left = count - parts.iter().map(|part| part.1).sum::<u64>();
        if let Some(last) = parts.last_mut() {
            last.1 += left;
        }
        parts
    }

    fn call(&mut self, head: usize, count: u64, now: Instant) -> Call {
        let mut order: Vec<usize> = (0..self.queues.len()).filter(|place| *place != head).collect();
        order.sort_by_cached_key(|place| self.rank(*place, now));
        order.insert(0, head);
        self.pay(head, count.min(COUNT_MAX), now);
        Call { order, count }
    }

    fn head(&self, now: Instant) -> usize {
        (0..self.queues.len()).min_by_key(|place| self.rank(*place, now)).unwrap_or_default()
    }

    fn rank(&self, place: usize, now: Instant) -> Rank {
        let queue = &self.queues[place];
        let is_owed = self.is_owed(&queue.account, now);
        let (first, then) = match self.strategy {
            QueueOrder::Strict => (0, 0),
            QueueOrder::RoundRobin | QueueOrder::Weighted => (queue.account.next, 0),
            QueueOrder::LeastLoaded => (u64::MAX - queue.left(), queue.account.next),
        };
        (!is_owed, is_owed.then_some(queue.account.turn), first, then, place)
    }

    fn is_owed(&self, account: &Account, now: Instant) -> bool {
        self.floor.is_some_and(|floor| {
            account.is_owed() || now.saturating_duration_since(account.turn_at) >= floor.interval / TURNS_AN_INTERVAL
        })
    }

    /// The floor owes every queue its share of the jobs that came.
    fn owe_all(&mut self, jobs: u64, now: Instant) {
        let Some(floor) = self.floor else { return };
        let margin = MARGIN * u64::from(WHOLE) / self.recent.sum(now).max(FEW);
        let part = jobs.saturating_mul(u64::from(floor.share) + margin);
        self.queues.iter_mut().for_each(|queue| queue.account.owe(part));
    }

    fn pay(&mut self, place: usize, count: u64, now: Instant) {
        if count > 0 {
            self.turn += 1;
            let queue = &mut self.queues[place];
            queue.account.pay(queue.step, count);
            (queue.account.turn, queue.account.turn_at) = (self.turn, now);
        }
    }

    fn take_back(&mut self, place: usize, count: u64) {
        let queue = &mut self.queues[place];
        queue.account.take_back(queue.step, count);
    }
}
