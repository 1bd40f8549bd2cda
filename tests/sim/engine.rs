//! Virtual time: events in their order, each sidecar driven exactly as the program drives its core.

mod jobs;
mod probes;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ojs_sidecar::base::Draw;
use ojs_sidecar::policy::{Decision, GuardClass, Permit};

use crate::ledger::Ledger;
use crate::region::{Fault, Region, Reply};
use crate::scenario::Scenario;
use crate::sidecar::Sidecar;

#[derive(Debug)]
enum Event {
    Fault { region: usize, fault: Fault },
    Arrive { sidecar: usize },
    Fetch { sidecar: usize },
    Fetched { sidecar: usize, region: usize, reply: Reply },
    Ended { sidecar: usize, run: Box<Run>, reply: Reply },
    Probe { sidecar: usize, region: usize },
    Probed { sidecar: usize, region: usize, probing: Probing },
    Tick { sidecar: usize },
    Poll { sidecar: usize },
}

/// A probe on its way.
#[derive(Debug)]
struct Probing {
    permit: Option<Permit>,
    half_open: bool,
    ok: bool,
    ms: u64,
}

/// A job on its way.
#[derive(Debug)]
struct Run {
    job: usize,
    decision: Decision,
    place: usize,
    redirects: usize,
}

#[derive(Debug)]
pub struct Sim {
    pub scenario: Scenario,
    pub regions: Vec<Region>,
    pub sidecars: Vec<Sidecar>,
    pub ledger: Ledger,
    /// Calls that were answered as stored, and all that were answered.
    pub confirmed: u64,
    pub answered: u64,
    pub attempts: u64,
    start: Instant,
    now_ms: u64,
    queue: BTreeMap<(u64, u64), Event>,
    issued: u64,
    draw: Draw,
}

impl Sim {
    pub fn new(scenario: Scenario) -> Self {
        let start = Instant::now();
        let mut draw = Draw::from_seed(scenario.seed);
        let homes = if scenario.one_home { 1 } else { scenario.knobs.regions };
        let configs: Vec<_> = (0..homes).map(|home| scenario.knobs.config(home)).collect();
        let sidecars: Vec<_> =
            (0..scenario.sidecars).map(|place| Sidecar::new(&configs[place % homes], draw.next(), start)).collect();
        let weights: f64 = configs[0].regions.iter().map(|region| f64::from(region.weight)).sum();
        let share = |place: usize| f64::from(configs[0].regions[place].weight) / weights;
        let regions: Vec<_> = (0..scenario.knobs.regions)
            .map(|place| {
                let backlog =
                    scenario.backlog as f64 * share(place) * (1.0 + scenario.uneven * (2.0 * draw.unit() - 1.0));
                Region::new(draw.next(), backlog, scenario.drain_per_s * share(place))
            })
            .collect();
        let mut sim = Self {
            regions,
            sidecars,
            ledger: Ledger::default(),
            confirmed: 0,
            answered: 0,
            attempts: 0,
            start,
            now_ms: 0,
            queue: BTreeMap::new(),
            issued: 0,
            draw,
            scenario,
        };
        sim.schedule_first();
        sim
    }

    fn schedule_first(&mut self) {
        for (second, region, fault) in self.scenario.faults.clone() {
            self.at(second * 1_000, Event::Fault { region, fault });
        }
        for sidecar in 0..self.sidecars.len() {
            for region in 0..self.regions.len() {
                self.at(0, Event::Probe { sidecar, region });
            }
            let offset = self.draw.below(1_000);
            self.at(offset, Event::Tick { sidecar });
            // A rollout starts all sidecars at once, and their polls go in step from there on.
            self.at(50, Event::Poll { sidecar });
            let first = self.interval(self.scenario.jobs_per_s);
            self.at(100 + first, Event::Arrive { sidecar });
            if self.scenario.fetches_per_s > 0.0 {
                let first = self.interval(self.scenario.fetches_per_s);
                self.at(100 + first, Event::Fetch { sidecar });
            }
        }
    }

    /// Runs to the end; the ledger tells what was broken.
    pub fn run(mut self) -> Self {
        let end = self.scenario.seconds * 1_000;
        while let Some(((at, _), event)) = self.queue.pop_first() {
            // What is under way at the end comes to its end; nothing new begins.
            self.now_ms = at;
            if at <= end || matches!(event, Event::Ended { .. } | Event::Fetched { .. }) {
                self.handle(event);
            }
        }
        self.check_budgets();
        self
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Fault { region, fault } => self.change(region, fault),
            Event::Arrive { sidecar } => self.arrive(sidecar),
            Event::Fetch { sidecar } => self.fetch(sidecar),
            Event::Fetched { sidecar, region, reply } => {
                let now = self.now();
                self.sidecars[sidecar].attempted(now, region, GuardClass::Fetch, reply);
            }
            Event::Ended { sidecar, run, reply } => self.ended(sidecar, run, reply),
            Event::Probe { sidecar, region } => self.probe(sidecar, region),
            Event::Probed { sidecar, region, probing } => self.probed(sidecar, region, probing),
            Event::Tick { sidecar } => self.tick(sidecar),
            Event::Poll { sidecar } => self.poll(sidecar),
        }
    }

    fn change(&mut self, region: usize, fault: Fault) {
        let state = &mut self.regions[region];
        (state.fault, state.since_ms) = (fault, self.now_ms);
        if fault == Fault::Up && region == 0 {
            state.cold = self.scenario.cold.map(|usual| (usual, None));
        }
    }

    fn interval(&mut self, per_s: f64) -> u64 {
        (-(1.0 - self.draw.unit()).ln() / per_s * 1_000.0) as u64 + 1
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.now_ms)
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.at(self.now_ms + ms, event);
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.issued += 1;
        self.queue.insert((at_ms, self.issued), event);
    }
}
