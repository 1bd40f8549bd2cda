//! The turns of the queues of one list.

use std::time::{Duration, Instant};

use super::account::{Account, STEP};
use super::recent::Recent;
use super::rules::{Floor, Rules, WHOLE};
use crate::base::{Draw, QueueOrder};

/// Jobs of a call that are counted at most: an answer has no more.
const COUNT_MAX: u64 = 10_000;
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

/// A call for jobs: the queue whose turn it is, and the others behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Places in the list, in the order in which the region is to serve them; each place once.
    pub order: Vec<usize>,
    /// How many jobs are asked for.
    pub count: u64,
    /// The part of them that was owed to the first queue. Units: millionths.
    paid: u64,
    /// The number of the list that it is of.
    pub(super) list: u64,
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
    /// The number of the list among those that are kept; 0 for a list of shards.
    pub(super) list: u64,
    /// All places, in the order of the last call.
    order: Vec<usize>,
    /// The jobs of all queues in the last interval.
    recent: Recent,
    /// The number of the last turn.
    turn: u64,
    last: Option<LastCall>,
}

/// The reason why a queue was served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadReason {
    /// Its floor owed it a turn.
    Floor,
    /// It was its turn by the weights.
    Turn,
    /// Most jobs wait there.
    Deepest,
    /// It is the first one of the list.
    Listed,
}

impl HeadReason {
    /// Its word in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Turn => "turn",
            Self::Deepest => "deepest",
            Self::Listed => "listed",
        }
    }
}

/// The last call of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastCall {
    /// The place of the queue that was served first.
    pub head: usize,
    /// The reason for it.
    pub reason: HeadReason,
    /// The jobs that came of all queues; none until the region has answered.
    pub came: Option<u64>,
    /// When it was made.
    pub at: Instant,
}

/// The account of a queue, for people.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueTurn {
    /// Jobs of a queue of weight 1 that come before its own next one by the weights; 0 for the next in turn.
    pub behind: f64,
    /// Jobs that its floor owes it.
    pub owed: f64,
}

#[derive(Debug)]
struct Queue {
    /// The part of a round that a job of it takes.
    step: u64,
    account: Account,
    depth: Option<Depth>,
}

impl Queue {
    /// When its turn would be without the last `count` jobs.
    const fn next_before(&self, count: u64) -> u64 {
        self.account.next.saturating_sub(self.step.saturating_mul(count))
    }

    /// The jobs that wait there, as far as that is known.
    fn left(&self) -> u64 {
        self.depth.map_or(0, |(depth, _)| depth.saturating_sub(self.account.taken))
    }
}

/// When a floor owes a queue a turn.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// It is owed so many jobs.
    count: u64,
    /// Its last turn was then, or earlier.
    since: Option<Instant>,
}

