//! The budgets of all regions beside the overall one: a redirect is paid for twice.
//!
//! The overall budget bounds the redirects of the federation, the budget of the redirect's target bounds those to one
//! region: without it, all redirects of an outage could meet in the last healthy region. Each is one compare-exchange.

use std::sync::Arc;
use std::time::Instant;

use super::budget::{Pays, RetryBudget};
use crate::config::Failover;
use crate::policy::index::RegionIndex;

/// One budget for all redirects, and one for each region that they go to; shared by all worker threads.
#[derive(Debug)]
pub struct Budgets {
    overall: Arc<RetryBudget>,
    regions: Box<[Arc<RetryBudget>]>,
}

/// The budgets as a redirect to one region sees them.
#[derive(Debug, Clone, Copy)]
pub struct Toward<'b> {
    budgets: &'b Budgets,
    region: RegionIndex,
}

impl Budgets {
    /// Full budgets for so many regions.
    #[must_use]
    pub fn new(config: &Failover, regions: usize, now: Instant) -> Self {
        let budget = || Arc::new(RetryBudget::new(config, now));
        Self { overall: budget(), regions: (0..regions).map(|_| budget()).collect() }
    }

    /// The budgets of a new configuration with the same rates: `known_as` gives for each of its regions its index here.
    /// Balances are shared with these, so that calls in progress pay from them; a new region begins full.
    #[must_use]
    pub fn carried_over(
        &self,
        config: &Failover,
        known_as: impl Iterator<Item = Option<RegionIndex>>,
        now: Instant,
    ) -> Self {
        let known = |index: Option<RegionIndex>| self.regions.get(index?.get()).cloned();
        let budget = |index| known(index).unwrap_or_else(|| Arc::new(RetryBudget::new(config, now)));
        Self { overall: Arc::clone(&self.overall), regions: known_as.map(budget).collect() }
    }

    /// Pays in the share of one request, which is first tried at `region`.
    pub fn deposit(&self, region: RegionIndex) {
        self.overall.deposit();
        if let Some(budget) = self.regions.get(region.get()) {
            budget.deposit();
        }
    }

    /// The budgets that a redirect to `region` draws on.
    #[must_use]
    pub const fn toward(&self, region: RegionIndex) -> Toward<'_> {
        Toward { budgets: self, region }
    }

    /// The budget over all regions.
    #[must_use]
    pub fn overall(&self) -> &RetryBudget {
        &self.overall
    }

    /// The budget of one region.
    #[must_use]
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests"))]
    pub fn of(&self, region: RegionIndex) -> Option<&RetryBudget> {
        self.regions.get(region.get()).map(Arc::as_ref)
    }
}

impl Pays for Toward<'_> {
    fn try_withdraw(&self, now: Instant) -> bool {
        let Some(region) = self.budgets.regions.get(self.region.get()) else { return false };
        if !region.try_withdraw(now) {
            return false;
        }
        let paid = self.budgets.overall.try_withdraw(now);
        if !paid {
            region.give_back();
        }
        paid
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::testing;

    const A: RegionIndex = RegionIndex::new(0);
    const B: RegionIndex = RegionIndex::new(1);

    fn budgets(now: Instant) -> Budgets {
        Budgets::new(&testing::config(&["a", "b"]).failover, 2, now)
    }

    #[test]
    fn a_redirect_needs_a_token_of_the_region_it_goes_to_and_one_of_all() {
        let now = Instant::now();
        let budgets = budgets(now);
        assert!((0..30).all(|_| budgets.toward(A).try_withdraw(now)));
        assert!(!budgets.toward(A).try_withdraw(now));
        assert!(!budgets.toward(B).try_withdraw(now), "nothing is left overall");
        assert_eq!(budgets.of(B).map(|budget| budget.available(now)), Some(30), "what was not used is given back");
    }

    #[test]
    fn balances_are_carried_over_to_the_same_region_at_another_place() {
        let now = Instant::now();
        let old = budgets(now);
        assert!((0..4).all(|_| old.toward(A).try_withdraw(now)) && old.toward(B).try_withdraw(now));
        let config = testing::config(&["a", "b"]).failover;
        let next = old.carried_over(&config, [None, Some(A)].into_iter(), now);
        let left = |index| next.of(index).map(|budget| budget.available(now));
        assert_eq!((left(A), left(B), next.overall().available(now)), (Some(30), Some(26), 25));
    }

    #[test]
    fn requests_pay_for_redirects_to_their_own_region_only() {
        let now = Instant::now();
        let budgets = budgets(now);
        while budgets.toward(A).try_withdraw(now) {}
        (0..50).for_each(|_| budgets.deposit(B));
        assert!(!budgets.toward(A).try_withdraw(now), "b has requests, a has none");
        assert!((0..10).all(|_| budgets.toward(B).try_withdraw(now)));
        assert!(!budgets.toward(B).try_withdraw(now), "a fifth of fifty requests");
    }

    proptest! {
        #[test]
        fn no_region_and_not_all_together_get_more_than_their_budget(
            steps in prop::collection::vec((0..500_u64, 0..2_usize, 0..6_u64, 0..6_u64), 1..200),
        ) {
            let start = Instant::now();
            let budgets = budgets(start);
            let (mut ms, mut requests, mut paid) = (0_u64, [0_u64; 2], [0_u64; 2]);
            for (wait, place, deposits, redirects) in steps {
                ms += wait;
                let region = RegionIndex::new(place);
                (0..deposits).for_each(|_| budgets.deposit(region));
                requests[place] += deposits;
                let now = start + std::time::Duration::from_millis(ms);
                paid[place] += (0..redirects).filter(|_| budgets.toward(region).try_withdraw(now)).count() as u64;
                let allowed = |requests: u64| 30_000 + 3 * ms + 200 * requests;
                prop_assert!(paid[place] * 1_000 <= allowed(requests[place]));
                prop_assert!((paid[0] + paid[1]) * 1_000 <= allowed(requests[0] + requests[1]));
            }
        }
    }
}
