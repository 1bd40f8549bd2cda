//! A history with faults, by a seed: hubs are killed, paused and cut off from sidecars or from their database, whose primary is paused, lost
//! and replaced, while operators give orders, jobs flow, keys come through two sidecars, and calls to one region want more than the fleet's
//! limit. `HUB_HISTORY_SEED`, `HUB_HISTORY_SIDECARS` and `HUB_HISTORY_FAULTS` make it another or a longer one.

mod keyed;
mod load;
mod network;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage};
use crate::support::{Process, Stage, command, eventually};
use keyed::Keyed;
use load::Load;
pub use network::Link;
use ojs_testbed::{Fault as RegionFault, When};

/// How long a hub or a server is paused: shorter and longer than the waits of those that depend on it.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(7)];

pub fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var_os(variable).map_or(otherwise, |text| text.to_str().unwrap().parse().unwrap())
}

/// Numbers that depend on nothing but the seed.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, end: usize) -> usize {
        // Knuth's constants; the high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    KillHub(usize),
    PauseHub(usize, Duration),
    /// No sidecar reaches the hub.
    CutHub(usize, Duration),
    /// The hub reaches no server of its database.
    CutRecord(usize, Duration),
    PausePrimary(Duration),
    LosePrimary,
}

/// So many faults; in their middle the primary is lost.
pub fn plan(draw: &mut Draw, faults: usize) -> Vec<Fault> {
    let mut plan: Vec<Fault> = Vec::new();
    for place in 0..faults {
        let (hub, pause) = (draw.below(2), PAUSES[draw.below(2)]);
        plan.push(match draw.below(5) {
            _ if place == faults / 2 => Fault::LosePrimary,
            0 => Fault::KillHub(hub),
            1 => Fault::PauseHub(hub, pause),
            2 => Fault::CutHub(hub, pause),
            3 => Fault::CutRecord(hub, pause),
            _ => Fault::PausePrimary(pause),
        });
    }
    plan
}

/// The fate of an order, by its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Done,
    /// Nothing was changed.
    Refused,
    /// It may have been done.
    Unknown,
}

/// The database of the hubs.
pub struct Database {
    pub primary: Postgres,
    pub standby: Postgres,
    pub is_lost: bool,
}

impl Database {
    /// The server that hubs write to.
    pub const fn serves(&self) -> &Postgres {
        if self.is_lost { &self.standby } else { &self.primary }
    }

    fn pause(&self, pauses: bool) {
        if self.is_lost { self.standby.pause(pauses) } else { self.primary.pause(pauses) }
    }

    fn lose_primary(&mut self) {
        self.primary.kill();
        self.standby.promote();
        self.is_lost = true;
    }
}

/// One order of an operator at one of the hubs.
async fn order(stage: &HubStage, replica: usize, ticket: &str, sets: bool) -> Answer {
    let words: &[&str] = if sets { &["drain", "eu-west-1", "--for", "1h"] } else { &["undrain", "eu-west-1"] };
    let why = ["--reason", "history", "--ticket", ticket, "--author", "ana"];
    let done = stage.command_at(replica, "ann", &[words, &why].concat()).await;
    let is_refused = ["nothing was changed", "answered 404", "answered 409"].iter().any(|it| done.stderr.contains(it));
    match done.code {
        Some(0) => Answer::Done,
        _ if is_refused => Answer::Refused,
        _ => Answer::Unknown,
    }
}

/// The region with a limit of the fleet, and the calls at once to it.
const LIMITED: usize = 2;
const LIMIT: usize = 6;
const WITH_HUB: &str = "limits: { fleet: [{ region: ap-south-1, on_hub_loss: hold }] }
idempotency: { scope: hub, on_hub_loss: refuse }
failover: { read_lag: 60s }";

/// Operators that give orders at once.
const OPERATORS: u64 = 4;

/// Gives orders until the faults are over, and returns their answers by ticket.
async fn operate(stage: &HubStage, operator: u64, is_over: &Cell<bool>) -> BTreeMap<String, Answer> {
    let (mut draw, mut answers) = (Draw(operator), BTreeMap::new());
    while !is_over.get() {
        let ticket = format!("T-{operator}-{}", answers.len());
        let (replica, sets) = (draw.below(2), draw.below(3) > 0);
        let answer = order(stage, replica, &ticket, sets).await;
        answers.insert(ticket, answer);
    }
    answers
}

/// The links of two hubs.
pub struct Network {
    /// Those of sidecars to each hub.
    to_hubs: [Link; 2],
    /// Those of each hub to the servers of its database.
    to_servers: [[Link; 2]; 2],
}

