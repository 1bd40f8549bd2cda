//! The connection of this sidecar to its hub.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::notes::Notes;
use super::restarted::restarted;
use super::world::World;
use crate::api::outcome_row;
use crate::config::{ClientListen, Config, FleetLimit, HubConfig, LoadSource, PoolConfig, RegionConfig, effective};
use crate::fleet::{
    Granting, Lease, Limited, Link, NAME_BYTES_MAX, OnState, Pooled, QUEUES_MAX, Quoting, REPORT_BYTES_MAX,
    REPORTS_BYTES_MAX, REPORTS_MAX, Report, Reports, SET_MEMBERS_MAX, Slotting, Status,
};
use crate::outcome::{Placement, State};
use crate::policy::Figures;
use crate::proxy::{Random, Shared};
use crate::region::views::{HubViews, Trust};
use crate::switch::{RegionSets, Switches};
use crate::telemetry::event;

/// The subject of its note in `/readyz`.
const ABOUT: &str = "hub";
/// The subject of the note about the loss of a spoke's hub, and the note.
const ABOUT_CUT: &str = "hub-spoke";
/// The subject of the note about workers that get no jobs without the hub, and the note.
const ABOUT_FETCH: &str = "hub.fetch";
const FETCH_NOTE: &str = "the hub is not heard, and workers get no jobs until it is";
const CUT_NOTE: &str =
    "the hub is not heard, and nothing is sent to other regions until it is: jobs for them are 503 hub_unavailable";
/// The subject of the note about fleet limits.
const ABOUT_GRANTS: &str = "limits.fleet";
/// The members of a report beside its row, and those of the request, are shorter. Units: bytes.
const REPORT_HEAD_BYTES: usize = 256;

/// Between two looks for answers that no report has read: without a connection they neither pile up nor stay, with the arguments in them.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Starts to follow the hub of the configuration, if it names one.
pub(super) fn follow_hub(
    loops: &mut JoinSet<()>,
    shared: &Arc<Shared>,
    world: &World,
    notes: &Notes,
    views: Option<&Rc<HubViews>>,
) {
    [ABOUT, ABOUT_GRANTS].iter().for_each(|about| notes.clear(about));
    shared.metrics.hub_connected.set(0);
    shared.metrics.hub_switches_unknown.set(0);
    if shared.config.hub.is_none()
        && let Some((id, region)) = shared.drills.end(&shared.registry)
    {
        event::drill_ended(&shared.metrics, &id, region.as_str(), "hub_lost");
    }
    let lease = lease(shared, notes);
    if let Some(lease) = lease.clone() {
        loops.spawn_local(restarted(world.clock.clone(), move || {
            let lease = Rc::clone(&lease);
            async move { lease.watch().await }
        }));
    }
    if shared.config.hub.as_ref().is_some_and(|hub| hub.report_jobs) {
        let (outbox, clock) = (Arc::clone(&shared.outbox), world.clock.clone());
        loops.spawn_local(restarted(world.clock.clone(), move || {
            let (outbox, clock) = (Arc::clone(&outbox), clock.clone());
            async move {
                loop {
                    clock.sleep(READ_EVERY).await;
                    outbox.read_answers();
                }
            }
        }));
    }
    if let Some(config) = shared.config.hub.clone() {
        let (status, views) = (status(shared), views.cloned());
        let (shared, world, notes, clock) = (Arc::clone(shared), world.clone(), notes.clone(), world.clock.clone());
        loops.spawn_local(restarted(clock, move || {
            link(&shared, &world, &notes, &config, &status, (views.clone(), lease.clone())).run()
        }));
    }
}

