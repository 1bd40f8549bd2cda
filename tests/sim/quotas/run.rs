//! One run: jobs arrive, workers fetch, the hub comes and goes, answers are lost, and sidecars are killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ojs_sidecar::base::{Clock, Draw, SteeredTime};
use ojs_sidecar::policy::Quota;
use ojs_sidecar::telemetry::Metrics;

use super::hub::{Hub, Request};
use super::judge::{Judge, Judged};
use super::region::Region;
use super::sidecar::Sidecar;
use super::{SIDECARS, Sabotage, TENANTS, name, quotas};

/// When the run begins. Units: milliseconds since the Unix epoch.
const BEGIN_MS: u64 = 1_800_000_000_000;
const STEP_S: u64 = 1;
/// Jobs that arrive in a step, of all tenants.
const ARRIVALS: u64 = 10;
/// By tenant: jobs that are stored at once, more than end until the last slot of a killed sidecar is free again.
const PILED: [(usize, u64); 2] = [(2, 500), (3, 60)];
/// The leases that workers ask for. Units: milliseconds.
const LEASES_MS: [u64; 3] = [10_000, 30_000, 60_000];
/// Sidecars with producers of a tenant; workers are at all.
const HOMES: u64 = 6;
/// A sidecar says so long after the loss that no hub can be reached.
const LOST_AFTER_MS: u64 = 3_000;

/// A job that a worker works on.
#[derive(Clone, Copy)]
struct Work {
    sidecar: usize,
    /// Of the process.
    run: u64,
    /// The job, and which lease of it this is.
    job: (usize, u64),
    lease_ms: u64,
    /// When it ends.
    ends_ms: u64,
    /// When its worker sends the next heartbeat, where it sends some.
    beats_ms: Option<u64>,
}

pub struct Run {
    sabotage: Option<Sabotage>,
    draw: Draw,
    time: Arc<SteeredTime>,
    clock: Clock,
    metrics: Arc<Metrics>,
    quotas: Vec<Quota>,
    hub: Hub,
    /// When the hub is killed, or comes back.
    turns_ms: u64,
    sidecars: Vec<(Sidecar, u64)>,
    /// The sidecar that alone reaches no hub, and until when; and when the next one begins to.
    cut: Option<(usize, u64)>,
    cuts_ms: u64,
    is_quiet: bool,
    region: Region,
    work: BTreeMap<u64, Vec<Work>>,
    /// Those whose workers send heartbeats.
    long: Vec<Work>,
    late: Vec<(u64, Request)>,
    judge: Judge,
    now_ms: u64,
}

