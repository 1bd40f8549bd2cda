//! The discovery of regions on the control thread: looks at the sources, proofs, and the regions in force.
//!
//! The decision is [`Finder`]'s. Its regions in force go to the reloader, which makes it one set with the regions of the file.

mod cache;
mod directory;
mod dns;
mod hub;
mod looked;
mod prove;
mod regular;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::restarted::restarted;
use super::world::World;
use crate::admin::{Readiness, ReadinessGuard};
use crate::base::RegionId;
use crate::config::{DiscoveryConfig, RegionSource, Sighting};
use crate::proxy::Shared;
use crate::region::discovery::{
    Change, ChangeKind, Discovered, Finder, ProofFailure, Rejected, Rejection, Report, SOURCES, SourceReport,
};
use crate::telemetry::{DiscoveryChange, DiscoveryRejection, DiscoverySource, DiscoveryState, Metrics, event};
use looked::Looked;
use prove::{Answer, prove};

/// Handshakes at once.
const PROOFS: usize = 8;
/// Looks that wait to be taken in: one of each source.
const LOOKS: usize = 3;
/// Readiness waits so long for the regions of the last process.
const READY_WAIT: Duration = Duration::from_secs(10);

/// The loops of the discovery; dropped, they end. None where nothing is to be discovered.
pub(super) fn start(current: &Arc<ArcSwap<Shared>>, world: &World, readiness: &Readiness) -> Option<JoinSet<()>> {
    let shared = current.load();
    let config = shared.config.discovery.clone()?;
    let mut guard = Some(readiness.block("discovered regions of before"));
    let (current, world) = (Arc::clone(current), world.clone());
    let clock = world.clock.clone();
    let mut loops = JoinSet::new();
    let make = move || {
        let (tell, looks) = mpsc::channel(LOOKS);
        let discovery = Discovery::new(&config, Arc::clone(&current), world.clone(), guard.take());
        let sources = sources(&config, &current.load().discovered, &world, &tell);
        async move { discovery.run(looks, sources).await }
    };
    loops.spawn_local(restarted(clock, make));
    Some(loops)
}

/// The loops over the sources.
fn sources(
    config: &DiscoveryConfig,
    discovered: &Arc<Discovered>,
    world: &World,
    tell: &mpsc::Sender<Looked>,
) -> JoinSet<()> {
    let mut sources = JoinSet::new();
    if let Some(folder) = &config.directory {
        let watch = directory::watch(folder.clone(), config.interval, world.clock.clone(), tell.clone());
        sources.spawn_local(watch);
    }
    if config.hub {
        sources.spawn_local(hub::watch(Arc::clone(discovered), config.interval, world.clock.clone(), tell.clone()));
    }
    if let Some(dns) = &config.dns {
        sources.spawn_local(dns::watch(dns.clone(), config.interval, world.clock.clone(), tell.clone()));
    }
    sources
}

/// The trouble of a look that named regions and could not be read whole.
const PARTLY_READ: &str = "some of the answer could not be read; no region is taken out until all of it can";

struct Discovery {
    config: DiscoveryConfig,
    current: Arc<ArcSwap<Shared>>,
    world: World,
    finder: Finder,
    discovered: Arc<Discovered>,
    sources: Vec<SourceReport>,
    /// Turned away by the last look at each source, and, without a source, by proofs.
    rejected: Vec<(Option<RegionSource>, BTreeSet<Rejected>)>,
    /// The content of the file; none where that is not known.
    kept: Option<Vec<Sighting>>,
    /// After a failed write: when the next is tried.
    save_again: Option<Instant>,
    saving: Option<JoinHandle<Result<(), String>>>,
    /// Held until the regions of the last process were asked once, and the registry has those that have proved themselves.
    guard: Option<ReadinessGuard>,
}

impl Discovery {
    fn new(
        config: &DiscoveryConfig,
        current: Arc<ArcSwap<Shared>>,
        world: World,
        guard: Option<ReadinessGuard>,
    ) -> Self {
        let shared = current.load_full();
        let mut finder = Finder::new(config);
        finder.resume(&shared.discovered.in_force());
        let source = |source| SourceReport { source, good_unix_ms: None, trouble: None };
        let sources = SOURCES.into_iter().filter(|source| config.has(*source)).map(source).collect();
        Self {
            config: config.clone(),
            discovered: Arc::clone(&shared.discovered),
            current,
            world,
            finder,
            sources,
            rejected: Vec::new(),
            kept: None,
            save_again: None,
            saving: None,
            guard,
        }
    }

