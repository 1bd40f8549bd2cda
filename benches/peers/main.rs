//! What hostile peers cost: `cargo bench --bench peers [-- NAME…]`.
//!
//! The released program runs as its own process between a demo region and a region that misbehaves. Each crowd of peers is let
//! loose on it in several rounds; in every round a well-behaved client, which enqueues one job after the other on one connection,
//! is timed alone and then beside the crowd. Medians over the rounds are compared within the run, so that they mean something on
//! any machine; the program's memory and open files are read from the system. Printed as a table; `docs/peers.md` explains it.

#![allow(unreachable_pub, reason = "modules of one program")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that prints, and fails loudly")]

mod client;
mod crowd;
mod mad;
mod sidecar;

use std::time::Duration;

use client::Timed;
use crowd::{CROWDS, Crowd, Kind};
use sidecar::{Program, Sidecar, Usage};

const ROUNDS: usize = 5;
const ALONE: Duration = Duration::from_millis(1500);
const BESIDE: Duration = Duration::from_millis(1500);
/// How long memory may take to come back once a crowd has gone.
const AFTERWARDS: Duration = Duration::from_secs(3);

fn main() {
    sidecar::raise_limit();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mad = mad::start();
    println!(
        "{ROUNDS} rounds each; p50 and p99 of one enqueue, alone and beside the crowd; ratios are medians over the rounds\n"
    );
    println!(
        "| crowd | peers | RSS MiB before, during, after | kB each | files before, during, after | p50 µs | ratio | p99 µs | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut worst: f64 = 0.0;
    for kind in CROWDS.iter().filter(|kind| wanted.is_empty() || wanted.iter().any(|name| kind.name.contains(name))) {
        worst = worst.max(measure(kind, mad));
    }
    println!("\nworst ratio of medians: {worst:.2}");
}

fn measure(kind: &Kind, mad: std::net::SocketAddr) -> f64 {
    let region = Program::region();
    let sidecar = Sidecar::start(region.address, mad);
    let mut client = Timed::connect(sidecar.address);
    client.run(ALONE);
    let before = sidecar.usage();
    let mut during = Usage::default();
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(client.run(ALONE));
        let crowd = Crowd::start(kind, sidecar.address);
        beside.push(client.run(BESIDE));
        during = during.max(sidecar.usage());
        drop(crowd);
        std::thread::sleep(Duration::from_millis(300));
    }
    std::thread::sleep(AFTERWARDS);
    let after = sidecar.usage();
    let ratios = |of: fn(&client::Times) -> f64| median(alone.iter().zip(&beside).map(|(one, two)| of(two) / of(one)));
    let typical = |of: fn(&client::Times) -> f64| (median(alone.iter().map(of)), median(beside.iter().map(of)));
    let (p50, p99) = (typical(|times| times.p50), typical(|times| times.p99));
    let (r50, r99) = (ratios(|times| times.p50), ratios(|times| times.p99));
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let each = (during.rss_kib.saturating_sub(before.rss_kib)) as f64 * 1.024 / kind.peers as f64;
    println!(
        "| {} | {} | {}, {}, {} | {each:.1} | {}, {}, {} | {:.0}, {:.0} | {r50:.2} | {:.0}, {:.0} | {r99:.2} |",
        kind.name,
        kind.peers,
        before.rss_kib / 1024,
        during.rss_kib / 1024,
        after.rss_kib / 1024,
        before.files,
        during.files,
        after.files,
        p50.0,
        p50.1,
        p99.0,
        p99.1,
    );
    r50
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