/// The lease of the hub's word, where its end has an effect, with the state that it begins in shown.
fn lease(shared: &Shared, notes: &Notes) -> Option<Rc<Lease>> {
    let (metrics, notes) = (Arc::clone(&shared.metrics), notes.clone());
    let (is_spoke, fetches_when_heard) = (shared.config.is_spoke(), shared.config.fetches_when_heard());
    let show = move |is_lost: bool| {
        for (is_shown, gauge, about, note) in [
            (is_spoke, &metrics.hub_cut_off, ABOUT_CUT, CUT_NOTE),
            (fetches_when_heard, &metrics.hub_fetch_waits, ABOUT_FETCH, FETCH_NOTE),
        ] {
            gauge.set(i64::from(is_lost && is_shown));
            if is_lost && is_shown {
                notes.set(about, note.to_owned());
            } else {
                notes.clear(about);
            }
        }
    };
    show(shared.registry.view().is_hub_lost());
    let lasts = shared.config.hub.as_ref().filter(|_| is_spoke || fetches_when_heard)?.lease;
    let on_turn = move |is_lost| {
        show(is_lost);
        if is_spoke {
            event::hub_cut_off(is_lost, lasts);
        }
        if fetches_when_heard {
            event::hub_fetch_waits(is_lost, lasts);
        }
    };
    Some(Rc::new(Lease::new(Arc::clone(&shared.registry), lasts, Box::new(on_turn))))
}

/// The views of the hub, where the configuration uses them.
pub(super) fn hub_views(shared: &Shared, random: &Random) -> Option<Rc<HubViews>> {
    let (registry, traffic) = (Arc::clone(&shared.registry), Arc::clone(&shared.traffic));
    let trusts = |region: &RegionConfig| Trust::of(&shared.config, region) != Trust::Never;
    let is_used = shared.config.regions.iter().any(trusts);
    is_used.then(|| Rc::new(HubViews::new(&shared.config, registry, traffic, random.draw())))
}

fn link(
    shared: &Arc<Shared>,
    world: &World,
    notes: &Notes,
    config: &HubConfig,
    status: &Status,
    (views, lease): (Option<Rc<HubViews>>, Option<Rc<Lease>>),
) -> Link {
    let has_views = views.is_some();
    let (of_status, status) = (Arc::clone(shared), status.clone());
    let keys_ttl = shared.config.idempotency.ttl;
    let reports = reports(shared, status.name.clone(), status.started_unix_ms);
    Link {
        config: config.clone(),
        journal: Arc::clone(&shared.journal),
        metrics: Arc::clone(&shared.metrics),
        on_state: noted(notes, ABOUT),
        on_grants: noted(notes, ABOUT_GRANTS),
        status: Box::new(move || {
            let journal = &of_status.journal;
            Status {
                applied: journal.hub().version,
                own_switches: journal.own_switches(),
                unknown: journal.count(State::Unknown),
                watched: journal.count(State::Watched),
                queues: if has_views { queues(&of_status) } else { Vec::new() },
                ..status.clone()
            }
        }),
        reports: Box::new(reports),
        granting: granting(shared),
        breakers: Arc::clone(&shared.breakers),
        slotting: Slotting::new(Arc::clone(&shared.quotas), Arc::clone(&shared.journal)),
        quoting: Rc::new(Quoting::new(Arc::clone(&shared.quotas), world.clock.now())),
        outbox: config.report_jobs.then(|| Arc::clone(&shared.outbox)),
        bodies: (!shared.replicated.is_empty()).then(|| Arc::clone(&shared.bodies)),
        index: Arc::clone(&shared.index),
        store: Arc::clone(&shared.store),
        figures: figures(shared),
        fleet_figures: Arc::clone(&shared.fleet_figures),
        questions: shared.asking.as_ref().map(|asking| Arc::clone(&asking.questions)),
        drills: Arc::clone(&shared.drills),
        registry: Arc::clone(&shared.registry),
        lags: Arc::clone(&shared.lags),
        keys_ttl,
        clock: world.clock.clone(),
        draw: Random::default().draw(),
        resolver: Arc::clone(&world.resolver),
        replica: Cell::new(0),
        views,
        discovered: shared.config.discovery.as_ref().filter(|it| it.hub).map(|_| Arc::clone(&shared.discovered)),
        named: RefCell::default(),
        lease,
        applied: Notify::new(),
        unknown: RefCell::default(),
        causes: RefCell::default(),
    }
}

