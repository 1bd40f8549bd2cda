//! Virtual time: events in their order, each sidecar driven exactly as the program drives its core.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ojs_sidecar::base::Draw;
use ojs_sidecar::policy::{
    Answer, Decision, Ending, GuardClass, Health, Inputs, Job, Outcome, Pays, Permit, Probe, Progress, RegionIndex,
    Step, classify_enqueue, next, route,
};

use crate::config::{BUDGET_BURST, BUDGET_FLOOR, BUDGET_RATIO, Knobs};
use crate::ledger::Ledger;
use crate::region::{Fault, Region, Reply};
use crate::sidecar::Sidecar;

/// A core that is broken in one place, to see that the ledger tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The pin is lost on the way to routing.
    LosesPins,
    /// Half-open sends whatever probe is due.
    ProbesFreely,
    /// Failover does not count.
    RedirectsFreely,
    /// The budget always pays.
    PaysFreely,
    /// A timeout is held for "nothing was sent".
    ResendsUnknown,
}

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub knobs: Knobs,
    pub sidecars: usize,
    pub seconds: u64,
    /// Jobs that each sidecar gets in a second.
    pub jobs_per_s: f64,
    pub pinned_percent: u64,
    /// Fetches of each sidecar in a second, from its own region.
    pub fetches_per_s: f64,
    /// All sidecars in region 0, or spread over all.
    pub one_home: bool,
    /// (second, region, what happens then).
    pub faults: Vec<(u64, usize, Fault)>,
    /// Jobs waiting in every region at the start, and what all workers together take in a second.
    pub backlog: u64,
    /// How far backlogs differ at the start, over the mean: 0.5 is half more or less.
    pub uneven: f64,
    pub drain_per_s: f64,
    /// Region 0 is cold after an outage; its usual load in jobs per second.
    pub cold: Option<f64>,
    pub sabotage: Option<Sabotage>,
    /// The least loaded region by stale figures, in place of the core's `overflow`.
    pub least_loaded: bool,
    /// Probes every ten seconds sharp, and no silence while a breaker is open.
    pub plain_probes: bool,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            knobs: Knobs::default(),
            sidecars: 10,
            seconds: 120,
            jobs_per_s: 1.0,
            pinned_percent: 0,
            fetches_per_s: 0.0,
            one_home: true,
            faults: Vec::new(),
            backlog: 0,
            uneven: 0.03,
            drain_per_s: 1e9,
            cold: None,
            sabotage: None,
            least_loaded: false,
            plain_probes: false,
        }
    }
}

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

    fn arrive(&mut self, sidecar: usize) {
        let wait = self.interval(self.scenario.jobs_per_s);
        self.after(wait, Event::Arrive { sidecar });
        let pinned = self.draw.below(100) < self.scenario.pinned_percent;
        let pin = pinned.then(|| self.draw.below(self.regions.len() as u64) as usize);
        let job = self.ledger.begin(pin);
        let name = pin.map(|pin| format!("r{pin}"));
        let kept = name.as_deref().filter(|_| self.scenario.sabotage != Some(Sabotage::LosesPins));
        let asked = Job { pin: kept, ..Job::plain("default") };
        let (now, seed) = (self.now(), self.draw.next());
        let it = &mut self.sidecars[sidecar];
        it.requests += 1;
        let inputs = Inputs { now, draw: Draw::from_seed(seed), turn: seed, live: &it.traffic };
        let Ok(mut decision) = route(&it.view, &asked, inputs) else {
            self.answered += 1;
            return;
        };
        if self.scenario.least_loaded {
            decision.candidates.sort_by_key(|&index| {
                let region = it.view.region(index);
                let depth = region.load.queue("default").map_or(0, |figure| figure.depth);
                depth * 1_000 / u64::from(region.weight)
            });
        }
        if self.scenario.sabotage == Some(Sabotage::RedirectsFreely) {
            let others = it.view.indexes().filter(|index| !decision.candidates.contains(index)).collect::<Vec<_>>();
            decision.candidates.extend(others);
        }
        if let Some(first) = decision.target() {
            it.budgets.deposit(first);
            it.requests_to[first.get()] += 1;
        }
        self.send(sidecar, Box::new(Run { job, decision, place: 0, redirects: 0 }));
    }

    fn send(&mut self, sidecar: usize, run: Box<Run>) {
        let Some(region) = run.decision.candidates.get(run.place).map(|index| index.get()) else { return };
        self.attempts += 1;
        self.ledger.sends(run.job, region, 1 + self.scenario.knobs.max_redirects);
        let it = &mut self.sidecars[sidecar];
        let state = &it.view.regions[region];
        if state.breaker.as_str() != "closed" || state.guards[0].as_str() == "open" {
            let what = format!("sidecar {sidecar} sent to {region}: {} {:?}", state.breaker.as_str(), state.guards[0]);
            self.ledger.breach("open rejects all routed traffic", what);
        }
        it.traffic.in_flight[region] += 1;
        let (reply, ms, stored) = self.regions[region].enqueue(self.now_ms, sidecar);
        if stored {
            self.ledger.stores(run.job, region);
        }
        self.after(ms, Event::Ended { sidecar, run, reply });
    }

    fn ended(&mut self, sidecar: usize, mut run: Box<Run>, reply: Reply) {
        let Some(region) = run.decision.candidates.get(run.place).map(|index| index.get()) else { return };
        let (now, pinned) = (self.now(), run.decision.pinned);
        let it = &mut self.sidecars[sidecar];
        it.traffic.in_flight[region] -= 1;
        it.attempted(now, region, GuardClass::Enqueue, reply);
        let mut ending = match reply {
            Reply::Refused => Ending::NotSent,
            Reply::Silence => Ending::NoAnswer,
            Reply::Status(status, document) => Ending::Answered(classify_enqueue(status, document, false, pinned)),
        };
        self.ledger.ended(run.job, ending.outcome(), matches!(ending, Ending::Answered(Answer::TryNext)));
        if ending.outcome() == Outcome::Unknown && self.scenario.sabotage == Some(Sabotage::ResendsUnknown) {
            ending = Ending::NotSent;
        }
        let usable = |place: &usize| {
            run.decision.candidates.get(*place).is_some_and(|&index| {
                let region = it.view.region(index);
                region.breaker.as_str() == "closed"
                    && region.health != Health::Unhealthy
                    && region.guards[0].as_str() != "open"
            })
        };
        let left: Vec<usize> = (run.place + 1..run.decision.candidates.len()).filter(usable).collect();
        let progress = Progress { pinned, redirects_done: run.redirects, candidates_left: left.len() };
        let to = left.first().and_then(|&place| run.decision.candidates.get(place)).copied();
        let step = match to {
            Some(_) if self.scenario.sabotage == Some(Sabotage::PaysFreely) => next(ending, progress, &Free, now),
            Some(to) => next(ending, progress, &it.budgets.toward(to), now),
            None => next(ending, progress, &Free, now),
        };
        match (step, left.first(), to) {
            (Step::Next { charged }, Some(&place), Some(to)) => {
                it.charged += u64::from(charged);
                it.charged_to[to.get()] += u64::from(charged);
                run.place = place;
                run.redirects += 1;
                self.send(sidecar, run);
            }
            _ => self.answer(sidecar, &run, region, reply),
        }
    }

    fn answer(&mut self, sidecar: usize, run: &Run, region: usize, reply: Reply) {
        self.answered += 1;
        if reply == Reply::Status(201, false) {
            self.confirmed += 1;
            self.sidecars[sidecar].traffic.sent[region] += 1;
            self.ledger.confirmed(run.job, region);
        }
    }

    fn fetch(&mut self, sidecar: usize) {
        let wait = self.interval(self.scenario.fetches_per_s);
        self.after(wait, Event::Fetch { sidecar });
        let now = self.now();
        let it = &mut self.sidecars[sidecar];
        let home = it.view.local.get();
        let state = &it.view.regions[home];
        if state.breaker.as_str() == "closed" && state.admits(GuardClass::Fetch, now, &mut it.draw) {
            let (reply, ms) = self.regions[home].fetch(self.now_ms, sidecar);
            self.after(ms, Event::Fetched { sidecar, region: home, reply });
        }
    }

    fn probe(&mut self, sidecar: usize, region: usize) {
        let it = &mut self.sidecars[sidecar];
        let half_open = it.view.regions[region].breaker.as_str() == "half-open";
        let freely = self.scenario.plain_probes || half_open && self.scenario.sabotage == Some(Sabotage::ProbesFreely);
        let permit = it.keeper.probe_permitted(RegionIndex::new(region));
        if half_open && it.half_open_out[region] > 0 && (permit.is_some() || freely) {
            let what = format!("sidecar {sidecar} sent another one to {region}");
            self.ledger.breach("one probe in half-open", what);
        }
        if permit.is_none() && !freely {
            // Nobody may probe: asked again when something changes, which a tick sees.
            return self.after(1_000, Event::Probe { sidecar, region });
        }
        it.half_open_out[region] += u32::from(half_open);
        if half_open && it.keeper.probe_permitted(RegionIndex::new(region)).is_some() {
            let what = format!("sidecar {sidecar} may send another one to {region}");
            self.ledger.breach("one probe in half-open", what);
        }
        let (ok, ms) = self.regions[region].probe(self.now_ms, sidecar);
        self.after(ms, Event::Probed { sidecar, region, probing: Probing { permit, half_open, ok, ms } });
        let again = self.sidecars[sidecar].half_open_out[region] < 2;
        if half_open && again && self.scenario.sabotage == Some(Sabotage::ProbesFreely) {
            self.after(1, Event::Probe { sidecar, region });
        }
    }

    fn probed(&mut self, sidecar: usize, region: usize, probing: Probing) {
        let Probing { permit, half_open, ok, ms } = probing;
        let now = self.now();
        let plain = self.scenario.plain_probes;
        let it = &mut self.sidecars[sidecar];
        it.half_open_out[region] -= u32::from(half_open);
        if let Some(permit) = permit {
            let probe = Probe { healthy: ok, round_trip: ok.then(|| Duration::from_millis(ms)) };
            let index = RegionIndex::new(region);
            let change = it.keeper.on_probe(now, index, permit, probe, &mut it.view.regions[region]);
            it.heed(region, &change);
        }
        let wait = if plain { 10_000 - ms } else { it.probe_interval().as_millis() as u64 };
        self.after(wait, Event::Probe { sidecar, region });
    }

    fn tick(&mut self, sidecar: usize) {
        self.after(1_000, Event::Tick { sidecar });
        let now = self.now();
        let it = &mut self.sidecars[sidecar];
        let every = self.now_ms / 1_000 % 10 == sidecar as u64 % 10;
        for region in 0..self.regions.len() {
            if every || !it.is_calm(region) {
                it.tick(now, region);
            }
        }
    }

    fn poll(&mut self, sidecar: usize) {
        if self.scenario.drain_per_s > 1e8 {
            return;
        }
        self.after(10_000, Event::Poll { sidecar });
        let now = self.now();
        for region in 0..self.regions.len() {
            let depth = self.regions[region].depth_now(self.now_ms);
            self.sidecars[sidecar].polled(now, region, depth);
        }
    }

    fn check_budgets(&mut self) {
        let burst_and_floor = BUDGET_BURST + BUDGET_FLOOR * (self.now_ms as f64 / 1_000.0);
        for (place, it) in self.sidecars.iter().enumerate() {
            let mut check = |what: &str, charged: u64, requests: u64| {
                let allowed = burst_and_floor + BUDGET_RATIO * requests as f64;
                if charged as f64 > allowed + 1e-6 {
                    let what = format!("sidecar {place}, {what}: {charged} redirects of {allowed:.1}");
                    self.ledger.breach("attempts within budget", what);
                }
            };
            check("overall", it.charged, it.requests);
            for region in 0..self.regions.len() {
                check("one region", it.charged_to[region], it.requests_to[region]);
            }
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

/// Pays whatever is asked.
struct Free;

impl Pays for Free {
    fn try_withdraw(&self, _: Instant) -> bool {
        true
    }
}