/// The least is served first: queues that are owed a turn, by the number of their last one, then by the strategy, then as listed.
type Rank = (u64, u64, u64, usize);
/// In place of the number of a last turn, for queues that are owed none.
const NOT_OWED: u64 = u64::MAX;

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
            list: 0,
            order: (0..queues.len()).collect(),
            recent: Recent::new(interval, now),
            turn: FIRST_TURN,
            last: None,
        }
    }

    /// The turns of the shards of a queue, each in proportion to its weight.
    #[must_use]
    pub(super) fn of_shards(weights: &[u32], mut draw: Draw, now: Instant) -> Self {
        let shard = |weight: &u32| {
            let step = STEP / u64::from((*weight).clamp(1, QueueOrder::WEIGHT_MAX));
            Queue { step, account: Account::new(draw.below(step), draw.below(FIRST_TURN), now), depth: None }
        };
        let (queues, order) = (weights.iter().map(shard).collect(), (0..weights.len()).collect());
        let recent = Recent::new(Duration::ZERO, now);
        let (list, turn) = (0, FIRST_TURN);
        Self { strategy: QueueOrder::Weighted, floor: None, queues, list, order, recent, turn, last: None }
    }

    /// The call for `count` jobs of the queues at those places of the list that are `wanted`. It is to be ended by [`Self::end`].
    /// `depth_of` gives the depth of a place, where it is known; only [`QueueOrder::LeastLoaded`] asks.
    pub fn plan(
        &mut self,
        count: u64,
        wanted: impl Fn(usize) -> bool,
        depth_of: impl Fn(usize) -> Option<Depth>,
        now: Instant,
    ) -> Call {
        if self.strategy == QueueOrder::LeastLoaded {
            for (place, queue) in self.queues.iter_mut().enumerate() {
                let depth = depth_of(place);
                if depth != queue.depth {
                    (queue.depth, queue.account.taken) = (depth, 0);
                }
            }
        }
        let due = Due { count: count.clamp(1, COUNT_MAX), since: self.due_since(now) };
        self.sort(due);
        let mut order = self.order.clone();
        order.retain(|place| wanted(*place));
        self.last = order.first().map(|head| self.call(*head, due, now));
        let paid = order.first().map_or(0, |head| self.pay(*head, due.count, now));
        Call { order, count, paid, list: self.list }
    }

    /// Notes the end of a call.
    pub fn end(&mut self, call: &Call, end: End<'_>, now: Instant) {
        let Some(&head) = call.order.first() else { return };
        let asked = call.count.clamp(1, COUNT_MAX);
        let End::Came(came) = end else {
            self.take_back(head, asked, call.paid);
            return;
        };
        if came.iter().all(|jobs| *jobs == 0) {
            self.end_empty(call, head, asked, now);
            return;
        }
        let of = |place: usize| came.get(place).copied().unwrap_or_default();
        let total = call.order.iter().map(|place| of(*place)).sum();
        if let Some(last) = &mut self.last {
            last.came = Some(total);
        }
        self.recent.add(total, now);
        self.owe_all(total, now);
        // The queue has had its turn, also where it was empty.
        let own = of(head).min(asked);
        self.take_back(head, asked - own.max(1), call.paid.saturating_sub(own.saturating_mul(u64::from(WHOLE))));
        // The account of the jobs that came as it was before them: a queue that was empty begins there.
        let before = |place: usize, had: u64| (of(place) > 0).then(|| self.queues[place].next_before(had));
        let served =
            before(head, own).into_iter().chain(call.order[1..].iter().filter_map(|place| before(*place, 0))).max();
        self.pay(head, of(head) - own, now);
        for &place in &call.order[1..] {
            self.pay(place, of(place), now);
        }
        // A region serves the queues in their order: those before the last one with jobs are empty, and all of them where none came.
        let last = call.order.iter().rposition(|place| of(*place) > 0).unwrap_or(call.order.len());
        for &place in call.order[..last].iter().filter(|place| of(**place) < asked) {
            self.found_empty(place, served.unwrap_or_default(), now);
        }
    }

    /// No job came: each queue has had its turn.
    fn end_empty(&mut self, call: &Call, head: usize, asked: u64, now: Instant) {
        if let Some(last) = &mut self.last {
            last.came = Some(0);
        }
        self.take_back(head, asked - 1, call.paid);
        call.order.iter().for_each(|place| self.found_empty(*place, 0, now));
    }

    /// The last call; none before the first.
    #[must_use]
    pub const fn last(&self) -> Option<LastCall> {
        self.last
    }

    /// The turns of each queue, by its place in the list.
    pub fn queues(&self) -> impl Iterator<Item = QueueTurn> {
        let first = self.queues.iter().map(|queue| queue.account.next).min().unwrap_or_default();
        self.queues.iter().map(move |queue| QueueTurn {
            behind: parts(queue.account.next - first, STEP),
            owed: parts(queue.account.owed(), u64::from(WHOLE)),
        })
    }

    fn call(&self, head: usize, due: Due, now: Instant) -> LastCall {
        let reason = match self.strategy {
            _ if self.is_owed(&self.queues[head].account, due) => HeadReason::Floor,
            QueueOrder::Strict => HeadReason::Listed,
            QueueOrder::RoundRobin | QueueOrder::Weighted => HeadReason::Turn,
            QueueOrder::LeastLoaded => HeadReason::Deepest,
        };
        LastCall { head, reason, came: None, at: now }
    }

    /// Puts all places in their order. Between two calls mostly the first one falls back: from the end on, a place goes behind those that come before it.
    fn sort(&mut self, due: Due) {
        let mut order = std::mem::take(&mut self.order);
        let mut next = order.last().map(|place| self.rank(*place, due));
        for from in (1..order.len()).rev() {
            let rank = self.rank(order[from - 1], due);
            if next.is_some_and(|next| next < rank) {
                let before = order[from..].partition_point(|place| self.rank(*place, due) < rank);
                order[from - 1..from + before].rotate_left(1);
            } else {
                next = Some(rank);
            }
        }
        self.order = order;
    }

    fn rank(&self, place: usize, due: Due) -> Rank {
        let queue = &self.queues[place];
        let turn = if self.is_owed(&queue.account, due) { queue.account.turn } else { NOT_OWED };
        let (first, then) = match self.strategy {
            QueueOrder::Strict => (0, 0),
            QueueOrder::RoundRobin | QueueOrder::Weighted => (queue.account.next, 0),
            QueueOrder::LeastLoaded => (u64::MAX - queue.left(), queue.account.next),
        };
        (turn, first, then, place)
    }

    /// A queue whose last turn was then, or earlier, is owed one by its floor.
    fn due_since(&self, now: Instant) -> Option<Instant> {
        now.checked_sub(self.floor?.interval / TURNS_AN_INTERVAL)
    }

    fn is_owed(&self, account: &Account, due: Due) -> bool {
        self.floor.is_some() && (account.is_owed(due.count) || due.since.is_some_and(|since| account.turn_at <= since))
    }

    /// The floor owes every queue its share of the jobs that came.
    fn owe_all(&mut self, jobs: u64, now: Instant) {
        let Some(floor) = self.floor else { return };
        let margin = MARGIN * u64::from(WHOLE) / self.recent.sum(now).max(FEW);
        let part = jobs.saturating_mul(u64::from(floor.share) + margin);
        self.queues.iter_mut().for_each(|queue| queue.account.owe(part));
    }

    fn pay(&mut self, place: usize, count: u64, now: Instant) -> u64 {
        if count == 0 {
            return 0;
        }
        self.turn += 1;
        let queue = &mut self.queues[place];
        (queue.account.turn, queue.account.turn_at) = (self.turn, now);
        queue.account.pay(queue.step, count)
    }

    /// A queue has no jobs, which is its turn.
    fn found_empty(&mut self, place: usize, served: u64, now: Instant) {
        self.turn += 1;
        let account = &mut self.queues[place].account;
        account.found_empty(served);
        (account.turn, account.turn_at) = (self.turn, now);
    }

    fn take_back(&mut self, place: usize, count: u64, paid: u64) {
        let queue = &mut self.queues[place];
        queue.account.take_back(queue.step, count, paid);
    }
}

#[expect(clippy::cast_precision_loss, reason = "turns and jobs for people")]
fn parts(of: u64, unit: u64) -> f64 {
    of as f64 / unit as f64
}