/// Keeps the last sentence about a subject among the notes.
fn noted(notes: &Notes, about: &'static str) -> OnState {
    let notes = notes.clone();
    Box::new(move |note| match note {
        None => notes.clear(about),
        Some(note) => {
            notes.set(about, note.to_owned());
        }
    })
}

/// The figures of the pools, where there are some.
fn figures(shared: &Arc<Shared>) -> Option<Box<dyn Fn() -> Figures>> {
    let of_figures = Arc::clone(shared);
    (!shared.pools.is_empty()).then(|| Box::new(move || of_figures.figures()) as Box<dyn Fn() -> Figures>)
}

/// The outcomes behind a revision, as the hub gets them.
fn reports(shared: &Arc<Shared>, sidecar: String, started_unix_ms: u64) -> impl Fn(u64) -> Reports + use<> {
    let shared = Arc::clone(shared);
    move |after| {
        let mut left = REPORTS_BYTES_MAX;
        let found = shared.journal.outcomes_after(after, REPORTS_MAX);
        let report = |(revision, it): &(u64, Placement)| {
            let (number, state) = (it.number, it.state().as_str().to_owned());
            let row = outcome_row(&shared.journal, it);
            let is_long = row.to_string().len() > REPORT_BYTES_MAX;
            let row = if is_long { json!({ "id": number.to_string(), "state": state }) } else { row };
            Report { number, revision: *revision, state, row }
        };
        let fits = |it: &Report| {
            let rest = left.checked_sub(it.row.to_string().len() + REPORT_HEAD_BYTES);
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let reports = found.iter().map(report).take_while(fits).collect();
        Reports { sidecar: sidecar.clone(), started_unix_ms, reports }
    }
}

/// The fleet limits and the pools of the fleet in the configuration, in force at the calls of this sidecar.
fn granting(shared: &Shared) -> Granting {
    let (config, regions) = (&shared.config, shared.registry.regions());
    let limited = |limit: &FleetLimit| {
        let region = regions.iter().find(|region| region.id == limit.region)?;
        Some(Limited::new(limit.region.clone(), limit.on_hub_loss, Arc::clone(shared.concurrency.grant(region.index))))
    };
    let pooled = |pool: &PoolConfig| {
        let known = shared.pools.all().find(|it| **it.name() == *pool.name)?;
        let (fleet, most) = (pool.fleet.as_ref()?, pool.concurrency?);
        let bounds = (fleet.on_hub_loss, most, fleet.longest_lease);
        Some(Pooled::new(Arc::clone(known.name()), bounds, Arc::clone(known.grant()?), Arc::clone(&shared.journal)))
    };
    let pools = config.scheduling.pools.iter().filter_map(pooled).collect();
    Granting::new(config.fleet_limits.iter().filter_map(limited).collect(), pools, config.limits.call_timeout)
}

/// The queues in use, where the sidecar routes by their load.
fn queues(shared: &Shared) -> Vec<String> {
    if shared.config.load.source != LoadSource::Queue {
        return Vec::new();
    }
    let most = shared.config.load.queues_max.min(QUEUES_MAX);
    let is_sharded = |queue: &str| shared.shards.as_deref().is_some_and(|shards| shards.queue(queue).is_some());
    // A hub knows of no shards: a queue with shards is polled here.
    shared.traffic.queues().iter().filter(|queue| !is_sharded(queue)).take(most).map(ToString::to_string).collect()
}

/// The part of the status that lasts as long as the configuration.
fn status(shared: &Shared) -> Status {
    let config = &shared.config;
    Status {
        name: name(config),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        local_region: config.local_region.clone(),
        federation_id: config.federation_id.clone(),
        config_digest: HEXLOWER.encode(digest(&SHA256, effective(config).as_bytes()).as_ref()),
        started_unix_ms: shared.journal.opened_unix_ms(),
        applied: shared.journal.hub().version,
        region_sets: RegionSets::of(config).smallest(SET_MEMBERS_MAX),
        own_switches: Switches::default(),
        unknown: 0,
        watched: 0,
        queues: Vec::new(),
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
