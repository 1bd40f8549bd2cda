//! Several jobs of one call: one region for all of them where possible, else a region for each part.
//!
//! Jobs that came together stay together where any region is permitted to all of them: flexible jobs follow the pinned ones.
//! Only where no such region exists is the call mixed.

use smallvec::SmallVec;

use super::plan::{Permitted, Plan, Sets, has_tags, tenant_of};
use crate::base::Strategy;
use crate::policy::error::RouteError;
use crate::policy::index::RegionIndex;
use crate::policy::job::Job;
use crate::policy::region_set::RegionSet;
use crate::policy::view::View;

/// The regions that one job may go to, in any state of those regions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// The regions that its own pin and the operator's rules permit.
    pub regions: RegionSet,
    /// Whether these are all that it may ever go to.
    pub pinned: bool,
    /// Whether the job names a strategy.
    pub named: bool,
    /// The home of the job's tenant, where that has one.
    pub home: Option<RegionIndex>,
}

impl Demand {
    /// The demand of a job.
    ///
    /// Errors: those of [`RouteError`] that are the client's fault.
    pub fn of(view: &View, job: &Job<'_>) -> Result<Self, RouteError> {
        let plan = Plan::of(view, job)?;
        let regions = view.indexes().filter(|&region| plan.permitted.contains(region)).collect();
        let home = tenant_of(view, job)?.and_then(|tenant| tenant.home);
        Ok(Self { regions, pinned: plan.pinned, named: job.affinity.is_some(), home })
    }

    /// Demands nothing.
    #[must_use]
    pub fn free(view: &View) -> Self {
        Self { regions: view.indexes().collect(), pinned: false, named: false, home: None }
    }

    /// Demands one region.
    #[must_use]
    pub fn only(region: RegionIndex) -> Self {
        Self { regions: std::iter::once(region).collect(), pinned: true, named: false, home: None }
    }

    /// Demands the regions that have all of these tags, as a job's `regions_with` names them.
    #[must_use]
    pub fn tagged(view: &View, tags: &str) -> Self {
        let regions = view.indexes().filter(|&region| has_tags(view, tags, region)).collect();
        Self { regions, pinned: false, named: false, home: None }
    }

    /// Demands the local region, and is not bound to it.
    #[must_use]
    pub fn local(view: &View) -> Self {
        Self { pinned: false, ..Self::only(view.local) }
    }

    /// Narrows this demand by another one.
    pub fn narrow(&mut self, other: &Self) {
        self.regions = self.regions.iter().filter(|&region| other.regions.contains(region)).collect();
        self.pinned |= other.pinned;
        self.home = self.home.or(other.home);
    }

    /// The home of the tenant, where it is one of the regions.
    #[must_use]
    pub fn home(&self) -> Option<RegionIndex> {
        self.home.filter(|home| self.regions.contains(*home))
    }

    /// Whether no region will do.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        self.regions.iter().next().is_none()
    }

    /// The region, where only one will do.
    #[must_use]
    pub fn single(&self) -> Option<RegionIndex> {
        let mut regions = self.regions.iter();
        regions.next().filter(|_| regions.next().is_none())
    }
}

/// Where several jobs go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Together {
    /// Some region will do for all.
    One {
        /// Their common demand.
        demand: Demand,
        /// The job whose strategy decides among the regions.
        leader: usize,
    },
    /// No region will do for all.
    Mixed(SmallVec<[Part; 4]>),
}

/// The jobs of a mixed call that go to one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where they go.
    pub region: RegionIndex,
    /// Which jobs, in order.
    pub members: Vec<usize>,
}

/// The job whose strategy decides for all: the first pinned one, else the first that names a strategy, else the first.
fn leader(demands: &[Demand]) -> usize {
    let first = |wanted: fn(&Demand) -> bool| demands.iter().position(wanted);
    first(|demand| demand.pinned).or_else(|| first(|demand| demand.named)).unwrap_or(0)
}

