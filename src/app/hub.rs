//! The connection of this sidecar to its hub.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::notes::Notes;
use super::world::World;
use crate::base::Draw;
use crate::config::{ClientListen, Config, effective};
use crate::fleet::{Link, NAME_BYTES_MAX, Status};
use crate::outcome::State;
use crate::proxy::Shared;
use crate::switch::{RegionSet, region_sets};

/// The subject of its note in `/readyz`.
const ABOUT: &str = "hub";
/// Sets of regions in a status: the smallest ones, which switches leave without a region first.
const SETS_MAX: usize = 256;

/// Starts to follow the hub of the configuration. Without one, the switches of an earlier hub end.
pub(super) fn follow_hub(loops: &mut JoinSet<()>, shared: &Arc<Shared>, world: &World, notes: &Notes, draw: Draw) {
    let Some(config) = shared.config.hub.clone() else {
        notes.clear(ABOUT);
        shared.journal.forget_hub();
        return;
    };
    let (of_status, notes) = (Arc::clone(shared), notes.clone());
    let status = status(shared, world);
    let link = Link {
        config,
        journal: Arc::clone(&shared.journal),
        metrics: Arc::clone(&shared.metrics),
        on_state: Box::new(move |state| match state {
            Ok(()) => notes.clear(ABOUT),
            Err(why) => {
                notes.set(ABOUT, format!("not connected, and what it has set stays in force until it ends: {why}"));
            }
        }),
        status: Box::new(move || {
            let journal = &of_status.journal;
            Status {
                applied: journal.hub().version,
                unknown: journal.count(State::Unknown),
                watched: journal.count(State::Watched),
                ..status.clone()
            }
        }),
        clock: world.clock.clone(),
        draw,
        resolver: Arc::clone(&world.resolver),
        applied: Notify::new(),
    };
    loops.spawn_local(link.run());
}

/// The part of the status that lasts as long as the configuration.
fn status(shared: &Shared, world: &World) -> Status {
    let config = &shared.config;
    let age = u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Status {
        name: name(config),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        local_region: config.local_region.clone(),
        federation_id: config.federation_id.clone(),
        config_digest: HEXLOWER.encode(digest(&SHA256, effective(config).as_bytes()).as_ref()),
        started_unix_ms: world.clock.unix_ms().saturating_sub(age),
        applied: shared.journal.hub().version,
        region_sets: smallest(region_sets(config)),
        unknown: 0,
        watched: 0,
    }
}

fn smallest(mut sets: Vec<RegionSet>) -> Vec<RegionSet> {
    if sets.len() > SETS_MAX {
        sets.sort_by_key(|set| set.regions.len());
        sets.truncate(SETS_MAX);
    }
    sets
}

/// `hub.name`, or the host and the port of the first client listener, so that two sidecars of one machine differ.
fn name(config: &Config) -> String {
    if let Some(name) = config.hub.as_ref().and_then(|hub| hub.name.clone()) {
        return name;
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".to_owned());
    let listener = match config.listen.clients.first() {
        Some(ClientListen::Tcp { address, .. }) => address.port().to_string(),
        Some(ClientListen::Unix { path }) => path.display().to_string(),
        None => "none".to_owned(),
    };
    let name = format!("{}:{listener}", host.trim());
    name.chars().filter(char::is_ascii_graphic).take(NAME_BYTES_MAX).collect()
}
