//! Regions of which one must go on taking flexible jobs, and the switches that would leave none.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::set::{Switch, Switches};
use crate::base::{RegionId, SwitchKind};
use crate::config::Config;

/// Distinct sets that are looked for; a configuration with more of them has no use for the rest.
const DISTINCT_MAX: usize = 4_096;

/// One region of a [`RegionSet`], as the configuration alone has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRegion {
    /// The region.
    pub id: RegionId,
    /// Whether flexible jobs may begin or end there: its weight is not 0, and it is the local region or failover may enter it.
    pub open: bool,
    /// Whether it is the local region, where jobs begin: failover into it does not matter.
    pub local: bool,
}

impl SetRegion {
    /// Whether it takes flexible jobs under these switches.
    fn takes(&self, under: &Switches) -> bool {
        match under.of_region(&self.id) {
            Some(SwitchKind::Drain | SwitchKind::Evacuate | SwitchKind::Isolate) => false,
            Some(SwitchKind::Forbid) => self.open && self.local,
            Some(SwitchKind::Maintenance | SwitchKind::Pause | SwitchKind::Throttle) | None => self.open,
        }
    }
}

/// Regions that some flexible jobs are bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionSet {
    /// The key of the configuration that binds them.
    pub key: String,
    /// The regions.
    pub regions: Vec<SetRegion>,
}

/// The first of several sets that has the region of `set` and in which no region would take flexible jobs with the switches `after`. `None`
/// where no set is left so.
#[must_use]
pub fn stranded<'s>(sets: &'s [RegionSet], set: &Switch, after: &Switches) -> Option<&'s RegionSet> {
    let region = set.closed_region()?;
    let is_left =
        |it: &&RegionSet| it.regions.iter().any(|it| it.id == *region) && !it.regions.iter().any(|it| it.takes(after));
    sets.iter().find(is_left)
}

/// The sets of regions in a configuration: all regions, those of each routing rule and of each tenant, and those that a rule and a tenant both
/// permit. Sets that jobs name by tags (`ojs.federation.regions_with`) are unknown here.
#[derive(Debug)]
pub struct RegionSets {
    regions: Vec<SetRegion>,
    rules: Vec<Members>,
    tenants: Vec<Members>,
}

/// The members of a set: a bit for each place in the registry, which has at most 256 regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Members([u64; 4]);

impl Members {
    const NONE: Self = Self([0; 4]);

    fn of(places: impl Iterator<Item = usize>) -> Self {
        places.fold(Self::NONE, |mut all, place| {
            if let Some(word) = all.0.get_mut(place / 64) {
                *word |= 1 << (place % 64);
            }
            all
        })
    }

    fn has(self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
    }

    fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    fn len(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// The part of a configuration that makes a set.
#[derive(Debug, Clone, Copy)]
enum Source {
    All,
    Rule(usize),
    Tenant(usize),
    Both { tenant: usize, rule: usize },
}

impl Source {
    fn key(self) -> String {
        match self {
            Self::All => "regions".to_owned(),
            Self::Rule(rule) => format!("routing.rules[{rule}].target"),
            Self::Tenant(tenant) => format!("tenants[{tenant}].regions"),
            Self::Both { tenant, rule } => format!("tenants[{tenant}].regions and routing.rules[{rule}].target"),
        }
    }
}

impl RegionSets {
    /// The sets of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let regions = config.regions.iter().map(|region| {
            let local = region.id == config.local_region;
            let open = region.weight > 0 && (local || !config.failover.exclude_regions.contains(&region.id));
            SetRegion { id: region.id.clone(), open, local }
        });
        let place = |id: &RegionId| config.regions.iter().position(|region| region.id == *id);
        let members = |ids: &[RegionId]| Members::of(ids.iter().filter_map(place));
        Self {
            regions: regions.collect(),
            rules: config.routing.rules.iter().map(|rule| members(&rule.regions)).collect(),
            tenants: config.tenants.iter().map(|tenant| members(&tenant.regions)).collect(),
        }
    }

    /// Every set with members, equal ones several times.
    fn each(&self) -> impl Iterator<Item = (Source, Members)> {
        let all = std::iter::once((Source::All, Members::of(0..self.regions.len())));
        let rules = || self.rules.iter().copied().enumerate();
        let tenants = self.tenants.iter().copied().enumerate().flat_map(move |(tenant, its)| {
            let both = rules().map(move |(rule, members)| (Source::Both { tenant, rule }, its.and(members)));
            std::iter::once((Source::Tenant(tenant), its)).chain(both)
        });
        let of_rules = rules().map(|(rule, members)| (Source::Rule(rule), members));
        all.chain(of_rules).chain(tenants).filter(|(_, members)| *members != Members::NONE)
    }

    /// The key of the first set that has the region of `set` and in which no region would take flexible jobs with the switches `after`.
    #[must_use]
    pub fn stranded(&self, set: &Switch, after: &Switches) -> Option<String> {
        let place = self.regions.iter().position(|it| Some(&it.id) == set.closed_region())?;
        let takes = self.regions.iter().enumerate().filter(|(_, it)| it.takes(after));
        let taking = Members::of(takes.map(|(place, _)| place));
        let is_left = |members: Members| members.has(place) && members.and(taking) == Members::NONE;
        self.each().find(|(_, members)| is_left(*members)).map(|(source, _)| source.key())
    }

    /// All regions, then the other distinct sets, the smallest first: switches leave these without a region first. At most as many as have
    /// `members_max` regions together, but for the first set.
    #[must_use]
    pub fn smallest(&self, members_max: usize) -> Vec<RegionSet> {
        let mut seen = HashSet::new();
        let mut sets: Vec<_> = self.each().filter(|(_, it)| seen.insert(*it)).take(DISTINCT_MAX).collect();
        let mut further = sets.split_off(sets.len().min(1));
        further.sort_by_key(|(_, members)| members.len());
        let mut left = members_max;
        let fits = further.into_iter().take_while(|(_, members)| {
            let rest = left.checked_sub(members.len() as usize);
            left = rest.unwrap_or(left);
            rest.is_some()
        });
        sets.into_iter().chain(fits).map(|(source, members)| self.set(source, members)).collect()
    }

    fn set(&self, source: Source, members: Members) -> RegionSet {
        let regions = self.regions.iter().enumerate().filter(|(place, _)| members.has(*place));
        RegionSet { key: source.key(), regions: regions.map(|(_, it)| it.clone()).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Moment;
    use crate::switch::Order;

    fn region(id: &str) -> SetRegion {
        SetRegion { id: RegionId::parse(id).unwrap(), open: true, local: false }
    }

    fn drained(ids: &[&str]) -> (Switch, Switches) {
        let mut all = Switches::default();
        let switch = |id: &str| {
            let query = format!("switch=drain&region={id}&for=1h&reason=r&ticket=t&author=a");
            Order::read(&query, true).unwrap().switch(Moment(1), 1).unwrap()
        };
        ids.iter().for_each(|id| all.set(switch(id)));
        (switch(ids.last().unwrap()), all)
    }

    fn sets(rules: &[&[usize]], tenants: &[&[usize]]) -> RegionSets {
        let members = |all: &[&[usize]]| all.iter().map(|it| Members::of(it.iter().copied())).collect();
        let regions = ["a", "b", "c", "d"].map(region).to_vec();
        RegionSets { regions, rules: members(rules), tenants: members(tenants) }
    }

    #[test]
    fn a_place_beyond_the_bound_is_in_no_set() {
        let members = Members::of([255, 256, 1_000].into_iter());
        assert!(members.has(255) && !members.has(256) && !members.has(1_000));
        assert_eq!(members.len(), 1);
    }

    #[test]
    fn a_set_without_a_taking_region_is_named_by_its_key() {
        let all = sets(&[&[0, 1], &[]], &[&[1, 2]]);
        let left = |ids: &[&str]| {
            let (switch, after) = drained(ids);
            all.stranded(&switch, &after)
        };
        assert_eq!(left(&["a"]), None);
        assert_eq!(left(&["b"]).unwrap(), "tenants[0].regions and routing.rules[0].target");
        assert_eq!(left(&["b", "a"]).unwrap(), "routing.rules[0].target");
        assert_eq!(left(&["d", "c"]), None, "the set was left before, and has neither of them");
        let shown = all.smallest(100);
        let (switch, after) = drained(&["b", "a"]);
        assert_eq!(stranded(&shown, &switch, &after).unwrap().key, "routing.rules[0].target");
    }

    #[test]
    fn the_set_of_all_regions_is_kept_and_of_the_others_the_smallest() {
        let all = sets(&[&[0, 1, 2], &[3], &[1, 0, 2]], &[&[1, 2]]);
        let keys = |max| all.smallest(max).into_iter().map(|set| set.key).collect::<Vec<_>>();
        let (rule, tenant) = ("routing.rules[0].target", "tenants[0].regions");
        assert_eq!(keys(100), ["regions", "routing.rules[1].target", tenant, rule], "equal sets are named once");
        assert_eq!(keys(3), ["regions", "routing.rules[1].target", tenant]);
        assert_eq!(keys(0), ["regions"]);
    }
}