impl Network {
    /// Puts links between the hubs and everything that they speak with, and runs the hubs.
    pub async fn between(stage: &mut HubStage, servers: [&Postgres; 2]) -> (Self, [Option<Hub>; 2]) {
        let mut hubs = [None, None];
        let to_servers = [0, 1].map(|_| servers.map(|server| Link::to(server.listens_at())));
        for (replica, hub) in hubs.iter_mut().enumerate() {
            let servers = to_servers[replica].each_ref().map(|link| link.address);
            stage.set_record_of(replica, Postgres::section_at(&servers, &stage.path(""), &stage.path("hub.ca.pem")));
            *hub = Some(stage.again(replica).await);
        }
        let address = |replica| stage.url_of(replica).trim_start_matches("https://").parse::<SocketAddr>().unwrap();
        let to_hubs = [0, 1].map(|replica| Link::to(address(replica)));
        stage.set_via(&to_hubs.each_ref().map(|link| link.address));
        (Self { to_hubs, to_servers }, hubs)
    }
}

async fn cut_for(links: &[&Link], pause: Duration) {
    links.iter().for_each(|link| link.cut(true));
    tokio::time::sleep(pause).await;
    links.iter().for_each(|link| link.cut(false));
}

pub async fn break_things(
    stage: &HubStage,
    hubs: &mut [Option<Hub>; 2],
    database: &mut Database,
    network: &Network,
    plan: &[Fault],
) {
    for fault in plan {
        say(&format!("fault: {fault:?}"));
        match *fault {
            Fault::KillHub(hub) => {
                hubs[hub].take().unwrap().kill();
                hubs[hub] = Some(stage.again(hub).await);
            }
            Fault::PauseHub(hub, pause) => {
                hubs[hub].as_ref().unwrap().pause(true);
                tokio::time::sleep(pause).await;
                hubs[hub].as_ref().unwrap().pause(false);
            }
            Fault::CutHub(hub, pause) => cut_for(&[&network.to_hubs[hub]], pause).await,
            Fault::CutRecord(hub, pause) => cut_for(&network.to_servers[hub].each_ref(), pause).await,
            Fault::PausePrimary(pause) => {
                database.pause(true);
                tokio::time::sleep(pause).await;
                database.pause(false);
            }
            Fault::LosePrimary => database.lose_primary(),
        }
    }
}

