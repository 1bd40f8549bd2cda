//! The connection of this sidecar to its hub.

use std::cell::Cell;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::notes::Notes;
use super::restarted::restarted;
use super::world::World;
use crate::config::{ClientListen, Config, HubConfig, effective};
use crate::fleet::{Link, NAME_BYTES_MAX, SET_MEMBERS_MAX, Status};
use crate::outcome::State;
use crate::proxy::{Random, Shared};
use crate::switch::RegionSets;

/// The subject of its note in `/readyz`.
const ABOUT: &str = "hub";
/// Starts to follow the hub of the configuration, if it names one.
pub(super) fn follow_hub(loops: &mut JoinSet<()>, shared: &Arc<Shared>, world: &World, notes: &Notes) {
    notes.clear(ABOUT);
    shared.metrics.hub_connected.set(0);
    if let Some(config) = shared.config.hub.clone() {
        let status = status(shared, world);
        let (shared, world, notes, clock) = (Arc::clone(shared), world.clone(), notes.clone(), world.clock.clone());
        loops.spawn_local(restarted(clock, move || link(&shared, &world, &notes, &config, &status).run()));
    }
}

fn link(shared: &Arc<Shared>, world: &World, notes: &Notes, config: &HubConfig, status: &Status) -> Link {
    let (of_status, notes, status) = (Arc::clone(shared), notes.clone(), status.clone());
    Link {
        config: config.clone(),
        journal: Arc::clone(&shared.journal),
        metrics: Arc::clone(&shared.metrics),
        on_state: Box::new(move |note| match note {
            None => notes.clear(ABOUT),
            Some(note) => {
                notes.set(ABOUT, note.to_owned());
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
        draw: Random::default().draw(),
        resolver: Arc::clone(&world.resolver),
        replica: Cell::new(0),
        applied: Notify::new(),
    }
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
        region_sets: RegionSets::of(config).smallest(SET_MEMBERS_MAX),
        unknown: 0,
        watched: 0,
    }
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
