//! The regions that a job may go to, healthy or not.

use super::plan::{Permitted, Plan};
use crate::policy::index::RegionIndex;
use crate::policy::job::Job;
use crate::policy::view::View;

/// The regions that the rules and the tenant of a job permit: all of them, or some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermittedRegions {
    /// Every region, also one that is not registered.
    Every,
    /// These.
    Only(Vec<RegionIndex>),
}

/// The regions that a job may go to. None for a pinned job, for one that is refused by its attributes, and for one whose regions depend on
/// their state, which a hint of `geographic` over a pin does.
#[must_use]
pub fn permitted_regions(view: &View, job: &Job<'_>) -> Option<PermittedRegions> {
    let plan = Plan::of(view, job).ok().filter(|plan| !plan.pinned)?;
    match plan.permitted {
        Permitted::All => Some(PermittedRegions::Every),
        Permitted::Set(sets) => {
            Some(PermittedRegions::Only(view.indexes().filter(|region| sets.contains(*region)).collect()))
        }
        Permitted::One(_) | Permitted::Two(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::base::Strategy;
    use crate::config::{Config, Geographic, Matcher, Rule};
    use crate::policy::testing::{config, healthy, id, ids, plain};

    fn reach(change: impl FnOnce(&mut Config), job: &Job<'_>) -> Option<Vec<String>> {
        let mut config = config(&["us", "eu", "ap"]);
        change(&mut config);
        let view = healthy(&config);
        let name = |region: RegionIndex| view.region(region).id.as_str().to_owned();
        Some(match permitted_regions(&view, job)? {
            PermittedRegions::Every => vec!["*".to_owned()],
            PermittedRegions::Only(regions) => regions.into_iter().map(name).collect(),
        })
    }

    fn ruled(regions: &[&str], strategy: Option<Strategy>) -> impl Fn(&mut Config) {
        let rule = Rule { matcher: Matcher::default(), regions: ids(regions), strategy, ledger: None };
        move |config| config.routing.rules = vec![rule.clone()]
    }

    #[test]
    fn the_regions_of_a_job_are_those_of_its_rule_and_none_are_said_of_a_pinned_one() {
        let some = |regions: &[&str]| Some(regions.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        assert_eq!(reach(|_| {}, &plain()), some(&["*"]));
        assert_eq!(reach(ruled(&["ap", "eu"], None), &plain()), some(&["eu", "ap"]));
        assert_eq!(reach(ruled(&["ap", "eu"], Some(Strategy::GeoPin)), &plain()), None);
        assert_eq!(reach(|config| config.routing.strategy = Strategy::GeoPin, &plain()), None);
        for job in [Job { pin: Some("eu"), ..plain() }, Job { affinity: Some("nowhere"), ..plain() }] {
            assert_eq!(reach(|_| {}, &job), None);
        }
    }

    #[test]
    fn regions_that_depend_on_the_state_of_one_are_not_said() {
        let hinted = |config: &mut Config| {
            let regions = [("fr".to_owned(), id("eu"))].into_iter().collect();
            config.routing.geographic = Some(Geographic { meta_key: "country".to_owned(), regions });
        };
        let meta = |key: &str| (key == "country").then_some(Cow::Borrowed("fr")).into();
        let job = Job { affinity: Some("geographic"), meta: &meta, ..plain() };
        assert_eq!(reach(hinted, &job), Some(vec!["*".to_owned()]));
        let pinned = |config: &mut Config| {
            hinted(config);
            config.routing.strategy = Strategy::GeoPin;
        };
        assert_eq!(reach(pinned, &job), None);
    }
}
