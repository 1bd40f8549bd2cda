//! Jobs and fetches: where they go, and what becomes of them.

use std::time::Instant;

use ojs_sidecar::base::Draw;
use ojs_sidecar::policy::{
    Answer, Ending, GuardClass, Health, Inputs, Job, Outcome, Pays, Progress, Step, classify_enqueue, next, route,
};

use super::{Event, Run, Sim};
use crate::region::Reply;
use crate::scenario::Sabotage;

impl Sim {
    pub(super) fn arrive(&mut self, sidecar: usize) {
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
        let inputs = Inputs { now, draw: Draw::from_seed(seed), turn: seed, live: &it.traffic, drill: &0 };
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

    pub(super) fn send(&mut self, sidecar: usize, run: Box<Run>) {
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

    pub(super) fn ended(&mut self, sidecar: usize, mut run: Box<Run>, reply: Reply) {
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
        let progress = Progress { pinned, redirects_done: run.redirects, candidates_left: left.len(), late: false };
        let to = left.first().and_then(|&place| run.decision.candidates.get(place)).copied();
        let step = match to {
            Some(_) if self.scenario.sabotage == Some(Sabotage::PaysFreely) => next(ending, progress, &Free, || now),
            Some(to) => next(ending, progress, &it.budgets.toward(to), || now),
            None => next(ending, progress, &Free, || now),
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

    pub(super) fn answer(&mut self, sidecar: usize, run: &Run, region: usize, reply: Reply) {
        self.answered += 1;
        if reply == Reply::Status(201, false) {
            self.confirmed += 1;
            self.sidecars[sidecar].traffic.sent[region] += 1;
            self.ledger.confirmed(run.job, region);
        }
    }

    pub(super) fn fetch(&mut self, sidecar: usize) {
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
}

/// Pays whatever is asked.
struct Free;

impl Pays for Free {
    fn try_withdraw(&self, _: Instant) -> bool {
        true
    }
}
