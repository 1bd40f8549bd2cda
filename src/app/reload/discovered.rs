//! The discovered regions that can be put in force.

use crate::base::RegionId;
use crate::config::{Config, REGIONS_MAX, RegionConfig, RegionSource};
use crate::proxy::Shared;
use crate::region::{Region, SetupError};

/// The discovered regions, by their ids.
pub(super) struct Usable {
    /// Those that load; of one that does not, that of before.
    pub(super) regions: Vec<RegionConfig>,
    /// Why the others are not in force.
    pub(super) refused: Vec<String>,
}

/// The discovered regions without one of the file that has their id. One that does not load is in no other's way, and where there is
/// no room for all, those in force go first.
pub(super) fn usable(old: &Shared, config: &Config) -> Usable {
    let mut usable = Usable { regions: Vec::new(), refused: Vec::new() };
    let Some(discovery) = &config.discovery else { return usable };
    let of_file = || config.regions.iter().filter(|region| region.source == RegionSource::Static);
    let before = |id: &RegionId| old.config.regions.iter().find(|it| it.id == *id && it.source != RegionSource::Static);
    let discovered = old.discovered.in_force();
    for seen in discovered.iter().filter(|seen| of_file().all(|region| region.id != seen.id)) {
        let region = discovery.region(seen, &config.listen.credential_headers);
        let before = before(&seen.id);
        let load = if before == Some(&region) { Ok(()) } else { loaded(old, 0, &region).map(drop) };
        match load {
            Ok(()) => usable.regions.push(region),
            Err(error) => {
                usable.refused.push(error.to_string());
                usable.regions.extend(before.cloned());
            }
        }
    }
    let room = REGIONS_MAX.saturating_sub(of_file().count());
    usable.regions.sort_by_key(|region| before(&region.id).is_none());
    let beyond = usable.regions.split_off(usable.regions.len().min(room));
    let no_room = |region: RegionConfig| format!("region {}: there are {REGIONS_MAX} regions already", region.id);
    usable.refused.extend(beyond.into_iter().map(no_room));
    usable.regions.sort_by(|one, other| one.id.cmp(&other.id));
    usable
}

/// A region at its place, which keeps the state of the one before it.
pub(super) fn loaded(old: &Shared, place: usize, region: &RegionConfig) -> Result<Region, SetupError> {
    let known = old.registry.regions().iter().find(|known| known.id == region.id);
    known.map_or_else(|| Region::load(place, region), |known| known.successor(place, region))
}
