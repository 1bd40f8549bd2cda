//! The measurements, one group after the other.

use std::path::Path;

use super::figures::{Sample, median};
use super::machine::{Process, described};
use super::memory;
use super::operated;
use super::options::Options;
use super::peers::{Peer, Sidecar, sidecar, start};
use super::report::Report;
use super::stage::Stage;
use super::steady::{self, Pace};
use super::wrk::{self, Load};

/// The proxy has this core when it is pinned, everything else the other.
pub(crate) const PROXY: usize = 0;
/// As said there.
pub(crate) const REST: usize = 1;
/// More ids than the owner map keeps.
const OWNERS_MAX: f64 = 1_000_000.0;
/// A measurement that others disturb is tried again so often.
const TRIES: usize = 20;

/// So many rounds at fixed rates for each of the others: the same program's p50 and p90 differ more than what tells proxies apart.
pub(crate) const RATE_ROUNDS: usize = 3;

/// A job as SDKs send it, of so many bytes.
pub(crate) fn job(bytes: usize) -> String {
    let before = r#"{"type":"email.send","args":["someone@example.com","welcome",{"locale":"en"}],"options":{"queue":"default","priority":0,"timeout_ms":30000,"retry":{"max_attempts":3,"initial_interval":"PT1S"}},"meta":{"tenant":"t-1","trace":"0123456789abcdef0123456789abcdef","note":""#;
    let after = r#""}}"#;
    let room = bytes.saturating_sub(before.len() + after.len());
    format!("{before}{}{after}", "x".repeat(room))
}

/// A group of measurements, and its name.
type Case = (&'static str, fn(&Options, &mut Report));

const CASES: [Case; 10] = [
    ("pinned", |options, report| connections(options, report, true)),
    ("unpinned", |options, report| connections(options, report, false)),
    ("http2", http2),
    ("rates", |options, report| rates(options, report, false)),
    ("awake", |options, report| rates(options, report, true)),
    ("operated", operated::run),
    ("bodies", bodies),
    ("regions", regions),
    ("owners", owners),
    ("memory", memory::run),
];

pub(crate) fn run(options: &Options) {
    let mut report = Report::new(&described(), options);
    for (_, measure) in CASES.iter().filter(|(name, _)| options.wants(name)) {
        measure(options, &mut report);
        report.write(options);
    }
    report.finish(options);
}

/// One load, tried until the machine is quiet.
pub(crate) fn loaded(what: &Load<'_>, to: (u16, Option<&Process>), stage: &Stage) -> Sample {
    for _ in 0..TRIES {
        if let Some(sample) = wrk::load(what, to.0, to.1, &stage.region) {
            return sample;
        }
    }
    panic!(
        "the machine is not quiet: other work disturbed {TRIES} runs; stop it, or allow more with --foreign PERCENT and --slower PERCENT"
    );
}

/// A load as the options have it.
pub(crate) fn load<'l>(options: &Options, core: Option<usize>, script: &'l Path, connections: usize) -> Load<'l> {
    Load {
        core,
        script,
        connections,
        time: options.time,
        foreign_max: options.foreign_max,
        slower_max: options.slower_max,
    }
}

/// Every peer at every number of connections.
fn connections(options: &Options, report: &mut Report, pinned: bool) {
    let (proxy, rest) = if pinned { (Some(PROXY), Some(REST)) } else { (None, None) };
    let stage = Stage::new(rest, "h1");
    let script = wrk::script(stage.dir(), &job(600));
    let loads: Vec<_> = options.connections.iter().map(|connections| (script.as_path(), *connections)).collect();
    let how = if pinned { "pinned" } else { "unpinned" };
    let rows = in_turn(options, &stage, (proxy, rest), how, &loads);
    report.connections(how, &options.connections, &rows);
    report.charts(how, &options.connections, &rows);
}

/// The sidecar with HTTP/2 to the region, which the other proxies do not speak there.
fn http2(options: &Options, report: &mut Report) {
    let stage = Stage::new(Some(REST), "h2");
    let script = wrk::script(stage.dir(), &job(600));
    let loads: Vec<_> = options.connections.iter().map(|connections| (script.as_path(), *connections)).collect();
    let alone = Options { peers: vec!["sidecar".to_owned()], ..options.clone() };
    let rows = in_turn(&alone, &stage, (Some(PROXY), Some(REST)), "HTTP/2 to the region", &loads);
    report.connections("HTTP/2 to the region, pinned", &options.connections, &rows);
}

/// The sidecar with nothing in its owner map, and with as much as it keeps.
fn owners(options: &Options, report: &mut Report) {
    let stage = Stage::new(Some(REST), "h1");
    let script = wrk::script(stage.dir(), &job(600));
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..options.rounds {
        eprintln!("round {}: sidecar, owner map empty and full", round + 1);
        let peer = sidecar(&stage, Some(PROXY), Sidecar { remembers: true, ..Sidecar::default() });
        let to = (peer.port, peer.process.as_ref());
        let what = load(options, Some(REST), &script, 64);
        samples[0].push(loaded(&what, to, &stage));
        // Every answer teaches it one id.
        let mut learned = 0.0;
        while learned < OWNERS_MAX {
            let sample = loaded(&what, to, &stage);
            learned += sample.rate * options.time.as_secs_f64();
        }
        samples[1].push(loaded(&what, to, &stage));
        peer.end();
    }
    report.owners(&samples.map(|it| median(&it)));
}

