//! `ojs-sidecar demo --chaos SECONDS`: a history checker over real processes.
//!
//! Clients of every shape enqueue through a sidecar that runs as a process of its own, with its journal on disk, and is killed again
//! and again. Between it and the regions stands a proxy that cuts, closes half, swallows and delays bytes; the regions themselves
//! fail by a script, and some write late. The regions are threads of this process, so that their stores and their sockets can be
//! read without their having a say; everything speaks TCP over loopback.
//!
//! Then every job that was ever issued is judged: what its client was told, what the journal says, what the regions store, and what
//! came to their sockets. From below upwards: `ledger`, `rows` and `judge` are pure; `journal` and `sockets` gather what they need; `wire`
//! and `weather` make trouble; `shape` and `client` enqueue, `worker`s take some of it; `sidecar` and `restarts` run the process; `table` prints.

mod client;
mod journal;
mod judge;
mod ledger;
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
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use smallvec::SmallVec;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::stage::IDS;
use super::{DONE, DemoArgs, FAILED, complain, say, signals};
use crate::base::{Clock, Draw};
use crate::cli::client::ask;
use crate::demo::JobState;
use client::World;
use journal::Breakage;
use judge::{Case, Copy};
use ledger::{Ledger, marks_in};
use restarts::Restarts;
use sockets::Sockets;
use stage::{GRACE, Stage};
use table::{Tally, line};

/// Clients at once.
const CLIENTS: usize = 96;
/// Workers, by their names.
const WORKERS: [&str; 2] = ["chaos-worker-1", "chaos-worker-2"];
/// Jobs a second where nothing else is asked for.
const JOBS_PER_SECOND: u64 = 170;
/// What the sidecar may add to its traffic: a share of the calls, so much a second, and a burst for each process.
const BUDGET: (f64, f64, f64) = (0.2, 3.0, 30.0);
/// How long the last process may take to clear up what it can.
const SETTLE_MAX: Duration = Duration::from_secs(60);
/// How long the number of what is not known must not change.
const SETTLED: Duration = Duration::from_secs(5);

/// Runs the checker; exit code 0 when every promise was kept.
pub(super) async fn play(arguments: &DemoArgs, seconds: u64) -> u8 {
    match run(arguments, seconds).await {
        Ok(true) => DONE,
        Ok(false) => {
            complain("the chaos run found a violation");
            FAILED
        }
        Err(error) => {
            complain(format_args!("the chaos run broke off: {error}"));
            FAILED
        }
    }
}

async fn run(arguments: &DemoArgs, seconds: u64) -> Result<bool, String> {
    let seed = arguments.chaos_seed.unwrap_or_else(|| Clock::system().unix_ms());
    let jobs_min = arguments.chaos_enqueues.unwrap_or(seconds.saturating_mul(JOBS_PER_SECOND)).max(1);
    let time = Duration::from_secs(seconds.max(1));
    let again = format!(
        "--chaos {seconds} --chaos-enqueues {jobs_min} --chaos-kills {} --chaos-seed {seed}",
        arguments.chaos_kills
    );
    say(format_args!("chaos: {jobs_min} jobs in {seconds} s; the same plan again: {again}"));
    let mut draw = Draw::from_seed(seed);
    let stage = Stage::set(&mut draw).await?;
    let mut restarts = Restarts::begin(&stage, Draw::from_seed(draw.next())).await?;
    let began = Instant::now();
    let world = Rc::new(World {
        ledger: RefCell::new(Ledger::default()),
        address: Cell::new(restarts.sidecar.client),
        epoch: Cell::new(0),
        successes: Cell::new(0),
        draw: RefCell::new(Draw::from_seed(draw.next())),
        clock: Clock::system(),
        began,
        pace: time.div_f64(real(jobs_min)),
        jobs_min,
        restarted: Cell::new(false),
        until: began + 2 * time + Duration::from_mins(2),
        interrupted: Cell::new(false),
    });
    interrupt(&world);
    let sockets = Rc::new(RefCell::new(Sockets::default()));
    let watch = tokio::task::spawn_local(sockets::watch(Rc::clone(&sockets), Rc::clone(&stage.regions)));
    let schedule = restarts::schedule(usize::try_from(arguments.chaos_kills).unwrap_or(usize::MAX), time, &mut draw);
    let elapsed = act(&stage, &world, &mut restarts, schedule, draw.next()).await?;
    // The last process asks about everything at once.
    restarts.restart(&stage, &world, Breakage::None).await?;
    let listed = settle(&restarts).await;
    restarts.sidecar.end().await;
    restarts.rows.read(&stage.journal).map_err(|error| format!("the journal's file: {error}"))?;
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
            elapsed,
            listed,
        },
        &again,
    ))
}