impl Run {
    pub fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        let time = SteeredTime::starting_at(BEGIN_MS);
        let clock = Clock::new(Arc::new(Arc::clone(&time)));
        let (metrics, quotas) = (Metrics::new(&[], &[]), quotas());
        let mut run = Self {
            sabotage,
            draw: Draw::from_seed(seed),
            time,
            clock,
            metrics,
            hub: Hub::new(quotas.clone()),
            quotas,
            turns_ms: BEGIN_MS + 40_000,
            sidecars: Vec::new(),
            cut: None,
            cuts_ms: BEGIN_MS + 60_000,
            is_quiet: false,
            region: Region::new(),
            work: BTreeMap::new(),
            long: Vec::new(),
            late: Vec::new(),
            judge: Judge::default(),
            now_ms: BEGIN_MS,
        };
        run.sidecars = (0..SIDECARS).map(|_| (run.begin(), 0)).collect();
        run
    }

    /// A sidecar begins. It knows the quotas by its journal, and the rest is lost.
    fn begin(&self) -> Sidecar {
        let sidecar = Sidecar::new(&self.clock, &self.metrics);
        sidecar.quotas.set(&self.quotas);
        sidecar
    }

    /// So many seconds, and a quiet end: without further jobs, kills, or losses of the hub.
    pub fn play(mut self, seconds: u64, quiet: u64) -> Judged {
        self.go_on(seconds);
        if quiet > 0 {
            self.is_quiet = true;
            self.pile_up();
            self.go_on(quiet);
        }
        let quiet_ms = (quiet > 0).then_some(self.now_ms - quiet * 1_000);
        self.judge.end(&self.region, &self.quotas, (quiet_ms, self.now_ms))
    }

    /// So many seconds, a time in which nothing happens at all, and as many seconds again.
    pub fn play_twice(mut self, seconds: u64, between: u64) -> Judged {
        self.go_on(seconds);
        self.pass(between);
        if self.sabotage == Some(Sabotage::ForgetsHour) {
            self.hub.forget_before(self.now_ms - between * 1_000);
        }
        self.go_on(seconds);
        self.judge.end(&self.region, &self.quotas, (None, self.now_ms))
    }

    fn pass(&mut self, seconds: u64) {
        self.time.advance(Duration::from_secs(seconds));
        self.now_ms += seconds * 1_000;
    }

    /// More jobs for tenants than they may have active: slots of killed sidecars, and of jobs that others acknowledge, are free one after the
    /// other, and then all of them are taken.
    fn pile_up(&mut self) {
        for (tenant, jobs) in PILED {
            self.judge.arrived += jobs;
            (0..jobs).for_each(|_| self.region.store(tenant, false, self.now_ms, self.now_ms));
        }
    }

    fn go_on(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.pass(STEP_S);
            if self.is_quiet {
                (self.hub.is_up, self.cut) = (true, None);
            } else {
                self.turn_hub();
                self.cut_one_off();
                if self.draw.below(15) == 0 {
                    self.kill_a_sidecar();
                }
                self.arrive();
            }
            self.carry_out_late();
            self.ask();
            self.beat();
            self.end_work();
            self.fetch();
        }
    }

    /// One sidecar after the other reaches no hub for longer than its grant, preferably one whose workers send heartbeats.
    fn cut_one_off(&mut self) {
        if self.cut.is_some_and(|(_, until)| until <= self.now_ms) {
            (self.cut, self.cuts_ms) = (None, self.now_ms + 20_000);
        }
        if self.cut.is_none() && self.cuts_ms <= self.now_ms {
            let any = self.draw.below(SIDECARS as u64) as usize;
            let quotas = &self.quotas;
            let bounds = |tenant: usize| quotas.iter().any(|it| it.max_active.is_some() && it.tenant == name(tenant));
            let at = self.long.iter().find(|it| bounds(self.region.jobs[it.job.0].tenant)).map_or(any, |it| it.sidecar);
            self.cut = Some((at, self.now_ms + 70_000 + 1_000 * self.draw.below(80)));
        }
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn turn_hub(&mut self) {
        if self.now_ms < self.turns_ms {
            return;
        }
        self.hub.is_up = !self.hub.is_up;
        // Down for some seconds, or longer than any block lasts.
        let lasts_s = match (self.hub.is_up, self.draw.below(3)) {
            (true, _) => 30 + self.draw.below(120),
            (false, 0) => 60 + self.draw.below(120),
            (false, _) => 2 + self.draw.below(20),
        };
        self.turns_ms = self.now_ms + lasts_s * 1_000;
        if !self.hub.is_up && self.sabotage == Some(Sabotage::ForgetsRecord) {
            self.hub.forget();
        }
    }

    /// kill -9, with some of its workers; another process begins in its place.
    fn kill_a_sidecar(&mut self) {
        let at = self.draw.below(SIDECARS as u64) as usize;
        let run = self.sidecars[at].1 + 1;
        self.sidecars[at] = (self.begin(), run);
    }

    /// Requests that took long reach the hub, whose answers come too late.
    fn carry_out_late(&mut self) {
        let (now_ms, is_up) = (self.now_ms, self.hub.is_up);
        let due: Vec<_> = self.late.extract_if(.., |(at, _)| *at <= now_ms).collect();
        for (_, request) in due.iter().filter(|_| is_up) {
            self.hub.answer(request, now_ms);
        }
    }

    fn ask(&mut self) {
        let (now, now_ms) = (self.now(), self.now_ms);
        for at in 0..SIDECARS {
            let connects = self.draw.below(6) == 0;
            let is_reached = self.hub.is_up && self.cut.is_none_or(|(cut, _)| cut != at);
            let it = &mut self.sidecars[at].0;
            match (is_reached, it.follows) {
                (true, false) if connects => it.follow(&self.quotas),
                (false, true) => it.lose(now_ms),
                _ => {}
            }
            if !it.follows {
                if it.lost_ms.is_none_or(|lost| lost + LOST_AFTER_MS <= now_ms) && !is_reached {
                    it.hub_lost(now);
                }
                continue;
            }
            let Some(request) = it.ask(at, now) else { continue };
            match self.draw.below(40) {
                // The request is lost.
                0 => it.lose(now_ms),
                // It is carried out, at once or later, and its answer is lost.
                1 => {
                    self.hub.answer(&request, now_ms);
                    it.lose(now_ms);
                }
                2 => {
                    it.lose(now_ms);
                    self.late.push((now_ms + 1_000 + 1_000 * self.draw.below(5), request));
                }
                _ => {
                    let answer = self.hub.answer(&request, now_ms);
                    it.take(&answer, now);
                }
            }
        }
    }

    fn arrive(&mut self) {
        for _ in 0..ARRIVALS {
            // Tenants whose jobs are refused or delayed have the most of them, and those with slots no more than they can do in the long run: a third
            // of the time there is no hub, and a third of the slots are kept by leases whose jobs others have acknowledged.
            let tenant = match self.draw.below(60) {
                0..37 => self.draw.below(2) as usize,
                37..41 => 2,
                _ => self.draw.below(TENANTS as u64) as usize,
            };
            // The producers of a tenant are at some sidecars.
            let at = (tenant * 31 + 17 * self.draw.below(HOMES) as usize) % SIDECARS;
            let is_report = self.draw.below(4) == 0;
            self.judge.arrived += 1;
            let Ok(token) = self.sidecars[at].0.admit(tenant, is_report, self.now()) else {
                self.judge.refused += 1;
                continue;
            };
            let Some(token) = token else {
                self.region.store(tenant, is_report, self.now_ms, self.now_ms);
                continue;
            };
            token.sent();
            if self.draw.below(20) == 0 {
                // Its region refuses it.
                token.give_back();
                if self.sabotage == Some(Sabotage::GivesBackTwice) {
                    (0..2).for_each(|_| token.give_back());
                }
                self.judge.refused += 1;
                continue;
            }
            let due_ms = token.due_ms().filter(|_| self.sabotage != Some(Sabotage::ForgetsTimes));
            self.region.store(tenant, is_report, self.now_ms, due_ms.unwrap_or(self.now_ms));
        }
    }

    /// Workers of long jobs send heartbeats, by their own sidecars.
    fn beat(&mut self) {
        let now_ms = self.now_ms;
        for at in 0..self.long.len() {
            let Some(it) = self.long.get_mut(at).filter(|it| it.beats_ms.is_some_and(|at| at <= now_ms)) else {
                continue;
            };
            it.beats_ms = Some(now_ms + it.lease_ms / 3);
            let (sidecar, run) = &self.sidecars[it.sidecar];
            if *run == it.run && self.region.extend(it.job, now_ms, it.lease_ms) {
                sidecar.extend(it.job.0, it.lease_ms);
                // The documents except jobs that a sidecar keeps alive that alone is cut off, for longer than the hub counts them.
                let is_cut = self.cut.is_some_and(|(cut, _)| cut == it.sidecar);
                let tenant = name(self.region.jobs[it.job.0].tenant);
                let is_beyond = now_ms + it.lease_ms > self.hub.counts_until(it.sidecar, &tenant);
                self.region.jobs[it.job.0].is_excepted |= is_cut && is_beyond;
            }
        }
        self.long.retain(|it| it.ends_ms > now_ms);
    }

    /// Workers end their jobs: most acknowledge them, by their own sidecar or by another one.
    fn end_work(&mut self) {
        let later = self.work.split_off(&(self.now_ms + 1));
        for work in std::mem::replace(&mut self.work, later).into_values().flatten() {
            let (sidecar, run) = &self.sidecars[work.sidecar];
            let fate = self.draw.below(20).max(if self.is_quiet { 2 } else { 0 });
            // Half of the workers of a killed sidecar go on, and find another process in its place.
            if (*run != work.run && work.job.0 % 2 == 0) || fate == 0 {
                continue;
            }
            self.region.ack(work.job, self.now_ms);
            if fate > 1 && self.sabotage != Some(Sabotage::KeepsSlots) {
                sidecar.ack(work.job.0);
            }
        }
    }

    fn fetch(&mut self) {
        for at in 0..SIDECARS {
            // Workers of a tenant are at every fifth sidecar.
            (at % 5..TENANTS).step_by(5).for_each(|tenant| self.fetch_for(at, tenant));
        }
    }

    fn fetch_for(&mut self, at: usize, tenant: usize) {
        let count = 1 + self.draw.below(4);
        let lease_ms = LEASES_MS[self.draw.below(LEASES_MS.len() as u64) as usize];
        let is_lost = !self.is_quiet && self.draw.below(400) == 0;
        let (now, (sidecar, run)) = (self.now(), &self.sidecars[at]);
        let asked = (tenant, count, lease_ms);
        let jobs = sidecar.fetch(&mut self.region, asked, (now, self.now_ms), (is_lost, self.sabotage));
        let quota = self.quotas.iter().find(|it| it.tenant == name(tenant));
        let active = self.region.active(tenant, self.now_ms);
        self.judge.fetched(tenant, active, quota, self.now_ms);
        for job in jobs {
            let is_long = !self.is_quiet && self.draw.below(25) == 0;
            let lasts_s = if is_long { 40 + self.draw.below(100) } else { 1 + self.draw.below(8) };
            let (ends_ms, beats_ms) = (self.now_ms + lasts_s * 1_000, is_long.then_some(self.now_ms + lease_ms / 3));
            let job = (job, self.region.jobs[job].leases);
            let work = Work { sidecar: at, run: *run, job, lease_ms, ends_ms, beats_ms };
            self.work.entry(ends_ms).or_default().push(work);
            self.long.extend(is_long.then_some(work));
        }
    }
}