/// Every peer under every load, round after round: the medians, and what was resident after the loads of the first round.
///
/// All are alive all the time and have each load in turn, now from the first to the last and now from the last to the first: machines have
/// phases of seconds to minutes, in which the same program does a fifth more or less.
fn in_turn(
    options: &Options,
    stage: &Stage,
    (proxy, rest): (Option<usize>, Option<usize>),
    how: &str,
    loads: &[(&Path, usize)],
) -> Vec<(String, Vec<Sample>)> {
    let peers = alive(options, stage, proxy);
    let mut samples = vec![vec![Vec::new(); loads.len()]; peers.len()];
    for round in 0..options.rounds {
        eprintln!("round {}: {how}", round + 1);
        for (at, (script, connections)) in loads.iter().enumerate() {
            for index in turns(round, peers.len()) {
                let to = (peers[index].port, peers[index].process.as_ref());
                let sample = loaded(&load(options, rest, script, *connections), to, stage);
                eprintln!(
                    "  {} at {connections}: {:.0} a second, {:.2} s of CPU for 100 000",
                    options.peers[index], sample.rate, sample.cpu
                );
                samples[index][at].push(sample);
            }
        }
    }
    peers.into_iter().for_each(Peer::end);
    let of = |it: &Vec<Sample>| Sample { rss: it[0].rss, ..median(it) };
    let medians = |of_peer: &Vec<Vec<Sample>>| of_peer.iter().map(of).collect();
    options.peers.iter().cloned().zip(samples.iter().map(medians)).collect()
}

/// All peers, started.
fn alive(options: &Options, stage: &Stage, core: Option<usize>) -> Vec<Peer> {
    options.peers.iter().map(|name| start(name, stage, core)).collect()
}

/// Whose turn it is in a round.
fn turns(round: usize, peers: usize) -> impl Iterator<Item = usize> {
    (0..peers).map(move |turn| if round.is_multiple_of(2) { turn } else { peers - 1 - turn })
}

/// Keeps both cores from sleeping for as long as it is kept: to wake one takes as long as a proxy needs for a request, or twice that, and
/// the less work a proxy makes of it, the deeper its core sleeps. What runs there has the processor only while nobody else wants it.
fn kept_awake() -> [Process; 2] {
    let words = ["--idle", "0", "sh", "-c", "while :; do :; done"].map(str::to_owned);
    [PROXY, REST].map(|core| Process::start(Some(core), "chrt", &words))
}

/// Fixed rates: latency from the time at which each request was due.
fn rates(options: &Options, report: &mut Report, is_awake: bool) {
    let stage = Stage::new(Some(REST), "h1");
    let _awake = is_awake.then(kept_awake);
    let body = job(600);
    let peers = alive(options, &stage, Some(PROXY));
    for rate in [1_000, 10_000] {
        let mut all = vec![Vec::new(); peers.len()];
        let pace = Pace { rate, connections: 32, time: options.time, failed_max: 0 };
        for round in 0..options.rounds * RATE_ROUNDS {
            eprintln!("round {}: {rate}/s", round + 1);
            // Each begins once, and has now the one and now the other before it.
            let mut order: Vec<usize> = turns(round, peers.len()).collect();
            order.rotate_left(round / 2 % peers.len());
            let ports: Vec<u16> = order.iter().map(|index| peers[*index].port).collect();
            let seen = steady::load(Some(REST), &ports, pace, &body);
            order.iter().zip(seen).for_each(|(index, seen)| all[*index].push(seen));
        }
        let rows: Vec<_> = options.peers.iter().cloned().zip(all).collect();
        report.rate(rate, is_awake, &rows);
    }
    peers.into_iter().for_each(Peer::end);
}

/// Larger jobs, at 16 connections.
fn bodies(options: &Options, report: &mut Report) {
    let stage = Stage::new(Some(REST), "h1");
    let sizes = [2_000, 64_000, 1_000_000];
    let scripts = sizes.map(|bytes| wrk::script(stage.dir(), &job(bytes)));
    let loads: Vec<_> = scripts.iter().map(|script| (script.as_path(), 16)).collect();
    let rows = in_turn(options, &stage, (Some(PROXY), Some(REST)), "large jobs", &loads);
    report.bodies(&sizes, &rows);
}

/// The sidecar with more and more regions to choose from.
fn regions(options: &Options, report: &mut Report) {
    let stage = Stage::new(Some(REST), "h1");
    let script = wrk::script(stage.dir(), &job(600));
    let counts = [1, 3, 20, 100];
    let mut samples = vec![Vec::new(); counts.len()];
    for round in 0..options.rounds {
        for (count, samples) in counts.iter().zip(&mut samples) {
            eprintln!("round {}: sidecar, {count} regions", round + 1);
            let peer = sidecar(&stage, Some(PROXY), Sidecar { more_regions: count - 1, ..Sidecar::default() });
            let to = (peer.port, peer.process.as_ref());
            samples.push(loaded(&load(options, Some(REST), &script, 64), to, &stage));
            peer.end();
        }
    }
    let rows: Vec<_> = counts.into_iter().zip(samples.iter().map(|it| median(it))).collect();
    report.regions(&rows);
}
