//! Random views and jobs: every field that routing reads varies, and jobs name regions and strategies that may not exist.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::{healthy, id, ids, inputs, rule};
use crate::base::{Draw, Strategy as Routing, SwitchKind};
use crate::config::{Config, Geographic};
use crate::policy::testing::{config, plain};
use crate::policy::{BreakerState, Health, Inputs, Job, Live, RegionIndex, RegionView, View};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const QUEUES: [&str; 3] = ["default", "gdpr", "bulk"];

/// One random situation.
#[derive(Debug)]
pub(super) struct Case {
    config: Config,
    states: Vec<State>,
    is_cut_off: bool,
    job: RandomJob,
    seed: u64,
    turn: u64,
}

#[derive(Debug, Clone)]
struct State {
    health: Health,
    breaker: BreakerState,
    /// Milliseconds; `None` for never probed.
    latency: Option<u64>,
    /// Depth and age in seconds.
    queue: Option<(u64, u64)>,
    total: Option<(u64, u64)>,
    recovered: Option<u64>,
    open_for: u64,
    switch: Option<SwitchKind>,
}

#[derive(Debug, Clone)]
struct RandomJob {
    pin: Option<&'static str>,
    affinity: Option<&'static str>,
    queue: &'static str,
    hint: Option<&'static str>,
    weights: Option<Vec<(String, f64)>>,
}

struct Traffic(u64);

impl Live for Traffic {
    fn in_flight(&self, region: RegionIndex) -> u64 {
        Draw::from_seed(self.0 ^ region.get() as u64).below(50)
    }

    fn sent_since(&self, region: RegionIndex, _: Option<&str>, _: Instant) -> u64 {
        self.in_flight(region) / 2
    }

    fn send_rate(&self, region: RegionIndex) -> f64 {
        Draw::from_seed(self.0 ^ region.get() as u64).unit()
    }
}

impl Case {
    /// The seed of its draws.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    /// Builds the view and the job and hands them over.
    pub(super) fn with<T>(&self, check: impl FnOnce(&View, &Job<'_>, Inputs<'_>) -> T) -> T {
        let start = Instant::now();
        let now = start + Duration::from_secs(100);
        let mut view = healthy(&self.config);
        for (region, state) in view.regions.iter_mut().zip(&self.states) {
            state.put(region, start, now);
        }
        view.set_cut_off(self.is_cut_off);
        let meta = |key: &str| self.job.hint.filter(|_| key == "country").map(Cow::Borrowed).into();
        let job = Job {
            pin: self.job.pin,
            affinity: self.job.affinity,
            queue: self.job.queue,
            weights: self.job.weights.as_deref(),
            meta: &meta,
            ..plain()
        };
        let live = Traffic(self.seed);
        check(&view, &job, Inputs { turn: self.turn, live: &live, ..inputs(now, self.seed) })
    }
}

impl State {
    fn put(&self, region: &mut RegionView, start: Instant, now: Instant) {
        let at = |age: u64| start + Duration::from_secs(100 - age);
        (region.health, region.breaker, region.switch) = (self.health, self.breaker, self.switch);
        region.latency = self.latency.map(Duration::from_millis);
        region.recovered_at = self.recovered.map(at);
        region.open_until = (self.breaker == BreakerState::Open).then(|| now + Duration::from_secs(self.open_for));
        if let Some((depth, age)) = self.queue {
            region.load.set_queue("default", depth, at(age), 4);
        }
        if let Some((depth, age)) = self.total {
            region.load.set_total(depth, at(age));
        }
    }
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let states = prop::collection::vec(state(), NAMES.len());
    (configuration(), states, prop::bool::weighted(0.2), job(), any::<u64>(), any::<u64>())
        .prop_map(|(config, states, is_cut_off, job, seed, turn)| Case { config, states, is_cut_off, job, seed, turn })
}

fn some_regions(regions: usize) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(NAMES[..regions].to_vec(), 0..=regions).prop_shuffle()
}

fn configuration() -> impl Strategy<Value = Config> {
    (1..=NAMES.len()).prop_flat_map(|regions| {
        let settings = (select(Routing::ALL.to_vec()), any::<bool>(), 0..5_usize, any::<Index>());
        let region = (select(vec![0, 1, 1, 5]), prop::option::weighted(0.2, 0..60_u64));
        let rules = prop::collection::vec(
            (select(QUEUES.to_vec()), some_regions(regions), prop::option::of(select(Routing::ALL.to_vec()))),
            0..3,
        );
        let lists = (some_regions(regions), some_regions(regions));
        (settings, prop::collection::vec(region, regions), rules, lists).prop_map(
            move |((strategy, enabled, redirects, local), per_region, rules, (prefer, exclude))| {
                let mut config = config(&NAMES[..regions]);
                config.local_region = id(NAMES[local.index(regions)]);
                config.routing.strategy = strategy;
                config.routing.rules =
                    rules.iter().map(|(queue, regions, strategy)| rule(queue, regions, *strategy)).collect();
                let table = [("here", NAMES[0]), ("there", NAMES[regions - 1])];
                config.routing.geographic = Some(Geographic {
                    meta_key: "country".to_owned(),
                    regions: table.map(|(hint, region)| (hint.to_owned(), id(region))).into(),
                });
                (config.failover.enabled, config.failover.max_redirects) = (enabled, redirects);
                config.failover.prefer_regions = ids(&prefer);
                config.failover.exclude_regions = ids(&exclude);
                for (region, (weight, depth)) in config.regions.iter_mut().zip(per_region) {
                    (region.weight, region.max_queue_depth) = (weight, depth);
                }
                config
            },
        )
    })
}

fn state() -> impl Strategy<Value = State> {
    let health = select(vec![Health::Healthy, Health::Healthy, Health::Unhealthy, Health::Unknown]);
    let breaker = select(vec![BreakerState::Closed, BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen]);
    let figure = || prop::option::of((0..100_u64, 0..40_u64));
    // Few enough that some are equal.
    let latency = prop_oneof![0..3_u64, 0..90_u64];
    let times = (prop::option::of(latency), prop::option::of(0..15_u64), 0..60_u64);
    let switch = prop::option::weighted(0.3, select(SwitchKind::ALL[..3].to_vec()));
    (health, breaker, figure(), figure(), times, switch).prop_map(
        |(health, breaker, queue, total, (latency, recovered, open_for), switch)| State {
            health,
            breaker,
            latency,
            queue,
            total,
            recovered,
            open_for,
            switch,
        },
    )
}

fn job() -> impl Strategy<Value = RandomJob> {
    let pin = prop::option::weighted(0.3, select(vec!["a", "b", "c", "d", "e", "mars-1"]));
    let mut affinities: Vec<_> = Routing::ALL.iter().map(|strategy| strategy.as_str()).collect();
    affinities.extend(["latency", "nonsense"]);
    let weight = prop_oneof![0.0..100.0_f64, Just(0.0), Just(-1.0), Just(f64::NAN), Just(f64::INFINITY), Just(1e-308)];
    let named = select(vec!["a", "b", "c", "mars-1"]).prop_map(str::to_owned);
    (
        pin,
        prop::option::of(select(affinities)),
        select(QUEUES.to_vec()),
        prop::option::of(select(vec!["here", "there", "nowhere"])),
        prop::option::of(prop::collection::vec((named, weight), 0..4)),
    )
        .prop_map(|(pin, affinity, queue, hint, weights)| RandomJob { pin, affinity, queue, hint, weights })
}