    /// Discovers for ever.
    async fn run(mut self, mut looks: mpsc::Receiver<Looked>, sources: JoinSet<()>) {
        let (clock, discovered) = (self.world.clock.clone(), Arc::clone(&self.discovered));
        let _sources = sources;
        let ready_by = clock.now() + READY_WAIT;
        self.restore().await;
        for report in &self.sources {
            // Without a first good look the age of the last one is that of the process.
            self.metrics().discovery.good_look[label(report.source)].set(seconds(clock.unix_ms()));
        }
        let mut proofs: JoinSet<(Sighting, Answer)> = JoinSet::new();
        loop {
            self.step(&mut proofs);
            let ready_by_then = self.guard.is_some().then_some(ready_by);
            let due = self.finder.next_due().into_iter().chain(ready_by_then).chain(self.save_again).min();
            tokio::select! {
                Some(looked) = looks.recv() => self.on_look(looked),
                Some(proved) = proofs.join_next(), if !proofs.is_empty() => self.on_proof(proved.ok()),
                () = discovered.taken(), if self.guard.is_some() => {}
                saved = finished(&mut self.saving) => self.on_saved(saved),
                () = async { match due {
                    Some(due) => clock.sleep_until(due).await,
                    None => std::future::pending().await,
                } } => {}
            }
            if clock.now() >= ready_by {
                self.guard = None;
            }
        }
    }

    fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.current.load().metrics)
    }

    /// Takes the regions of the last process.
    async fn restore(&mut self) {
        self.set_statics();
        let Some(path) = self.config.cache.clone() else { return };
        let config = self.config.clone();
        let read = tokio::task::spawn_blocking(move || cache::read(&path, &config)).await;
        match read.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(read) => {
                read.ignored.iter().for_each(|why| event::discovery_cache_ignored(why));
                self.finder.restore(read.sightings.clone());
                self.kept = read.ignored.is_empty().then_some(read.sightings);
            }
            Err(why) => event::discovery_cache_ignored(&why),
        }
    }

    fn set_statics(&mut self) -> bool {
        let asked = Arc::clone(&self.current.load().asked);
        self.finder.set_statics(asked.regions.iter().map(|region| region.id.clone()).collect::<BTreeSet<RegionId>>())
    }

    /// Everything that follows from the state of this moment.
    fn step(&mut self, proofs: &mut JoinSet<(Sighting, Answer)>) {
        let now = self.world.clock.now();
        let loses = self.set_statics();
        let changes = self.finder.apply(now);
        if loses || !changes.is_empty() {
            self.put_in_force(&changes);
        }
        for seen in self.finder.to_prove(now, PROOFS) {
            let shared = self.current.load();
            let region = self.config.region(&seen, &[]);
            let proof = prove(region, Arc::clone(&self.world.resolver), shared.config.limits.connect_timeout);
            proofs.spawn_local(async move { (seen, proof.await) });
        }
        self.save();
        if !self.finder.is_settling() && self.discovered.is_taken() {
            self.guard = None;
        }
        self.show();
    }

    fn put_in_force(&self, changes: &[Change]) {
        let metrics = self.metrics();
        for change in changes {
            let kind = match change.kind {
                ChangeKind::Added => DiscoveryChange::Added,
                ChangeKind::Changed => DiscoveryChange::Changed,
                ChangeKind::Removed => DiscoveryChange::Removed,
            };
            event::discovery_changed(&metrics, kind, change.id.as_str(), change.source.as_str());
        }
        self.discovered.set_in_force(self.finder.in_force());
    }

    fn on_look(&mut self, (source, looked): Looked) {
        let (metrics, unix_ms) = (self.metrics(), self.world.clock.unix_ms());
        // A look that could be read in no part names no region either.
        let trouble = match &looked {
            Ok(look) if look.sightings.is_empty() => Some("no record of it could be read".to_owned()),
            Ok(_) => None,
            Err(trouble) => Some(trouble.clone()),
        };
        if let Some(report) = self.sources.iter_mut().find(|report| report.source == source) {
            let had_failed = report.trouble.as_deref().is_some_and(|before| before != PARTLY_READ);
            let is_new = had_failed != trouble.is_some();
            event::discovery_looked(&metrics, label(source), trouble.as_deref(), is_new, seconds(unix_ms));
            if trouble.is_none() {
                report.good_unix_ms = Some(unix_ms);
            }
            let is_partial = matches!(&looked, Ok(look) if !look.is_complete);
            report.trouble = trouble.or_else(|| is_partial.then(|| PARTLY_READ.to_owned()));
        }
        let Ok(look) = looked else { return };
        let rejected = self.finder.on_look(self.world.clock.now(), &look);
        self.reject(Some(source), rejected);
    }

    /// Counts those that are turned away, with a line for each new one.
    fn reject(&mut self, by: Option<RegionSource>, rejected: BTreeSet<Rejected>) {
        let metrics = self.metrics();
        let place = self.rejected.iter().position(|(source, _)| *source == by);
        let before = place.map(|place| self.rejected.swap_remove(place).1).unwrap_or_default();
        for it in &rejected {
            event::discovery_rejected(&metrics, rejection(it.why), &it.about, !before.contains(it));
        }
        self.rejected.push((by, rejected));
    }

    fn on_proof(&mut self, proved: Option<(Sighting, Answer)>) {
        let Some((seen, answer)) = proved else { return };
        let now = self.world.clock.now();
        let place = self.rejected.iter().position(|(by, _)| by.is_none());
        let mut liars = place.map(|place| self.rejected[place].1.clone()).unwrap_or_default();
        let about = Rejected { why: Rejection::Identity, about: seen.id.to_string() };
        let is_new = !liars.contains(&about);
        match &answer {
            Err((ProofFailure::Identity, _)) => {
                event::discovery_rejected(&self.metrics(), DiscoveryRejection::Identity, seen.id.as_str(), is_new);
                liars.insert(about);
            }
            Err((ProofFailure::Unreachable, error)) => event::discovery_unproven(seen.id.as_str(), error),
            Ok(()) => {
                liars.remove(&about);
            }
        }
        self.finder.on_proof(now, &seen.id, &seen.url, answer.map_err(|(why, _)| why));
        let known: BTreeSet<String> = self.finder.report().into_iter().map(|it| it.id.to_string()).collect();
        liars.retain(|it| known.contains(&it.about));
        self.rejected.retain(|(by, _)| by.is_some());
        self.rejected.push((None, liars));
    }

    /// Writes the regions to know after a restart, where they have changed; one file at a time.
    fn save(&mut self) {
        let Some(path) = self.config.cache.clone().filter(|_| self.saving.is_none()) else { return };
        // A file that could not be read may be better than an empty one.
        let has_looked = self.sources.iter().any(|source| source.good_unix_ms.is_some());
        let keep = self.finder.to_keep();
        let is_early = self.save_again.is_some_and(|at| self.world.clock.now() < at);
        if !has_looked || is_early || self.kept.as_ref() == Some(&keep) {
            return;
        }
        self.save_again = None;
        let text = cache::write(&keep, &self.config);
        self.kept = Some(keep);
        self.saving = Some(tokio::task::spawn_blocking(move || cache::store(&path, &text)));
    }

    fn on_saved(&mut self, saved: Result<(), String>) {
        self.saving = None;
        if let Err(error) = saved {
            event::discovery_cache_failed("write", &error);
            self.kept = None;
            self.save_again = Some(self.world.clock.now() + self.config.interval);
        }
    }

    fn show(&self) {
        let regions = self.finder.report();
        let metrics = self.metrics();
        let in_force = regions.iter().filter(|region| region.url.is_some()).count();
        let figures = [
            (DiscoveryState::InForce, in_force),
            (DiscoveryState::Unproven, regions.len() - in_force),
            (DiscoveryState::Waiting, self.finder.waiting()),
        ];
        for (state, count) in figures {
            metrics.discovery.regions[state].set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.discovered.set_report(Report {
            regions,
            sources: self.sources.clone(),
            rejected: self.rejected.iter().flat_map(|(_, rejected)| rejected.iter().cloned()).collect(),
            waiting: self.finder.waiting(),
        });
    }
}

/// Resolves when the file is written; never where none is.
async fn finished(saving: &mut Option<JoinHandle<Result<(), String>>>) -> Result<(), String> {
    match saving {
        Some(saving) => saving.await.unwrap_or_else(|error| Err(error.to_string())),
        None => std::future::pending().await,
    }
}

const fn label(source: RegionSource) -> DiscoverySource {
    match source {
        RegionSource::Directory => DiscoverySource::Directory,
        RegionSource::Hub => DiscoverySource::Hub,
        RegionSource::Dns | RegionSource::Static => DiscoverySource::Dns,
    }
}

const fn rejection(why: Rejection) -> DiscoveryRejection {
    match why {
        Rejection::NotAllowed => DiscoveryRejection::NotAllowed,
        Rejection::Identity => DiscoveryRejection::Identity,
        Rejection::Malformed => DiscoveryRejection::Malformed,
        Rejection::Ambiguous => DiscoveryRejection::Ambiguous,
        Rejection::Full => DiscoveryRejection::Full,
        Rejection::Static => DiscoveryRejection::Static,
    }
}

fn seconds(unix_ms: u64) -> i64 {
    i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX)
}
