//! All regions' states: the single place where results become verdicts.
//!
//! Pure: the registry holds it under its lock, hands it times and results, and publishes the view that it changes. A
//! simulation drives it in the same way without threads or sockets.

mod state;

use std::time::Instant;

use crate::config::Config;
use crate::policy::index::RegionIndex;
use crate::policy::machine::{Attempt, BreakerState, Permit, RequestOutcome, Suspicion};
use crate::policy::view::{RegionView, View};
use state::RegionState;
pub use state::{Change, Probe, Totals};

/// The states of all regions of one configuration.
#[derive(Debug)]
pub struct Keeper {
    states: Vec<RegionState>,
    suspicion: Suspicion,
}

impl Keeper {
    /// States in which nothing was probed yet.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let states: Vec<_> = config.regions.iter().map(|_| RegionState::new(config)).collect();
        Self { suspicion: Suspicion::new(states.len()), states }
    }

    /// Takes a region's state over from the keeper of the configuration before.
    pub fn adopt(&mut self, index: RegionIndex, from: &mut Self, known_as: RegionIndex, config: &Config) {
        if let (Some(state), Some(known)) = (self.states.get_mut(index.get()), from.states.get_mut(known_as.get())) {
            std::mem::swap(state, known);
            state.reconfigure(config);
        }
    }

    /// Leave to probe a region, if its breaker gives it.
    pub fn probe_permitted(&mut self, index: RegionIndex) -> Option<Permit> {
        self.states.get_mut(index.get())?.breaker.probe_permitted()
    }

    /// Leave to take another's view of a region for a probe: as [`Keeper::probe_permitted`], and none where our own requests opened the breaker.
    pub fn view_permitted(&mut self, index: RegionIndex) -> Option<Permit> {
        let breaker = &mut self.states.get_mut(index.get())?.breaker;
        if breaker.is_by_requests() { None } else { breaker.probe_permitted() }
    }

    /// Whether our own requests opened the breaker of a region.
    #[must_use]
    pub fn is_by_requests(&self, index: RegionIndex) -> bool {
        self.states.get(index.get()).is_some_and(|state| state.breaker.is_by_requests())
    }

    /// Leave to probe a region while its breaker is open, if that gives it already.
    pub fn early_probe_permitted(&mut self, now: Instant, index: RegionIndex) -> Option<Permit> {
        self.states.get_mut(index.get())?.breaker.early_probe_permitted(now)
    }

    /// From when on [`Keeper::early_probe_permitted`] gives leave; none while the breaker is not open.
    #[must_use]
    pub fn early_from(&self, index: RegionIndex) -> Option<Instant> {
        self.states.get(index.get())?.breaker.early_from()
    }

    /// Takes the result of a request without a class.
    pub fn on_request(
        &mut self,
        now: Instant,
        index: RegionIndex,
        outcome: RequestOutcome,
        view: &mut RegionView,
    ) -> Change {
        self.suspicion.on_result(index, now, outcome != RequestOutcome::Failure);
        if self.is_suspect() {
            return Change { heeds: Some(Change::ANY), ..Change::default() };
        }
        self.with(index, |state| state.on_request(now, outcome, view))
    }

    /// Takes the result of an attempt; `totals` hold it already.
    pub fn on_attempt(
        &mut self,
        now: Instant,
        index: RegionIndex,
        attempt: &Attempt,
        totals: &Totals,
        view: &mut RegionView,
    ) -> Change {
        // Any answer shows that our own network works.
        let ended = self.suspicion.on_result(index, now, attempt.status.is_some());
        if ended {
            self.states.iter_mut().for_each(RegionState::discard);
        }
        if self.is_suspect() {
            return Change { heeds: Some(Change::ANY), ..Change::default() };
        }
        self.with(index, |state| state.on_attempt(now, attempt, totals, view))
    }

    /// Takes the result of a probe.
    pub fn on_probe(
        &mut self,
        now: Instant,
        index: RegionIndex,
        permit: Permit,
        probe: Probe,
        view: &mut RegionView,
    ) -> Change {
        let answered = probe.healthy || probe.round_trip.is_some();
        if self.suspicion.on_result(index, now, answered) {
            self.states.iter_mut().for_each(RegionState::discard);
        }
        if self.is_suspect() {
            return Change::default();
        }
        self.with(index, |state| state.on_probe(now, permit, probe, view))
    }

    /// Takes the result of another's probe: it says nothing about our own network.
    pub fn on_view(
        &mut self,
        now: Instant,
        index: RegionIndex,
        permit: Permit,
        probe: Probe,
        view: &mut RegionView,
    ) -> Change {
        self.with(index, |state| state.on_view(now, permit, probe, view))
    }

    /// Takes whether anything was heard from a region when it was looked at, beside its probes and without a word to its breaker.
    pub fn on_look(&mut self, now: Instant, index: RegionIndex, heard: bool, view: &mut RegionView) -> Change {
        if self.suspicion.on_result(index, now, heard) {
            self.states.iter_mut().for_each(RegionState::discard);
        }
        if self.is_suspect() {
            return Change::default();
        }
        self.with(index, |state| state.on_look(now, heard, view))
    }

    /// Lets time act on a region.
    pub fn tick(&mut self, now: Instant, index: RegionIndex, totals: &Totals, view: &mut RegionView) -> Change {
        let suspect = self.is_suspect();
        self.with(index, |state| {
            if suspect {
                state.discard();
            }
            state.tick(now, totals, view)
        })
    }

    /// Whether time alone changes nothing in a region: nothing was counted lately, and nothing waits for its end.
    #[must_use]
    pub fn is_at_rest(&self, index: RegionIndex, totals: &Totals) -> bool {
        self.states.get(index.get()).is_some_and(|state| state.is_at_rest(totals))
    }

    /// Whether everything fails at once, so that our own network is worth a check; also while we suspect ourselves.
    #[must_use]
    pub fn wants_check(&self, now: Instant) -> bool {
        self.is_suspect() || self.failing_since(now).is_some()
    }

    /// Whether failures say nothing of regions.
    #[must_use]
    pub const fn is_suspect(&self) -> bool {
        self.suspicion.is_suspect()
    }

    /// Takes the result of a check of our own network. Where it made us suspect ourselves, the verdicts that fell in the same
    /// event are taken back, and the changes come with their regions.
    pub fn on_own_check(
        &mut self,
        now: Instant,
        passed: bool,
        view: &mut View,
    ) -> Option<(bool, Vec<(RegionIndex, Change)>)> {
        let since = self.failing_since(now);
        let suspect = self.suspicion.on_check(passed, since)?;
        let regions = self.states.iter_mut().zip(&mut view.regions).enumerate();
        let mut changes = Vec::new();
        for (place, (state, region)) in regions {
            match since.filter(|_| suspect) {
                Some(since) => changes.push((RegionIndex::new(place), state.revoke(since, region))),
                None => state.discard(),
            }
        }
        Some((suspect, changes))
    }

    fn failing_since(&self, now: Instant) -> Option<Instant> {
        let asked = |index: RegionIndex| {
            self.states.get(index.get()).is_some_and(|state| state.breaker.state() == BreakerState::Closed)
        };
        self.suspicion.failing_since(now, asked)
    }

    fn with(&mut self, index: RegionIndex, change: impl FnOnce(&mut RegionState) -> Change) -> Change {
        debug_assert!(index.get() < self.states.len(), "an index of another registry: {index:?}");
        self.states.get_mut(index.get()).map(change).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