/// Joins the demands of several jobs. A job that fits into no part of a mixed call begins a part of its own, in the
/// region that `place` decides for it.
///
/// Errors: those of `place`.
pub fn together<E>(
    view: &View,
    demands: &[Demand],
    mut place: impl FnMut(usize) -> Result<RegionIndex, E>,
) -> Result<Together, E> {
    let mut all = Demand::free(view);
    for demand in demands {
        all.narrow(demand);
    }
    if !all.is_impossible() {
        return Ok(Together::One { demand: all, leader: leader(demands) });
    }
    let mut parts: SmallVec<[Part; 4]> = SmallVec::new();
    // Those that have no choice first, so that the others find company.
    for region in demands.iter().filter_map(Demand::single) {
        if parts.iter().all(|part| part.region != region) {
            parts.push(Part { region, members: Vec::new() });
        }
    }
    let fixed = parts.len();
    for (index, demand) in demands.iter().enumerate() {
        let company = company(view, &parts, fixed, demand);
        let region = match company {
            Some(region) => region,
            None => place(index)?,
        };
        match parts.iter_mut().find(|part| part.region == region) {
            Some(part) => part.members.push(index),
            None => parts.push(Part { region, members: vec![index] }),
        }
    }
    Ok(Together::Mixed(parts))
}

/// The part that a job joins: its only region's; else that of its tenant's home, and no other where it has one; else the local region's,
/// else the first that is permitted to it; none that is drained or cut off.
fn company(view: &View, parts: &[Part], fixed: usize, demand: &Demand) -> Option<RegionIndex> {
    if let Some(region) = demand.single() {
        return Some(region);
    }
    if let Some(home) = demand.home() {
        return parts.iter().map(|part| part.region).find(|region| *region == home);
    }
    let is_open = |region| !view.region(region).is_drained() && !view.region(region).is_cut_off;
    let fits = |part: &&Part| demand.regions.contains(part.region) && is_open(part.region);
    let local = parts.iter().take(fixed).filter(fits).find(|part| part.region == view.local);
    local.or_else(|| parts.iter().find(fits)).map(|part| part.region)
}

