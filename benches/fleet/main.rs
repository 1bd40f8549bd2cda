//! One hub and many sidecars: `cargo bench --bench fleet`, or `cargo bench --bench fleet -- 200 10000` for these numbers of sidecars.
//!
//! The hub is the program, with a SQLite file. The sidecars are their links, the code that a sidecar runs towards its hub, in this process:
//! each has a TLS connection, a feed, a journal in memory, a status every ten seconds, and in one phase a report every two seconds. Prints a
//! table, and ends with an error where a switch takes more than two seconds at p99 to reach 200 sidecars.
//!
//! A number of sidecars needs as many descriptors in each of the two processes.

#![allow(unreachable_pub, reason = "modules of one program")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that prints, and fails loudly")]

mod hub;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ojs_sidecar::base::{Clock, RegionId};
use ojs_sidecar::config::{Config, Sources, load};
use ojs_sidecar::fleet::{Granting, Link, Quoting, Report, Reports, Slotting, Status};
use ojs_sidecar::journal::Journal;
use ojs_sidecar::net::resolve::SystemResolver;
use ojs_sidecar::proxy::Random;
use ojs_sidecar::telemetry::Metrics;
use tokio::sync::Notify;

use hub::{Hub, Stage};

/// Numbers of sidecars where the command names none.
const SIZES: [usize; 3] = [200, 2_000, 10_000];
/// How long a phase is measured.
const PHASE: Duration = Duration::from_secs(20);
/// Switches that are set one after the other.
const SWITCHES: usize = 5;
/// The promise for 200 sidecars.
const REACHES_WITHIN: Duration = Duration::from_secs(2);
/// How long anything may take until the bench gives up.
const PATIENCE: Duration = Duration::from_secs(300);

/// What all links share.
struct Fleet {
    config: Config,
    metrics: Arc<Metrics>,
    /// Whether each look for reports finds a new one.
    reports: Rc<Cell<bool>>,
    /// The reports that the hub has taken.
    taken: Rc<Cell<u64>>,
}

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    println!(
        "| sidecars | all follow after s | hub RSS MB | kB a sidecar | switch p50 ms | p99 ms | max ms | CPU at rest | reports a second | CPU with them |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(Default::default()).unwrap();
    for sidecars in sizes {
        runtime.block_on(measure(sidecars));
    }
}

async fn measure(sidecars: usize) {
    let stage = Stage::new();
    let hub = stage.run();
    let alone = hub.resident_kb();
    let fleet = Fleet::new(&stage);
    let begun = Instant::now();
    let links: Vec<_> = (0..sidecars).map(|number| fleet.start(number)).collect();
    until(|| hub.connected() == sidecars).await;
    let follow = begun.elapsed();
    let resident = hub.resident_kb();
    let mut delays = Vec::new();
    for _ in 0..SWITCHES {
        delays.extend(reached(&hub, &links).await);
    }
    delays.sort_unstable();
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let rest = cpu(&hub).await;
    fleet.reports.set(true);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = fleet.taken.get();
    let busy = cpu(&hub).await;
    let rate = (fleet.taken.get() - before) as f64 / PHASE.as_secs_f64();
    println!(
        "| {sidecars} | {:.1} | {:.1} | {:.1} | {} | {} | {} | {:.1} % | {rate:.0} | {:.1} % |",
        follow.as_secs_f64(),
        resident as f64 / 1024.0,
        (resident - alone) as f64 / sidecars as f64,
        at(0.5).as_millis(),
        at(0.99).as_millis(),
        at(1.0).as_millis(),
        rest * 100.0,
        busy * 100.0,
    );
    assert!(sidecars > 200 || at(0.99) <= REACHES_WITHIN, "a switch took {:?} at p99", at(0.99));
}

/// The share of a processor that the hub uses during a phase.
async fn cpu(hub: &Hub) -> f64 {
    let (used, begun) = (hub.cpu(), Instant::now());
    tokio::time::sleep(PHASE).await;
    (hub.cpu() - used).as_secs_f64() / begun.elapsed().as_secs_f64()
}

