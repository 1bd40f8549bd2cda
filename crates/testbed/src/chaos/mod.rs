//! The chaos run, `ojs-sidecar demo --chaos SECONDS`: a history checker over real processes.
//!
//! Clients of every shape enqueue through a sidecar that runs as a process of its own, with its journal on disk, and is killed again
//! and again. Between it and the regions stands a proxy that cuts, closes half, swallows and delays bytes; the regions themselves
//! fail by a script, and some write late. The regions are threads of this process, so that their stores and their sockets can be
//! read without their having a say; everything speaks TCP over loopback.
//!
//! Then every job that was ever issued is judged: its client's answers, the sidecar's report, the regions' jobs, and
//! the bytes at their sockets. From below upwards: `plan` has the parts of a run; `ledger`, `case`, `rows`, `judge`,
//! `acks` and `availability` are pure; `page` and `sockets` gather their input; `breakage` destroys journals; `wire`
//! and `weather` make trouble; `shape` and `client` enqueue, `worker`s take some of it; `sidecar` and `restarts` run
//! the process; `report` and `table` print.

mod acks;
mod ask;
mod availability;
mod breakage;
mod case;
mod client;
mod connection;
mod ids;
mod judge;
mod ledger;
mod out;
mod page;
mod plan;
mod report;
mod restarts;
mod rows;
mod shape;
mod sidecar;
mod sockets;
mod stage;
mod table;
mod weather;
mod wire;
mod worker;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tokio::task::JoinSet;
use tokio::time::Instant;

use ojs_handles::{Clock, Draw};

use ask::ask;
use breakage::Breakage;
use client::World;
use ledger::{CLIENTS, Ledger};
use out::{real, say};
use plan::Plan;
pub use plan::{Options, REGIONS};
use report::{Found, report};
use restarts::Restarts;
use sockets::Sockets;
use stage::Stage;
use weather::Weather;

/// Workers, by their names.
const WORKERS: [&str; 2] = ["chaos-worker-1", "chaos-worker-2"];
/// Jobs a second where nothing else is asked for.
const JOBS_PER_SECOND: u64 = 170;
/// How long the last process may take to clear up.
const SETTLE_MAX: Duration = Duration::from_secs(60);
/// How long the number of unknown outcomes must stay the same.
const SETTLED: Duration = Duration::from_secs(5);

/// Runs the checker against this program's own `run` command, and prints its report to standard output; `interrupted` ends it early.
/// True when every promise was kept. It runs on a local runtime.
///
/// Errors: a sentence when the run broke off.
pub async fn play(options: &Options, interrupted: impl Future<Output = ()> + 'static) -> Result<bool, String> {
    let plan = Plan::of(options);
    let seconds = options.seconds;
    let seed = options.seed.unwrap_or_else(|| Clock::system().unix_ms());
    let jobs_min = options.enqueues.unwrap_or(seconds.saturating_mul(JOBS_PER_SECOND)).max(1);
    let time = Duration::from_secs(seconds.max(1));
    let again = format!(
        "--chaos {seconds} --chaos-enqueues {jobs_min} --chaos-kills {} --chaos-seed {seed}{}",
        options.kills,
        plan.words()
    );
    say(format_args!("chaos: {jobs_min} jobs in {seconds} s; the same plan again: {again}"));
    let mut draw = Draw::from_seed(seed);
    let stage = Stage::set(&mut draw, plan).await?;
    let mut restarts = Restarts::begin(&stage, Draw::from_seed(draw.next())).await?;
    let world = world(plan, jobs_min, time, restarts.sidecar.client, draw.next());
    interrupt(&world, interrupted);
    let sockets = Rc::new(RefCell::new(Sockets::default()));
    let watch = tokio::task::spawn_local(sockets::watch(Rc::clone(&sockets), Rc::clone(&stage.regions)));
    let kills = usize::try_from(options.kills).unwrap_or(usize::MAX);
    let schedule = restarts::schedule(kills, plan.hostile, time, &mut draw);
    let weather = Rc::new(Weather {
        regions: Rc::clone(&stage.regions),
        plan,
        troubles: Rc::clone(&stage.troubles),
        clock: Clock::system(),
        windows: RefCell::default(),
    });
    let elapsed = act(&weather, &stage, &world, &mut restarts, schedule, draw.next()).await?;
    // The last process asks about everything at once.
    restarts.restart(&stage, &world, Breakage::None).await?;
    let listed = settle(&restarts).await;
    restarts.read_rows(&world).await;
    restarts.expect_no_defect().await;
    restarts.sidecar.end().await;
    watch.abort();
    let _ = watch.await;
    let mut sockets = sockets.borrow_mut();
    stage.regions.iter().zip(0..).for_each(|(region, place)| sockets.look(place, region));
    Ok(report(
        &Found {
            stage: &stage,
            restarts: &restarts,
            sockets: &sockets,
            ledger: &world.ledger.borrow(),
            acks: &world.acks.borrow(),
            windows: &weather.windows.borrow(),
            plan,
            elapsed,
            listed,
        },
        &again,
    ))
}

