//! The jobs that a switch would leave without a region.

use super::set::Switches;
use crate::base::{RegionId, SwitchKind};
use crate::config::Config;

/// The first set of regions of which no region would take flexible jobs any more with the switches `after`, though one does with those
/// `before`: all regions, or those of a routing rule or of a tenant, by the key of the configuration. None where no set is left so.
#[must_use]
pub fn stranded(config: &Config, before: &Switches, after: &Switches) -> Option<String> {
    let takes = |switches: &Switches, id: &RegionId| {
        let weight = config.regions.iter().find(|region| region.id == *id).map_or(0, |region| region.weight);
        let is_shut = matches!(switches.of_region(id), Some(SwitchKind::Drain | SwitchKind::Evacuate));
        weight > 0 && !is_shut
    };
    let loses_all = |ids: &[RegionId]| {
        let any = |switches| ids.iter().any(|id| takes(switches, id));
        any(before) && !any(after)
    };
    let all: Vec<RegionId> = config.regions.iter().map(|region| region.id.clone()).collect();
    if loses_all(&all) {
        return Some("regions".to_owned());
    }
    let rule = config.routing.rules.iter().position(|rule| loses_all(&rule.regions));
    let tenant = || config.tenants.iter().position(|tenant| loses_all(&tenant.regions));
    rule.map(|at| format!("routing.rules[{at}].target")).or_else(|| tenant().map(|at| format!("tenants[{at}].regions")))
}