/// Sets a switch, and returns how long it took to be in the journal of each sidecar.
async fn reached(hub: &Hub, links: &[Arc<Journal>]) -> Vec<Duration> {
    let waits: Vec<_> = links
        .iter()
        .map(|journal| {
            let (journal, before) = (Arc::clone(journal), journal.hub().version);
            tokio::task::spawn_local(async move {
                while journal.hub().version == before {
                    journal.switched().await;
                }
                Instant::now()
            })
        })
        .collect();
    let begun = Instant::now();
    hub.order("drain", "r-1").await;
    let mut delays = Vec::with_capacity(links.len());
    for wait in waits {
        let arrived = tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
        delays.push(arrived - begun);
    }
    delays
}

async fn until(mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "it took too long");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Fleet {
    fn new(stage: &Stage) -> Self {
        let config = load(&Sources { files: vec![stage.sidecar()], ..Sources::default() }).unwrap().config;
        let regions: Vec<RegionId> = config.regions.iter().map(|region| region.id.clone()).collect();
        let (reports, taken) = (Rc::default(), Rc::default());
        Self { config, metrics: Metrics::new(&regions, &[]), reports, taken }
    }

    /// Starts a link, and returns the journal in which it keeps what it receives.
    fn start(&self, number: usize) -> Arc<Journal> {
        let clock = Clock::system();
        let journal = Arc::new(Journal::open(&self.config.journal, clock.clone(), Arc::clone(&self.metrics)));
        journal.set_follows_hub(true);
        let registry =
            ojs_sidecar::region::Registry::new(&self.config, Vec::new(), clock.clone(), Arc::clone(&self.metrics));
        let link = Link {
            config: self.config.hub.clone().unwrap(),
            journal: Arc::clone(&journal),
            metrics: Arc::clone(&self.metrics),
            on_state: Box::new(|_| ()),
            on_grants: Box::new(|_| ()),
            status: Box::new(self.status(number, &journal)),
            reports: Box::new(self.reports(number)),
            granting: Granting::default(),
            breakers: Arc::default(),
            quoting: Rc::new(Quoting::new(Arc::default(), clock.now())),
            slotting: Slotting::new(Arc::default(), Arc::clone(&journal)),
            clock,
            draw: Random::default().draw(),
            outbox: None,
            bodies: None,
            store: Arc::default(),
            index: Arc::default(),
            questions: None,
            lags: Arc::default(),
            drills: Arc::default(),
            registry: Arc::new(registry),
            figures: None,
            fleet_figures: Arc::default(),
            keys_ttl: Duration::from_secs(60),
            resolver: Arc::new(SystemResolver),
            replica: Cell::new(0),
            views: None,
            discovered: None,
            named: RefCell::default(),
            lease: None,
            applied: Notify::new(),
            unknown: RefCell::default(),
            causes: RefCell::default(),
        };
        tokio::task::spawn_local(link.run());
        journal
    }

    fn status(&self, number: usize, journal: &Arc<Journal>) -> impl Fn() -> Status + use<> {
        let (journal, local_region) = (Arc::clone(journal), self.config.local_region.clone());
        let region_sets = ojs_sidecar::switch::RegionSets::of(&self.config).smallest(64);
        move || Status {
            name: format!("pod-{number}"),
            version: "0.2.0".to_owned(),
            local_region: local_region.clone(),
            federation_id: "bench".to_owned(),
            config_digest: "0".repeat(64),
            started_unix_ms: 1,
            applied: journal.hub().version,
            region_sets: region_sets.clone(),
            own_switches: ojs_sidecar::switch::Switches::default(),
            unknown: 0,
            watched: 0,
            queues: Vec::new(),
        }
    }

    /// One new report at each look, of the size of a real one.
    fn reports(&self, number: usize) -> impl Fn(u64) -> Reports + use<> {
        let (is_on, taken, last) = (Rc::clone(&self.reports), Rc::clone(&self.taken), Cell::new(0));
        move |after| {
            if after > last.replace(after) {
                taken.set(taken.get() + 1);
            }
            let report = Report {
                number: after % 8 + 1,
                revision: after + 1,
                state: "unknown".to_owned(),
                row: serde_json::json!({ "id": "1", "state": "unknown", "job_id": "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f", "copies": ["x".repeat(400)] }),
            };
            let reports = is_on.get().then_some(report).into_iter().collect();
            Reports { sidecar: format!("pod-{number}"), started_unix_ms: 1, reports }
        }
    }
}