/// State that clients share, before the first call.
fn world(plan: Plan, jobs_min: u64, time: Duration, sidecar: SocketAddr, seed: u64) -> Rc<World> {
    let began = Instant::now();
    Rc::new(World {
        ledger: RefCell::new(Ledger::default()),
        address: Cell::new(sidecar),
        epoch: Cell::new(0),
        successes: Cell::new(0),
        draw: RefCell::new(Draw::from_seed(seed)),
        clock: Clock::system(),
        began,
        pace: time.div_f64(real(jobs_min)),
        jobs_min,
        restarted: Cell::new(false),
        until: began + 2 * time + Duration::from_mins(2),
        interrupted: Cell::new(false),
        paused: Cell::new(false),
        hostile: plan.hostile,
        used: RefCell::default(),
        open: RefCell::default(),
        durable: Cell::new(true),
        known: RefCell::default(),
        acks: RefCell::default(),
    })
}

/// Runs all clients while everything fails; returns when all is calm again, with the duration of the work.
///
/// Errors: a sentence when the sidecar could not be started, or the run was interrupted by Ctrl-C.
async fn act(
    weather: &Rc<Weather>,
    stage: &Stage,
    world: &Rc<World>,
    restarts: &mut Restarts,
    schedule: Vec<(Duration, Breakage)>,
    seed: u64,
) -> Result<Duration, String> {
    let calm = Rc::new(Cell::new(false));
    let plan = weather.plan;
    let weather = tokio::task::spawn_local(weather::make(Rc::clone(weather), seed, Rc::clone(&calm)));
    let mut clients = JoinSet::new();
    (0..CLIENTS).for_each(|_| drop(clients.spawn_local(client::work(Rc::clone(world)))));
    let workers = WORKERS.map(|name| tokio::task::spawn_local(worker::work(Rc::clone(world), name)));
    let played = restarts::play(restarts, stage, world, schedule).await;
    world.restarted.set(true);
    if played.is_err() {
        world.interrupted.set(true);
    }
    while clients.join_next().await.is_some() {}
    let elapsed = world.began.elapsed();
    workers.iter().for_each(tokio::task::JoinHandle::abort);
    calm.set(true);
    stage.troubles.calm.set(true);
    // The weather cannot fail, and a panic shows in missing faults.
    let _ = weather.await;
    played?;
    client::insist(world, plan.grace() + plan.lag()).await;
    if world.interrupted.get() { Err("interrupted".to_owned()) } else { Ok(elapsed) }
}

/// A signal ends the run.
fn interrupt(world: &Rc<World>, interrupted: impl Future<Output = ()> + 'static) {
    let world = Rc::clone(world);
    tokio::task::spawn_local(async move {
        interrupted.await;
        world.interrupted.set(true);
    });
}

/// Waits until the number of unknown outcomes stays the same; returns that number, as the API shows it.
async fn settle(restarts: &Restarts) -> Option<u64> {
    let (until, mut last, mut since) = (Instant::now() + SETTLE_MAX, None, Instant::now());
    while Instant::now() < until && (last.is_none() || since.elapsed() < SETTLED) {
        let address = restarts.sidecar.client.to_string();
        let asked = ask(&address, Method::GET, "/v1/federation/outcomes?limit=1", Bytes::new()).await;
        let pending = asked.ok().and_then(|(_, body)| rows::unknown_in(&body));
        if pending != last {
            (last, since) = (pending, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    last
}
