use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::rules::{Floor, WHOLE};
use super::*;
use crate::base::{Draw, QueueOrder};
use crate::policy::RegionIndex;

const QUEUES: [&str; 3] = ["a", "b", "c"];

/// A region with so many jobs in each queue, which it serves strictly in the order of a call.
struct Server(Vec<u64>);

impl Server {
    fn serve(&mut self, call: &Call) -> Vec<u64> {
        let (mut came, mut missing) = (vec![0; self.0.len()], call.count);
        for &place in &call.order {
            let jobs = missing.min(self.0[place]);
            (self.0[place], came[place], missing) = (self.0[place] - jobs, came[place] + jobs, missing - jobs);
        }
        came
    }

    /// So many FETCHes of `count` jobs; the jobs that came of each queue.
    fn fetch(&mut self, turns: &mut Turns, times: u64, count: u64) -> Vec<u64> {
        let (mut all, now) = (vec![0; self.0.len()], Instant::now());
        for _ in 0..times {
            let call = turns.plan(count, |_| true, |_| None, now);
            let came = self.serve(&call);
            turns.end(&call, End::Came(&came), now);
            all.iter_mut().zip(&came).for_each(|(all, came)| *all += came);
        }
        all
    }
}

fn rules(strategy: QueueOrder, weights: &[(&str, u32)], floor: Option<Floor>) -> Rules {
    let weights = weights.iter().map(|(queue, weight)| ((*queue).to_owned(), *weight)).collect::<BTreeMap<_, _>>();
    let weights = weights.into();
    Rules { strategy, weights, floor, pool: None }
}

fn turns(rules: &Rules, queues: &[&str]) -> Turns {
    Turns::new(rules, queues, Draw::from_seed(7), Instant::now())
}

fn near(came: &[u64], expected: [u64; 3]) {
    for (came, expected) in came.iter().zip(expected) {
        assert!(came.abs_diff(expected) <= 18, "{came} instead of {expected}");
    }
}

#[test]
fn queues_share_jobs_by_their_weights_and_an_empty_one_leaves_its_share_to_others() {
    for count in [1, 3, 10] {
        let mut turns = turns(&rules(QueueOrder::Weighted, &[("a", 5), ("b", 3)], None), &QUEUES);
        let mut server = Server(vec![9_000; 3]);
        near(&server.fetch(&mut turns, 900 / count, count), [500, 300, 100]);
        server.0 = vec![9_000, 0, 9_000];
        near(&server.fetch(&mut turns, 600 / count, count), [500, 0, 100]);
        // A queue with no jobs has saved up nothing, and one that took the jobs of others owes nothing.
        for alone in [[0, 0, 9_000], [9_000, 0, 0]] {
            server.0 = alone.to_vec();
            server.fetch(&mut turns, 900 / count, count);
            server.0 = vec![9_000; 3];
            near(&server.fetch(&mut turns, 900 / count, count), [500, 300, 100]);
        }
    }
}

#[test]
fn round_robin_takes_one_of_each_and_strict_the_first_one_as_long_as_it_has_jobs() {
    let mut server = Server(vec![9_000; 3]);
    assert_eq!(server.fetch(&mut turns(&rules(QueueOrder::RoundRobin, &[("a", 9)], None), &QUEUES), 9, 1), [3; 3]);
    assert_eq!(server.fetch(&mut turns(&rules(QueueOrder::Strict, &[("c", 9)], None), &QUEUES), 9, 1), [9, 0, 0]);
}

#[test]
fn the_deepest_queue_is_first_and_jobs_that_were_taken_since_do_not_count() {
    let mut turns = turns(&rules(QueueOrder::LeastLoaded, &[], None), &QUEUES);
    let (now, mut server) = (Instant::now(), Server(vec![9_000; 3]));
    let mut came = [0; 3];
    for _ in 0..10 {
        let depth = |place: usize| [Some((2, now)), Some((10, now)), None][place];
        let call = turns.plan(1, |_| true, depth, now);
        came[call.order[0]] += 1;
        turns.end(&call, End::Came(&server.serve(&call)), now);
    }
    assert_eq!(came, [1, 9, 0]);
}

#[test]
fn calls_under_way_count_and_one_that_failed_does_not() {
    let mut turns = turns(&rules(QueueOrder::RoundRobin, &[], None), &QUEUES);
    let now = Instant::now();
    let calls: Vec<_> = (0..3).map(|_| turns.plan(1, |_| true, |_| None, now)).collect();
    let mut heads: Vec<_> = calls.iter().map(|call| call.order[0]).collect();
    let first = heads[0];
    heads.sort_unstable();
    assert_eq!(heads, [0, 1, 2], "three calls at once are for three queues");
    turns.end(&calls[0], End::Failed, now);
    assert_eq!(turns.plan(1, |_| true, |_| None, now).order[0], first);
}

