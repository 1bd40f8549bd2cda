//! What the sidecar keeps of the machine: memory through a day in small, and how fast it starts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use super::cases::{PROXY, REST, job, load, loaded};
use super::machine::Process;
use super::options::Options;
use super::peers::{Peer, Sidecar, sidecar};
use super::report::Report;
use super::stage::Stage;
use super::wrk::{self, Load};

/// A start is measured so often.
const STARTS: usize = 11;
/// At least so long is a load that memory is looked at after.
const LOADED: Duration = Duration::from_secs(5);
const IDLE_CONNECTIONS: usize = 10_000;
/// Longer than a connection keeps its buffers after its last request, and than the allocator keeps what is free.
const SETTLED: Duration = Duration::from_secs(4);
/// Answered by the sidecar itself.
const QUESTION: &[u8] = b"GET /v1/federation/health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// One figure, with its unit.
pub(crate) type Row = (String, f64, &'static str);

pub(crate) fn run(options: &Options, report: &mut Report) {
    let stage = Stage::new(Some(REST), "h1");
    let mut rows = starts(&stage);
    rows.extend(load_and_rest(options, &stage));
    for (what, is_used) in [("never used", false), ("used once", true)] {
        rows.extend(crowd(&stage, what, is_used));
    }
    report.memory(&rows);
}

fn three_regions(stage: &Stage) -> Peer {
    sidecar(stage, Some(PROXY), Sidecar { more_regions: 2, ..Sidecar::default() })
}

/// The median time from the start of the process until clients are accepted, and until it calls itself ready.
fn starts(stage: &Stage) -> Vec<Row> {
    let (mut listening, mut ready) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let peer = three_regions(stage);
        listening.push(peer.listening.as_secs_f64() * 1e3);
        ready.push(peer.ready.as_secs_f64() * 1e3);
        peer.end();
    }
    let median = |mut figures: Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    vec![
        ("from start to listening".to_owned(), median(listening), "ms"),
        ("from start to ready, every region probed".to_owned(), median(ready), "ms"),
    ]
}

/// Idle, after each load, and when that is over.
fn load_and_rest(options: &Options, stage: &Stage) -> Vec<Row> {
    let script = wrk::script(stage.dir(), &job(600));
    let peer = three_regions(stage);
    let process = peer.process.as_ref().unwrap();
    sleep(SETTLED);
    let mut rows = vec![("idle, 3 regions".to_owned(), process.rss(), "MB")];
    for connections in [64, 256] {
        let what = load(options, Some(REST), &script, connections);
        let what = Load { time: what.time.max(LOADED), ..what };
        let sample = loaded(&what, (peer.port, Some(process)), stage);
        rows.push((format!("after {connections} connections"), sample.rss, "MB"));
    }
    eprintln!("a minute of rest");
    sleep(Duration::from_secs(60));
    rows.push(("one minute later".to_owned(), process.rss(), "MB"));
    peer.end();
    rows
}

/// Many clients that do nothing, or nothing any more.
fn crowd(stage: &Stage, what: &str, is_used: bool) -> Vec<Row> {
    let peer = three_regions(stage);
    let process = peer.process.as_ref().unwrap();
    sleep(SETTLED);
    let before = process.rss();
    let open = || {
        let mut socket = TcpStream::connect(("127.0.0.1", peer.port)).ok()?;
        if is_used {
            socket.write_all(QUESTION).ok()?;
            let read = socket.read(&mut [0; 4096]).ok()?;
            assert!(read > 0, "a connection was closed");
        }
        Some(socket)
    };
    let held: Vec<_> = (0..IDLE_CONNECTIONS).map_while(|_| open()).collect();
    let each = |process: &Process| (process.rss() - before) * 1e3 / held.len() as f64;
    let at_once = each(process);
    sleep(SETTLED);
    let settled = each(process);
    let count = held.len();
    drop(held);
    sleep(SETTLED);
    let rows = vec![
        (format!("each of {count} connections, {what}, at once"), at_once, "kB"),
        (format!("each of {count} connections, {what}, after {} s", SETTLED.as_secs()), settled, "kB"),
        (format!("after {count} connections, {what}, were closed"), process.rss(), "MB"),
    ];
    peer.end();
    rows
}
