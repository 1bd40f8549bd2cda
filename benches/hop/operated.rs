//! What a request notices of its sidecar's operator: scrapes and reloads while jobs come at a fixed rate.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::cases::{PROXY, REST, job, medians};
use super::options::Options;
use super::peers::{Peer, Sidecar, ask, sidecar};
use super::report::Report;
use super::stage::Stage;
use super::steady::{self, Steady};

/// Far more often than Prometheus scrapes, so that more of the requests meet one than p99.9 leaves out.
const EVERY: Duration = Duration::from_millis(200);
/// Jobs a second.
const RATE: usize = 10_000;
/// A change that makes no difference to an enqueue.
const CHANGE: &str = "lists: { annotate: true }\n";

/// What is done meanwhile. The first and the last row are the same, and what they differ by is noise.
const WHATS: [&str; 4] = ["nothing", "scrapes", "reloads", "nothing again"];

/// One row for each of them.
pub(crate) type Row = (String, Steady);

pub(crate) fn run(options: &Options, report: &mut Report) {
    let stage = Stage::new(Some(REST), "h1");
    let mut all = vec![Vec::new(); WHATS.len()];
    for round in 0..options.rounds {
        let peer = sidecar(&stage, Some(PROXY), Sidecar { more_regions: 2, ..Sidecar::default() });
        for (what, samples) in WHATS.iter().zip(&mut all) {
            eprintln!("round {}: sidecar, {RATE}/s, {what} meanwhile", round + 1);
            samples.push(meanwhile(what, &stage, &peer, options.time));
        }
        peer.end();
    }
    let rows: Vec<Row> = WHATS.iter().zip(&all).map(|(what, it)| ((*what).to_owned(), medians(it))).collect();
    report.operated(RATE, EVERY, &rows);
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
        let seen = steady::load(Some(REST), peer.port, RATE, 32, time, &job(600));
        drop(over);
        let turns = operator.join().unwrap();
        if what == "reloads" {
            let done = reloads(peer) - before;
            assert!(done > turns / 2, "{done} reloads came of {turns} signals");
        }
        seen
    })
}

/// Another configuration in the sidecar's file, and the signal to read it.
fn reload(stage: &Stage, peer: &Peer, changed: bool) {
    let path: PathBuf = stage.dir().join(peer.config.as_deref().unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    let next = if changed { text + CHANGE } else { text.replace(CHANGE, "") };
    std::fs::write(&path, next).unwrap();
    peer.process.as_ref().unwrap().signal("HUP");
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