#[test]
fn whatever_is_asked_for_and_comes_each_queue_is_asked_once_and_nothing_overflows() {
    let queues: Vec<String> = (0..9).map(|at| format!("q{at}")).collect();
    let queues: Vec<&str> = queues.iter().map(String::as_str).collect();
    let floor = Some(Floor { share: WHOLE / 20, interval: Duration::from_secs(30) });
    for count in [0, 1, 2, 64, 1_000, u64::MAX] {
        let mut turns = turns(&rules(QueueOrder::Weighted, &[("q3", 1_000)], floor), &queues);
        for end in [End::Failed, End::Came(&[0; 9]), End::Came(&[10_000; 9]), End::Came(&[]), End::Came(&[1; 9])] {
            let call = turns.plan(count, |_| true, |_| None, Instant::now());
            let mut places = call.order.clone();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..9) && call.count == count, "{call:?}");
            turns.end(&call, end, Instant::now());
        }
    }
    let none = turns(&rules(QueueOrder::RoundRobin, &[], None), &QUEUES).plan(4, |_| false, |_| None, Instant::now());
    assert!(none.order.is_empty());
}

#[test]
fn floors_take_no_more_than_their_part_of_calls_for_many_jobs_and_of_failed_ones() {
    let floor = Some(Floor { share: WHOLE / 20, interval: Duration::from_secs(30) });
    let queues = ["a", "b", "c", "d", "e"];
    for count in [1, 5, 20, 100] {
        let mut turns = turns(&rules(QueueOrder::Strict, &[], floor), &queues);
        for _ in 0..50 {
            let call = turns.plan(count, |_| true, |_| None, Instant::now());
            turns.end(&call, End::Failed, Instant::now());
        }
        let mut server = Server(vec![1 << 40; 5]);
        let came = server.fetch(&mut turns, 20_000 / count, count);
        assert!(came[0] >= 14_000, "{count}: {came:?}");
        assert!(came.iter().all(|came| *came >= 1_000 - count), "{count}: {came:?}");
    }
}

#[test]
fn lists_are_kept_apart_and_the_oldest_is_forgotten() {
    let (mut lists, rules) = (Lists::default(), rules(QueueOrder::RoundRobin, &[], None));
    let begin = Instant::now();
    let draw = || Draw::from_seed(1);
    const HERE: RegionIndex = RegionIndex::new(0);
    let first = lists.turns(HERE, ["a", "b"].into_iter(), &rules, draw, begin).plan(1, |_| true, |_| None, begin);
    let second = lists.turns(HERE, ["a", "b"].into_iter(), &rules, draw, begin).plan(1, |_| true, |_| None, begin);
    assert_ne!(first.order, second.order);
    for at in 1..=64 {
        let name = format!("q{at}");
        lists.turns(HERE, [&*name, "b"].into_iter(), &rules, draw, begin + Duration::from_secs(at));
    }
    let anew = lists.turns(HERE, ["a", "b"].into_iter(), &rules, draw, begin).plan(1, |_| true, |_| None, begin);
    assert_eq!(first.order, anew.order);
    // The call of a list that was dropped ends without a trace in the one that has its place.
    lists.end(&first, End::Came(&[100, 0]), begin);
    let turns = lists.turns(HERE, ["a", "b"].into_iter(), &rules, draw, begin);
    assert_eq!(turns.last().unwrap().came, None);
    lists.end(&anew, End::Came(&[0, 0]), begin);
    let turns = lists.turns(HERE, ["a", "b"].into_iter(), &rules, draw, begin);
    assert_eq!(turns.last().unwrap().came, Some(0));
}

proptest! {
    #[test]
    fn an_order_that_is_kept_is_that_of_turns_that_were_sorted_anew(
        seed in any::<u64>(),
        calls in prop::collection::vec((1_u64..4, prop::collection::vec(0_u64..3, 40), any::<bool>()), 1..40),
        weights in prop::collection::vec(1_u32..9, 1..40),
    ) {
        let now = Instant::now();
        let mut turns = Turns::of_shards(&weights, Draw::from_seed(seed), now);
        for (count, came, fails) in calls {
            let mut behind: Vec<_> = turns.queues().map(|turn| turn.behind).enumerate().collect();
            behind.sort_by(|one, other| one.1.total_cmp(&other.1));
            let call = turns.plan(count, |_| true, |_| None, now);
            prop_assert_eq!(&call.order, &behind.iter().map(|(place, _)| *place).collect::<Vec<_>>());
            turns.end(&call, if fails { End::Failed } else { End::Came(&came[..weights.len()]) }, now);
        }
    }
}

/// One run of a fleet whose workers ask at random for jobs of queues that are full, but for one that comes and goes.
struct Run {
    queues: usize,
    sidecars: usize,
    share: u32,
    interval: Duration,
    strategy: QueueOrder,
    /// Between two FETCHes of the fleet, on average. Units: milliseconds.
    pause: u64,
}

