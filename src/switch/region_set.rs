//! Regions of which one must go on taking flexible jobs, and the switches that would leave none.

use serde::{Deserialize, Serialize};

use super::set::{Switch, Switches};
use crate::base::{RegionId, SwitchKind};
use crate::config::Config;

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

/// Regions that some flexible jobs are bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionSet {
    /// The key of the configuration that binds them.
    pub key: String,
    /// The regions.
    pub regions: Vec<SetRegion>,
}

impl RegionSet {
    /// Whether a region of the set takes flexible jobs under these switches.
    fn is_served(&self, under: &Switches) -> bool {
        self.regions.iter().any(|it| match under.of_region(&it.id) {
            Some(SwitchKind::Drain | SwitchKind::Evacuate) => false,
            Some(SwitchKind::Forbid) => it.open && it.local,
            Some(SwitchKind::Maintenance) | None => it.open,
        })
    }
}

/// The sets of a configuration: all regions, those of each routing rule and of each tenant, and those that a rule and a tenant both permit.
/// Equal sets are named once, by the first key.
///
/// Sets that jobs name by tags (`ojs.federation.regions_with`) are unknown here.
#[must_use]
pub fn region_sets(config: &Config) -> Vec<RegionSet> {
    let mut sets: Vec<RegionSet> = Vec::new();
    let mut add = |key: String, ids: &mut dyn Iterator<Item = &RegionId>| {
        let regions: Vec<SetRegion> = ids.map(|id| set_region(config, id)).collect();
        if !regions.is_empty() && !sets.iter().any(|set| set.regions == regions) {
            sets.push(RegionSet { key, regions });
        }
    };
    add("regions".to_owned(), &mut config.regions.iter().map(|region| &region.id));
    for (place, rule) in config.routing.rules.iter().enumerate() {
        add(format!("routing.rules[{place}].target"), &mut rule.regions.iter());
    }
    for (place, tenant) in config.tenants.iter().enumerate() {
        add(format!("tenants[{place}].regions"), &mut tenant.regions.iter());
        for (rule_place, rule) in config.routing.rules.iter().enumerate() {
            let key = format!("tenants[{place}].regions and routing.rules[{rule_place}].target");
            add(key, &mut rule.regions.iter().filter(|id| tenant.regions.contains(id)));
        }
    }
    sets
}

fn set_region(config: &Config, id: &RegionId) -> SetRegion {
    let weight = config.regions.iter().find(|region| region.id == *id).map_or(0, |region| region.weight);
    let local = *id == config.local_region;
    let open = weight > 0 && (local || !config.failover.exclude_regions.contains(id));
    SetRegion { id: id.clone(), open, local }
}

/// The first set that has the region of `set` and in which no region would take flexible jobs with the switches `after`. `None` where no set
/// is left so.
#[must_use]
pub fn stranded<'s>(sets: &'s [RegionSet], set: &Switch, after: &Switches) -> Option<&'s RegionSet> {
    let region = set.region.as_ref()?;
    sets.iter().find(|it| it.regions.iter().any(|it| it.id == *region) && !it.is_served(after))
}