/// Lets everybody work while everything fails; returns when all is calm again, and says how long the work took.
///
/// Errors: a sentence when the sidecar could not be started, or somebody pressed Ctrl-C.
async fn act(
    stage: &Stage,
    world: &Rc<World>,
    restarts: &mut Restarts,
    schedule: Vec<(Duration, Breakage)>,
    seed: u64,
) -> Result<Duration, String> {
    let calm = Rc::new(Cell::new(false));
    let weather = weather::make(Rc::clone(&stage.regions), seed, GRACE, Rc::clone(&calm));
    let weather = tokio::task::spawn_local(weather);
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
    // Nothing of it can fail, and a panic is seen in what is missing.
    let _ = weather.await;
    played?;
    if world.interrupted.get() { Err("interrupted".to_owned()) } else { Ok(elapsed) }
}

/// Ctrl-C ends the run.
fn interrupt(world: &Rc<World>) {
    let world = Rc::clone(world);
    tokio::task::spawn_local(async move {
        signals::first().await;
        world.interrupted.set(true);
    });
}

/// Waits until what is not known stays so, and says how much that is, as the API shows it.
async fn settle(restarts: &Restarts) -> Option<u64> {
    let (until, mut last, mut since) = (Instant::now() + SETTLE_MAX, None, Instant::now());
    while Instant::now() < until && (last.is_none() || since.elapsed() < SETTLED) {
        let address = restarts.sidecar.client.to_string();
        let asked = ask(&address, Method::GET, "/v1/federation/outcomes?limit=1", Bytes::new()).await;
        let pending = asked
            .ok()
            .and_then(|(_, body)| serde_json::from_slice::<serde_json::Value>(&body).ok()?["pending"].as_u64());
        if pending != last {
            (last, since) = (pending, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    last
}

/// Everything that is judged.
struct Found<'f> {
    stage: &'f Stage,
    restarts: &'f Restarts,
    sockets: &'f Sockets,
    ledger: &'f Ledger,
    elapsed: Duration,
    listed: Option<u64>,
}

/// Judges every job, prints the table, and says whether every promise was kept.
fn report(found: &Found<'_>, again: &str) -> bool {
    let issues = &found.ledger.issues;
    let copies = copies(found.stage, issues.len());
    let rows = rows::by_job(&found.restarts.rows.by_call(), issues, &copies);
    let mut tally = Tally::default();
    for (((mark, issue), copies), rows) in (0..).zip(issues).zip(&copies).zip(&rows) {
        tally.add(
            mark,
            &Case {
                issue,
                copies,
                rows,
                arrivals: found.sockets.arrivals(issue.first),
                seen: found.sockets.seen(mark),
                epochs: &found.restarts.epochs,
                grace_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
            },
        );
    }
    traffic(found);
    let mut kept = tally.print();
    kept &= attempts(found);
    kept &= processes(found);
    say(if kept { "\nchaos: every promise was kept" } else { "\nchaos: PROMISES WERE BROKEN" });
    if !kept {
        say(format_args!("the same plan again: demo {again}"));
    }
    kept
}

/// The copies of every job, by mark.
fn copies(stage: &Stage, count: usize) -> Vec<SmallVec<[Copy; 1]>> {
    let mut copies = vec![SmallVec::new(); count];
    for (region, place) in stage.regions.iter().zip(0..) {
        for job in region.jobs().iter() {
            let mark = marks_in(job.args.as_bytes()).next();
            let (Some(mark), Some(id)) = (mark, ledger::id_of(&job.id)) else { continue };
            let Some(of_mark) = copies.get_mut(mark as usize) else { continue };
            of_mark.push(Copy {
                region: place,
                id,
                cancelled: job.state == JobState::Cancelled,
                stored: job.stored,
                created_ms: job.created_ms,
            });
        }
    }
    copies
}

/// What was done.
fn traffic(found: &Found<'_>) {
    let (ledger, troubles) = (found.ledger, &found.stage.troubles);
    let mut statuses: Vec<(u16, u64)> = ledger.statuses.iter().map(|(status, count)| (*status, *count)).collect();
    statuses.sort_unstable();
    let words = |(status, count): &(u16, u64)| {
        if *status == 0 { format!("none: {count}") } else { format!("{status}: {count}") }
    };
    say(format_args!("\nchaos: {} jobs in {} s", ledger.issues.len(), found.elapsed.as_secs()));
    say(format_args!("  answers     {}", statuses.iter().map(words).collect::<Vec<_>>().join(", ")));
    for ((status, reason), count) in &ledger.reasons {
        say(format_args!("    {count:>9}  {status} {reason}"));
    }
    say(format_args!("  repetitions that were recognised: {}", ledger.replays));
    let struck: Vec<String> =
        found.stage.regions.iter().map(|region| format!("{} {}", region.id(), region.faults().struck())).collect();
    say(format_args!("  faults in regions: {}", struck.join(", ")));
    say(format_args!(
        "  on {} connections: {} cut, {} half-closed, {} swallowed, {} delayed",
        troubles.connections.get(),
        troubles.cut.get(),
        troubles.half_closed.get(),
        troubles.swallowed.get(),
        troubles.delayed.get()
    ));
    let done = |breakage: &Breakage| found.restarts.done.iter().filter(|it| *it == breakage).count();
    for breakage in std::iter::once(Breakage::None).chain(Breakage::ALL) {
        say(format_args!("  {:>4} x {}", done(&breakage), breakage.as_str()));
    }
    let listed = found.listed.map_or_else(|| "?".to_owned(), |listed| listed.to_string());
    say(format_args!("  rows of the journal: {}; shown as not known at the end: {listed}", found.restarts.rows.len()));
}

/// Whether the regions were sent no more than the calls and the budget allow.
fn attempts(found: &Found<'_>) -> bool {
    let (share, floor, burst) = BUDGET;
    let processes = real(found.restarts.epochs.len() as u64);
    let allowed = real(found.ledger.calls) * (1.0 + share) + floor * found.elapsed.as_secs_f64() + burst * processes;
    let sent = real(found.sockets.enqueues);
    let kept = sent <= allowed;
    let ratio = sent / real(found.ledger.calls.max(1));
    line(
        "upstream enqueues at most 1.2 x calls + floor",
        format_args!(
            "{} ({sent} for {} calls, {ratio:.3} x; at most {allowed:.0}; {} questions for a job beside)",
            u8::from(!kept),
            found.ledger.calls,
            found.sockets.questions
        ),
    );
    kept
}

/// Whether every process said what it should and did its work.
fn processes(found: &Found<'_>) -> bool {
    let faults = &found.restarts.faults;
    line("each restart: a clear message, and routing goes on", faults.len());
    faults.iter().for_each(|fault| say(format_args!("\nVIOLATION {fault}")));
    if found.sockets.truncated {
        say("\nVIOLATION of the checker's own: a region's record was truncated, so that sockets were not fully read");
    }
    faults.is_empty() && !found.sockets.truncated
}

/// The place of a region; one that does not exist for any other id.
fn place_of(id: &str) -> u8 {
    IDS.iter().position(|known| *known == id).and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
const fn real(number: u64) -> f64 {
    number as f64
}
