//! What a request notices of its sidecar's operator: scrapes and reloads while jobs come at a fixed rate.

use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::cases::{PROXY, REST, job};
use super::options::Options;
use super::peers::{Peer, Sidecar, ask, sidecar};
use super::report::Report;
use super::stage::Stage;
use super::steady::{self, Pace, Steady};

/// Far more often than Prometheus scrapes and people reload, and longer than the sidecar waits until a changed file has settled.
const EVERY: Duration = Duration::from_millis(500);
/// Jobs a second.
const RATE: usize = 10_000;
/// A change that makes no difference to an enqueue.
const CHANGE: &str = "lists: { annotate: true }\n";

/// What is done meanwhile. The first and the last row are the same, and what they differ by is noise.
const WHATS: [&str; 4] = ["nothing", "scrapes", "reloads", "nothing again"];

/// One row for each of them.
pub(crate) type Row = (String, Vec<Steady>);

pub(crate) fn run(options: &Options, report: &mut Report) {
    let stage = Stage::new(Some(REST), "h1");
    // The operator is this process, and may not be on the proxy's core.
    pin(&REST.to_string());
    let mut all = vec![Vec::new(); WHATS.len()];
    for round in 0..options.rounds {
        let peer = sidecar(&stage, Some(PROXY), Sidecar { more_regions: 2, ..Sidecar::default() });
        for (what, samples) in WHATS.iter().zip(&mut all) {
            eprintln!("round {}: sidecar, {RATE}/s, {what} meanwhile", round + 1);
            samples.push(meanwhile(what, &stage, &peer, options.time));
        }
        peer.end();
    }
    pin("0-1023");
    let rows: Vec<Row> = WHATS.iter().zip(all).map(|(what, it)| ((*what).to_owned(), it)).collect();
    report.operated(RATE, EVERY, &rows);
}

/// Keeps this thread, and those that it starts, on these cores.
fn pin(cores: &str) {
    let process = std::process::id().to_string();
    let done = Command::new("taskset").args(["-pc", cores, &process]).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|it| it.success()), "taskset");
}

/// The load, with something done every now and then until it is over.
fn meanwhile(what: &str, stage: &Stage, peer: &Peer, time: Duration) -> Steady {
    let (over, wait) = channel::<()>();
    let before = reloads(peer);
    std::thread::scope(|scope| {
        let operator = scope.spawn(move || {
            let mut turns = 0;
            while wait.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                turns += 1;
                match what {
                    "scrapes" => drop(metrics(peer)),
                    "reloads" => reload(stage, peer, turns % 2 == 1),
                    _ => {}
                }
            }
            turns
        });
        let pace = Pace { rate: RATE, connections: 32, time, failed_max: 0 };
        let seen = steady::load(Some(REST), &[peer.port], pace, &job(600));
        drop(over);
        let turns = operator.join().unwrap();
        if what == "reloads" {
            // The last one may still be on its way.
            let done = reloads(peer) - before;
            assert!(done + 1 >= turns, "{done} reloads came of {turns} changes");
        }
        seen[0]
    })
}

/// Another configuration in the sidecar's file, which it watches.
fn reload(stage: &Stage, peer: &Peer, changed: bool) {
    let name = peer.config.as_deref().unwrap();
    let text = std::fs::read_to_string(stage.dir().join(name)).unwrap();
    let next = if changed { text + CHANGE } else { text.replace(CHANGE, "") };
    let new = stage.write("next.yaml", &next);
    std::fs::rename(new, stage.dir().join(name)).unwrap();
}

fn metrics(peer: &Peer) -> String {
    ask(peer.admin.unwrap(), "GET /metrics").unwrap()
}

/// How often a configuration was taken.
fn reloads(peer: &Peer) -> usize {
    let is_ours =
        |line: &&str| line.starts_with("ojs_federation_reloads_total{") && line.contains(r#"kind="configuration""#);
    let count = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap();
    metrics(peer).lines().filter(is_ours).filter(|line| line.contains(r#"result="applied""#)).map(count).sum()
}