/// The rows of the audit trail, which must be whole.
async fn trail(stage: &HubStage) -> Vec<Value> {
    let exported = stage.command("ann", &["audit", "export"]).await;
    assert_eq!(exported.code, Some(0), "{}", exported.all());
    let path = stage.path("trail");
    std::fs::write(&path, &exported.stdout).unwrap();
    let verified = command(&["audit", "verify", path.to_str().unwrap()], &[], "");
    assert_eq!(verified.code, Some(0), "{}", verified.all());
    exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Prints a line past the capture of the tests' output.
pub fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The sidecars, under load, and the figures of the load by phase.
struct Scene {
    federation: Stage,
    running: Vec<Process>,
    load: Load,
    keyed: Keyed,
}

impl Scene {
    async fn new(stage: &HubStage, sidecars: u64, seed: u64) -> Self {
        let federation = stage.federation("s-0", WITH_HUB).await;
        // Calls there overlap, and some lose their answer while reads lag: the sidecar reports their outcome.
        let limited = federation.regions[LIMITED].faults();
        limited.add(When::enqueue().chance(0.02, 1), RegionFault::CutAfterRequest { store: true });
        limited.add(When::enqueue(), RegionFault::Slow { delay: Duration::from_millis(5) });
        limited.add(When::lookup(), RegionFault::ReadsLag { by: Duration::from_secs(30) });
        let mut running = Vec::new();
        for sidecar in 0..sidecars {
            let name = format!("hub.name=s-{sidecar}");
            running.push(Process::run(&federation.config, &[&INFO[..], &["--set", &name]].concat()).await);
        }
        for sidecar in 0..sidecars {
            stage.follows(&format!("s-{sidecar}")).await;
        }
        let load = Load::start(running.iter().map(|it| it.client.address()).collect());
        load.wait_for_calls(100 * running.len()).await;
        let keyed = Keyed::start(running.iter().map(|it| it.client).collect(), seed);
        keyed.wait_for_keys(10).await;
        Self { federation, running, load, keyed }
    }

    /// Waits until an order reaches all sidecars; how long that took.
    async fn converges(&self, stage: &HubStage) -> Duration {
        let begun = Instant::now();
        let last = async |replica: usize| order(stage, replica, "T-last", true).await == Answer::Done;
        eventually("an order is kept again", async || last(0).await || last(1).await).await;
        for sidecar in &self.running {
            eventually("the last order is in force", async || {
                let shown = sidecar.admin.get("/switches").await.json();
                shown["switches"].as_array().unwrap().iter().any(|it| it["ticket"] == "T-last" && it["from"] == "hub")
            })
            .await;
        }
        begun.elapsed()
    }
}

/// Waits until each outcome of each sidecar is at the hub, once and in its last state; how many there are.
async fn check_outcomes(stage: &HubStage, running: &[Process]) -> usize {
    let row = |name: &str, it: &Value| (name.to_owned(), it["id"].to_string(), it["state"].to_string());
    let mut count = 0;
    eventually("the hub has each outcome once", async || {
        let mut own = Vec::new();
        for (number, sidecar) in running.iter().enumerate() {
            let shown = sidecar.client.get("/v1/federation/outcomes?limit=1000").await.json();
            own.extend(shown["outcomes"].as_array().unwrap().iter().map(|it| row(&format!("s-{number}"), it)));
        }
        let shown = stage.command("ann", &["fleet", "--outcomes", "--json"]).await;
        let document: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        let rows = document["outcomes"].as_array().cloned().unwrap_or_default();
        let mut rows: Vec<_> = rows.iter().map(|it| row(it["sidecar"].as_str().unwrap(), it)).collect();
        count = own.len();
        own.sort();
        rows.sort();
        own == rows
    })
    .await;
    count
}

/// Each order that was done has one row, each that was refused has none, and one without an answer at most one.
fn check_orders(seed: u64, answers: &BTreeMap<String, Answer>, rows: &[Value]) {
    let mut of_tickets = BTreeMap::<&str, usize>::new();
    rows.iter().for_each(|row| *of_tickets.entry(row["ticket"].as_str().unwrap()).or_default() += 1);
    let count = |wanted: Answer| answers.values().filter(|answer| **answer == wanted).count();
    let counts = [Answer::Done, Answer::Refused, Answer::Unknown].map(count);
    say(&format!("seed {seed}: orders done, refused, unknown: {counts:?}; {} rows", rows.len()));
    for (ticket, answer) in answers {
        let rows = of_tickets.get(ticket.as_str()).copied().unwrap_or(0);
        let is_right = match answer {
            Answer::Done => rows == 1,
            Answer::Refused => rows == 0,
            Answer::Unknown => rows <= 1,
        };
        assert!(is_right, "{ticket} was answered {answer:?} and has {rows} rows; seed {seed}");
    }
    assert!(counts[0] > 0, "some orders were done");
}

#[tokio::test]
async fn no_answered_order_is_lost_or_doubled_and_no_job_notices_the_faults_of_the_hubs() {
    let seed = number("HUB_HISTORY_SEED", 1);
    let (sidecars, faults) = (number("HUB_HISTORY_SIDECARS", 3), number("HUB_HISTORY_FAULTS", 4));
    let mut stage = HubStage::new(&format!("limits: [{{ region: ap-south-1, calls: {LIMIT}, ttl: 10s }}]"));
    let Some(primary) = Postgres::start(&stage.authority).await else { return };
    let standby = primary.standby().await;
    stage = stage.on_record(String::new());
    let (network, mut hubs) = Network::between(&mut stage, [&primary, &standby]).await;
    let mut database = Database { primary, standby, is_lost: false };
    let scene = Scene::new(&stage, sidecars, seed).await;
    let before = scene.load.take();
    let plan = plan(&mut Draw(seed), usize::try_from(faults).unwrap());
    let is_over = Cell::new(false);
    let operators = (0..OPERATORS).map(|operator| operate(&stage, seed * OPERATORS + operator, &is_over));
    let (answers, ()) = tokio::join!(futures_util::future::join_all(operators), async {
        break_things(&stage, &mut hubs, &mut database, &network, &plan).await;
        is_over.set(true);
    });
    for hub in hubs.iter_mut().flatten() {
        assert_eq!(hub.ended(), None, "a hub has ended by itself; seed {seed}");
    }
    let during = scene.load.take();
    let converged = scene.converges(&stage).await;
    let Scene { federation, load, running, keyed } = scene;
    let clients: Vec<_> = running.iter().map(|it| it.client).collect();
    let keyed = keyed.end(&clients, seed).await;
    let phases = [("before", before), ("during", during), ("after", load.end())];
    let outcomes = check_outcomes(&stage, &running).await;
    assert!(outcomes > 0, "some answers were lost");
    say(&format!("converged after {converged:?}"));
    phases.iter().for_each(|(name, calls)| say(&format!("{name}: {}", calls.shown())));
    check_orders(seed, &answers.into_iter().flatten().collect(), &trail(&stage).await);
    let errors: Vec<&String> = phases.iter().flat_map(|(_, calls)| &calls.errors).collect();
    assert!(errors.is_empty(), "seed {seed}: {errors:?}");
    let limited = &federation.regions[LIMITED];
    let refused: usize = phases.iter().map(|(_, calls)| calls.refused).sum();
    say(&format!(
        "{} of {LIMIT} calls at once, {refused} refused, {outcomes} outcomes reported",
        limited.enqueues_at_once()
    ));
    assert!((1..=LIMIT).contains(&limited.enqueues_at_once()), "the limit is exceeded; seed {seed}");
    let keys = keyed.check(&federation.regions, seed);
    let enqueued: usize = phases.iter().map(|(_, calls)| calls.enqueued).sum();
    let stored_in = |region: &ojs_testbed::DemoRegion| region.jobs().iter().map(|job| job.stored).collect::<Vec<_>>();
    let stored: Vec<u32> = federation.regions.iter().flat_map(stored_in).collect();
    assert_eq!(
        (stored.len(), stored.iter().max()),
        (enqueued + keys, Some(&1)),
        "each job is in one region once; seed {seed}"
    );
}
