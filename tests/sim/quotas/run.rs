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
const STEP_MS: u64 = 1_000;
/// Jobs that arrive in a step, of all tenants.
const ARRIVALS: u64 = 14;
/// Sidecars with producers of a tenant; workers are at all.
const HOMES: u64 = 6;
/// A sidecar says so long after the loss that no hub can be reached.
const LOST_AFTER_MS: u64 = 3_000;

/// A job that a worker works on.
struct Work {
    sidecar: usize,
    /// Of the process; the workers of a killed sidecar end with it.
    run: u64,
    job: usize,
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
    region: Region,
    work: BTreeMap<u64, Vec<Work>>,
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
            region: Region::new(),
            work: BTreeMap::new(),
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

    pub fn play(mut self, seconds: u64) -> Judged {
        for _ in 0..seconds {
            self.time.advance(Duration::from_millis(STEP_MS));
            self.now_ms += STEP_MS;
            self.turn_hub();
            if self.draw.below(15) == 0 {
                self.kill_a_sidecar();
            }
            self.carry_out_late();
            self.ask();
            self.arrive();
            self.end_work();
            self.fetch();
        }
        self.judge.end(&self.region, &self.quotas, self.now_ms)
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

    /// kill -9, with its workers; another process begins in its place.
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
            let it = &mut self.sidecars[at].0;
            match (self.hub.is_up, it.follows) {
                (true, false) if connects => it.follow(&self.quotas),
                (false, true) => it.lose(now_ms),
                _ => {}
            }
            if !it.follows {
                if it.lost_ms.is_none_or(|lost| lost + LOST_AFTER_MS <= now_ms) && !self.hub.is_up {
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
            // A tenant with a quota has more of them.
            let among = if self.draw.below(3) == 0 { TENANTS } else { 4 };
            let tenant = self.draw.below(among as u64) as usize;
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

    /// Workers end their jobs: most acknowledge them, by their own sidecar or by another one.
    fn end_work(&mut self) {
        let later = self.work.split_off(&(self.now_ms + 1));
        for work in std::mem::replace(&mut self.work, later).into_values().flatten() {
            let (sidecar, run) = &self.sidecars[work.sidecar];
            let fate = self.draw.below(20);
            if *run != work.run || fate == 0 {
                continue;
            }
            self.region.ack(work.job, self.now_ms);
            if fate > 1 {
                sidecar.ack(work.job);
            }
        }
    }

    fn fetch(&mut self) {
        let (now, remembers) = (self.now(), self.sabotage != Some(Sabotage::ForgetsLeases));
        for at in 0..SIDECARS {
            // Workers of a tenant are at every fifth sidecar.
            let tenant = (at + 5 * self.draw.below(TENANTS as u64 / 5) as usize) % TENANTS;
            let count = 1 + self.draw.below(4);
            let (sidecar, run) = &self.sidecars[at];
            let jobs = sidecar.fetch(&mut self.region, (tenant, count), (now, self.now_ms), remembers);
            let quota = self.quotas.iter().find(|it| it.tenant == name(tenant));
            let active = self.region.active(tenant, self.now_ms);
            self.judge.fetched(tenant, active, quota, self.now_ms);
            for job in jobs {
                let ends_ms = self.now_ms + 1_000 + 1_000 * self.draw.below(15);
                self.work.entry(ends_ms).or_default().push(Work { sidecar: at, run: *run, job });
            }
        }
    }
}
