//! What hostile peers cost: `cargo bench --bench peers [-- NAME…]`, and on one thread `-- --one-thread`.
//!
//! The released program runs as its own process between a demo region and a region that misbehaves. Each crowd of peers is let
//! loose on it in several rounds; in every round a well-behaved client, which enqueues one job after the other on one connection,
//! is timed three times: alone, while the crowd has its way with another sidecar on the same machine, and beside the crowd. The
//! second tells what the crowd costs by the processors that it takes, the third what it costs beyond that. Medians over the
//! rounds are compared within the run, so that they mean something on any machine; the program's memory and open files are read
//! from the system. Printed as a table; `docs/peers.md` explains it.

#![allow(unreachable_pub, reason = "modules of one program")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that prints, and fails loudly")]

mod client;
mod crowd;
mod mad;
mod sidecar;

use std::time::Duration;

use client::{Timed, Times};
use crowd::{CROWDS, Crowd, Kind};
use sidecar::{Program, Sidecar, Usage};

const ROUNDS: usize = 5;
const ALONE: Duration = Duration::from_secs(1);
const BESIDE: Duration = Duration::from_secs(1);
/// What a crowd has for going away.
const PAUSE: Duration = Duration::from_millis(300);
/// How long memory may take to come back once a crowd has gone.
const AFTERWARDS: Duration = Duration::from_secs(3);

fn main() {
    sidecar::raise_limit();
    let threads = if std::env::args().any(|argument| argument == "--one-thread") { 1 } else { 0 };
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mad = mad::start();
    println!(
        "{ROUNDS} rounds each; p50, p90 and p99 of one enqueue in µs: alone, with the crowd at another sidecar, and beside the crowd; \
         in brackets the last one's ratio to each of the others, medians over the rounds\n"
    );
    println!(
        "| crowd | peers | RSS MiB before, during, after | kB each | files before, during, after | p50 | p90 | p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut worst: f64 = 0.0;
    for kind in CROWDS.iter().filter(|kind| wanted.is_empty() || wanted.iter().any(|name| kind.name.contains(name))) {
        worst = worst.max(measure(kind, mad, threads));
    }
    println!("\nworst ratio of medians: {worst:.2}");
}

fn measure(kind: &Kind, mad: std::net::SocketAddr, threads: usize) -> f64 {
    let region = Program::region();
    let sidecar = Sidecar::start(region.address, mad, threads);
    let other = Sidecar::start(region.address, mad, threads);
    let mut client = Timed::connect(sidecar.address);
    client.run(ALONE);
    let before = sidecar.usage();
    let mut during = Usage::default();
    let [mut alone, mut elsewhere, mut beside] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        alone.push(client.run(ALONE));
        let crowd = Crowd::start(kind, other.address);
        elsewhere.push(client.run(BESIDE));
        drop(crowd);
        std::thread::sleep(PAUSE);
        let crowd = Crowd::start(kind, sidecar.address);
        beside.push(client.run(BESIDE));
        during = during.max(sidecar.usage());
        drop(crowd);
        std::thread::sleep(PAUSE);
    }
    std::thread::sleep(AFTERWARDS);
    let after = sidecar.usage();
    let ratio = |of: fn(&Times) -> f64, to: &[Times]| median(beside.iter().zip(to).map(|(one, two)| of(one) / of(two)));
    let cell = |of: fn(&Times) -> f64| {
        let [alone_us, elsewhere_us, beside_us] =
            [&alone, &elsewhere, &beside].map(|times| median(times.iter().map(of)));
        let [to_alone, to_elsewhere] = [&alone, &elsewhere].map(|times| ratio(of, times));
        format!("{alone_us:.0}, {elsewhere_us:.0}, {beside_us:.0} ({to_alone:.2}, {to_elsewhere:.2})")
    };
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let each = (during.rss_kib.saturating_sub(before.rss_kib)) as f64 * 1.024 / kind.peers as f64;
    println!(
        "| {} | {} | {}, {}, {} | {each:.1} | {}, {}, {} | {} | {} | {} |",
        kind.name,
        kind.peers,
        before.rss_kib / 1024,
        during.rss_kib / 1024,
        after.rss_kib / 1024,
        before.files,
        during.files,
        after.files,
        cell(|times| times.p50),
        cell(|times| times.p90),
        cell(|times| times.p99),
    );
    ratio(|times| times.p50, &alone)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
