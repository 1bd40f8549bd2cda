//! The jobs that a switch would leave without a region.

use super::set::{Switch, Switches};
use crate::base::{RegionId, SwitchKind};
use crate::config::Config;

/// The first set of regions that has the region of `set` and of which no region would take flexible jobs with the switches `after`: all
/// regions, those of a routing rule or of a tenant, or those that a rule and a tenant both permit; by the key of the configuration. `None`
/// where no set is left so.
///
/// A region that no job fails over into counts only where jobs begin, which is the local region. Sets that jobs name by tags
/// (`ojs.federation.regions_with`) are unknown here.
#[must_use]
pub fn stranded(config: &Config, set: &Switch, after: &Switches) -> Option<String> {
    let region = set.region.as_ref()?;
    let takes = |id: &&RegionId| {
        let weight = config.regions.iter().find(|region| region.id == **id).map_or(0, |region| region.weight);
        let switch = after.of_region(id);
        let is_excluded = switch == Some(SwitchKind::Forbid) || config.failover.exclude_regions.contains(id);
        let is_shut = matches!(switch, Some(SwitchKind::Drain | SwitchKind::Evacuate));
        weight > 0 && !is_shut && (!is_excluded || **id == config.local_region)
    };
    let is_left = |ids: &mut dyn Iterator<Item = &RegionId>| {
        let ids: Vec<&RegionId> = ids.collect();
        ids.contains(&region) && !ids.iter().any(takes)
    };
    if is_left(&mut config.regions.iter().map(|region| &region.id)) {
        return Some("regions".to_owned());
    }
    for (place, rule) in config.routing.rules.iter().enumerate() {
        if is_left(&mut rule.regions.iter()) {
            return Some(format!("routing.rules[{place}].target"));
        }
    }
    for (place, tenant) in config.tenants.iter().enumerate() {
        if is_left(&mut tenant.regions.iter()) {
            return Some(format!("tenants[{place}].regions"));
        }
        for (rule_place, rule) in config.routing.rules.iter().enumerate() {
            if is_left(&mut rule.regions.iter().filter(|id| tenant.regions.contains(id))) {
                return Some(format!("tenants[{place}].regions and routing.rules[{rule_place}].target"));
            }
        }
    }
    None
}