/// The jobs that came: when, in milliseconds, and of which queue; and the queue that comes and goes.
fn run(run: &Run, mut draw: Draw) -> (Vec<(u64, usize)>, usize) {
    let names: Vec<String> = (0..run.queues).map(|at| format!("q{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rules = rules(run.strategy, &[("q0", 50)], Some(Floor { share: run.share, interval: run.interval }));
    let begin = Instant::now();
    let mut fleet: Vec<_> =
        (0..run.sidecars).map(|_| Turns::new(&rules, &names, Draw::from_seed(draw.next()), begin)).collect();
    let mut server = Server(vec![1 << 40; run.queues]);
    let at_random = usize::try_from(draw.below(run.queues as u64)).unwrap();
    let (mut came, mut under_way, mut at) = (Vec::new(), Vec::new(), 0);
    while at < u64::try_from(run.interval.as_millis()).unwrap() * 5 / 2 {
        at += draw.below(2 * run.pause + 1);
        let now = begin + Duration::from_millis(at);
        if draw.below(40) == 0 {
            server.0[at_random] = draw.below(30);
        }
        let sidecar = usize::try_from(draw.below(run.sidecars as u64)).unwrap();
        under_way.push((sidecar, fleet[sidecar].plan(1, |_| true, |_| None, now)));
        while under_way.len() as u64 > draw.below(4) {
            let (sidecar, call) = under_way.remove(0);
            let jobs = server.serve(&call);
            fleet[sidecar].end(&call, End::Came(&jobs), now);
            came.extend(jobs.iter().enumerate().filter(|(_, jobs)| **jobs > 0).map(|(queue, _)| (at, queue)));
        }
    }
    (came, at_random)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // With some dozens of jobs of each sidecar in a window; with fewer, a share of a twentieth is less than one job.
    #[test]
    fn every_queue_with_jobs_has_its_floor_in_every_window_whatever_others_do(
        seed in any::<u64>(),
        queues in 2_usize..7,
        alone in any::<bool>(),
        parts in 2_u32..40,
        strategy in prop::sample::select(vec![QueueOrder::Strict, QueueOrder::RoundRobin, QueueOrder::Weighted]),
        pause in prop::sample::select(vec![15_u64, 25]),
    ) {
        // All floors together leave a tenth of the jobs for what the order says.
        let share = WHOLE / (u32::try_from(queues).unwrap() + 1).max(parts);
        let sidecars = if alone { 1 } else { 50 };
        let interval = Duration::from_secs(30);
        let setting = Run { queues, sidecars, share, interval, strategy, pause };
        let (came, at_random) = run(&setting, Draw::from_seed(seed));
        for queue in (0..queues).filter(|queue| *queue != at_random) {
            let (mut from, mut own) = (0, 0_u64);
            for to in 0..came.len() {
                own += u64::from(came[to].1 == queue);
                while came[to].0 - came[from].0 > 30_000 {
                    own -= u64::from(came[from].1 == queue);
                    from += 1;
                }
                let all = (to + 1 - from) as u64;
                let is_whole = came[to].0 >= 30_000;
                prop_assert!(!is_whole || own * u64::from(WHOLE) >= all * u64::from(share), "queue {queue}: {own} of {all} jobs, {share}");
            }
        }
    }

    #[test]
    fn every_weight_heads_a_call_within_as_many_calls_as_its_part_of_the_sum(
        seed in any::<u64>(),
        weights in prop::collection::vec(1_u32..=100, 2..8),
    ) {
        let names: Vec<String> = (0..weights.len()).map(|at| format!("q{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let by_name: BTreeMap<String, u32> = names.iter().map(|name| (*name).to_owned()).zip(weights.iter().copied()).collect();
        let rules = Rules { strategy: QueueOrder::Weighted, weights: by_name.into(), floor: None, pool: None };
        let (now, mut server) = (Instant::now(), Server(vec![1 << 40; names.len()]));
        let mut turns = Turns::new(&rules, &names, Draw::from_seed(seed), now);
        let sum: u32 = weights.iter().sum();
        let mut heads_at = vec![0; names.len()];
        for at in 1..=usize::try_from(3 * sum).unwrap() {
            let call = turns.plan(1, |_| true, |_| None, now);
            heads_at[call.order[0]] = at;
            turns.end(&call, End::Came(&server.serve(&call)), now);
            for (weight, head_at) in weights.iter().zip(&heads_at) {
                let bound = usize::try_from(sum.div_ceil(*weight)).unwrap() + names.len();
                prop_assert!(at - head_at <= bound, "weight {weight} of {weights:?} had no turn in {bound} calls");
            }
        }
    }
}