impl<'v> Plan<'v> {
    /// The plan of a job that goes with others: to regions that are permitted to all of them.
    pub(super) fn within(self, view: &View, demand: &'v Demand) -> Self {
        let inside = |region: Option<RegionIndex>| region.filter(|&region| demand.regions.contains(region));
        let is_free = view.indexes().all(|region| demand.regions.contains(region));
        Self {
            strategy: if demand.pinned { Strategy::PIN } else { self.strategy },
            pinned: demand.pinned,
            permitted: if is_free { Permitted::All } else { Permitted::Set(Sets::one(&demand.regions)) },
            local: self.local,
            home: inside(self.home),
            hint: inside(self.hint),
            hinted: inside(self.hinted),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::testing;

    fn regions(places: &[usize]) -> RegionSet {
        places.iter().map(|&place| RegionIndex::new(place)).collect()
    }

    fn demand(places: &[usize], pinned: bool) -> Demand {
        Demand { regions: regions(places), pinned, named: false, home: None }
    }

    fn view() -> View {
        View::unprobed(&testing::config(&["a", "b", "c", "d"]))
    }

    /// Where each job goes; alone it would go to the last region that is permitted to it.
    fn check_mixed(demands: &[Demand], expected: &[(usize, &[usize])]) {
        let place = |index: usize| Ok::<_, Infallible>(demands[index].regions.iter().last().unwrap());
        match together(&view(), demands, place).unwrap() {
            Together::Mixed(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| (part.region.get(), part.members.as_slice())).collect();
                assert_eq!(parts, expected, "{demands:?}");
            }
            one @ Together::One { .. } => panic!("{demands:?}: {one:?}"),
        }
    }

    fn check_one(demands: &[Demand], expected: &[usize], pinned: bool, led_by: usize) {
        let place = |index| -> Result<_, Infallible> { panic!("{index} is placed with the others") };
        match together(&view(), demands, place).unwrap() {
            Together::One { demand, leader } => {
                assert_eq!((demand.regions, demand.pinned, leader), (regions(expected), pinned, led_by), "{demands:?}");
            }
            mixed @ Together::Mixed(_) => panic!("{demands:?}: {mixed:?}"),
        }
    }

    #[test]
    fn jobs_stay_together_wherever_some_region_will_do_for_all() {
        let all = &[0, 1, 2, 3];
        check_one(&[], all, false, 0);
        check_one(&[demand(all, false), demand(all, false)], all, false, 0);
        check_one(&[demand(all, false), demand(&[2], true), demand(&[1, 2], false)], &[2], true, 1);
        check_one(&[demand(&[1, 2], false), demand(&[2, 3], false)], &[2], false, 0);
        let named = Demand { named: true, ..demand(all, false) };
        check_one(&[demand(all, false), named], all, false, 1);
    }

    #[test]
    fn a_mixed_call_has_one_part_for_each_pin_and_flexible_jobs_join_the_local_one_or_the_first() {
        let all = &[0, 1, 2, 3];
        check_mixed(&[demand(all, false), demand(&[2], true), demand(&[0], true)], &[(2, &[1]), (0, &[0, 2])]);
        check_mixed(&[demand(&[2], true), demand(all, false), demand(&[1], true)], &[(2, &[0, 1]), (1, &[2])]);
        check_mixed(&[demand(&[2], true), demand(&[0, 1], false), demand(&[1], true)], &[(2, &[0]), (1, &[1, 2])]);
    }

    #[test]
    fn a_job_without_company_goes_where_it_would_go_alone() {
        check_mixed(&[demand(&[2], true), demand(&[0, 1], false), demand(&[0, 1], false)], &[(2, &[0]), (1, &[1, 2])]);
        check_mixed(&[demand(&[0, 1], false), demand(&[2, 3], false)], &[(1, &[0]), (3, &[1])]);
    }

    #[test]
    fn a_job_whose_tenant_has_a_home_joins_that_part_or_goes_where_it_would_go_alone() {
        let of_tenant = |places: &[usize], home| Demand { home: Some(RegionIndex::new(home)), ..demand(places, false) };
        let (one, other) = (demand(&[0], true), demand(&[1], true));
        // Alone it would go to the last region that is permitted to it.
        check_mixed(&[of_tenant(&[0, 1, 3], 3), one.clone(), other.clone()], &[(0, &[1]), (1, &[2]), (3, &[0])]);
        check_mixed(&[of_tenant(&[0, 1, 3], 1), one.clone(), other.clone()], &[(0, &[1]), (1, &[0, 2])]);
        // Its pin, or a rule, leaves its home no choice.
        check_mixed(&[of_tenant(&[0, 1], 3), one, other], &[(0, &[0, 1]), (1, &[2])]);
    }

    proptest! {
        #[test]
        fn every_job_is_in_one_part_and_only_where_it_may_be(masks in proptest::collection::vec((1_u8..16, any::<bool>()), 0..12)) {
            let demands: Vec<Demand> = masks
                .iter()
                .map(|(mask, pinned)| demand(&(0..4).filter(|place| mask >> place & 1 == 1).collect::<Vec<_>>(), *pinned))
                .collect();
            let place = |index: usize| Ok::<_, Infallible>(demands[index].regions.iter().next().unwrap());
            match together(&view(), &demands, place).unwrap() {
                Together::One { demand: joint, .. } => {
                    prop_assert!(!joint.is_impossible());
                    prop_assert!(joint.regions.iter().all(|region| demands.iter().all(|it| it.regions.contains(region))));
                }
                Together::Mixed(parts) => {
                    let mut seen: Vec<usize> = parts.iter().flat_map(|part| part.members.iter().copied()).collect();
                    seen.sort_unstable();
                    prop_assert_eq!(seen, (0..demands.len()).collect::<Vec<_>>());
                    for part in &parts {
                        prop_assert!(part.members.is_sorted() && !part.members.is_empty());
                        prop_assert!(part.members.iter().all(|&member| demands[member].regions.contains(part.region)));
                        prop_assert_eq!(parts.iter().filter(|other| other.region == part.region).count(), 1);
                    }
                }
            }
        }
    }
}
