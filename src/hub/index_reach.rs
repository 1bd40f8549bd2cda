//! The regions that the index of a hub needs to reach, by its settings.

use super::index_settings::{ConflictMode, IndexSettings};
use crate::base::RegionId;
use crate::config::Config;

/// The settings that need regions which this hub does not list, each beginning with its key.
pub(super) fn unreachable(index: &IndexSettings, probing: Option<&Config>) -> Vec<String> {
    let regions: Vec<&RegionId> = probing.iter().flat_map(|it| &it.regions).map(|it| &it.id).collect();
    let conflicts = uncancellable(index, &regions).map(|mistake| format!("index.conflicts: {mistake}"));
    let events = unheard(index, &regions).map(|mistake| format!("index.events: {mistake}"));
    conflicts.into_iter().chain(events).collect()
}

/// Why event streams cannot be read, where they are to be.
fn unheard(index: &IndexSettings, regions: &[&RegionId]) -> Option<String> {
    let region = &index.region;
    let is_missing = index.events.is_some() && !regions.contains(&region);
    is_missing.then(|| {
        format!("expected `regions` with {region}, of which this hub reads the event streams: list it, or leave `events` out")
    })
}

/// Why copies cannot be cancelled, where they are to be.
fn uncancellable(index: &IndexSettings, regions: &[&RegionId]) -> Option<String> {
    if index.conflicts != ConflictMode::Cancel {
        return None;
    }
    let region = &index.region;
    if !regions.contains(&region) {
        return Some(format!(
            "cancel needs `regions` with {region}, where this hub cancels copies: list it, or set report"
        ));
    }
    let is_source = |it: &RegionId| index.from.iter().any(|source| source.region == *it);
    let unheard = regions.iter().find(|it| ***it != index.region && !is_source(it))?;
    Some(format!(
        "cancel needs the hub of each of the `regions` in `index.from`, because each may have the copy that counts: add that of {unheard}, or set report"
    ))
}
