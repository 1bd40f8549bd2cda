//! What a region that falls silent costs: `cargo bench --bench silence`, as root on Linux with iproute2.
//!
//! Two regions and the sidecars run in network namespaces of their own, joined by veth pairs. Under a steady load of flexible jobs the local
//! region falls silent, in two ways: its process is stopped, while its kernel goes on accepting; or its packets are dropped by a black hole
//! in its routes. Then it recovers. Once for one sidecar and once for thirty, in the default configuration; and the same with both regions
//! silent, to see how soon traffic flows when one of them recovers. Prints a table, and ends with an error where a promise is broken: no
//! flexible call that was not already written takes more than 1.5 s, none is refused while the other region is well, and jobs flow within 3 s
//! where there was no other region.

#![allow(unreachable_pub, reason = "modules of one program")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that prints, and fails loudly")]

mod load;
mod net;

use std::time::Duration;

use load::{Call, Load};
use net::{Stage, Way};

/// Before, while and after the region is silent.
const PHASES: [Duration; 3] = [Duration::from_secs(12), Duration::from_secs(12), Duration::from_secs(15)];
/// What no flexible call may take that was not written before the silence was noticed.
const SLOWEST: Duration = Duration::from_millis(1500);
/// How soon jobs flow again after the only region has recovered.
const FLOWS_WITHIN: Duration = Duration::from_secs(3);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, id, address, files] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
        && role == "region"
    {
        return net::serve(id, address, files.as_ref());
    }
    println!(
        "| sidecars | calls/s | local region | calls | p50 ms | p99 ms | max ms | over 1.5 s | unknown | under way at the fall | refused | back after s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut broken = 0;
    for (sidecars, rate) in [(1, 40), (30, 300)] {
        for way in [Way::Stopped, Way::Dropped] {
            broken += measure(sidecars, rate, way);
        }
    }
    for (sidecars, rate) in [(1, 40), (30, 300)] {
        for way in [Way::Stopped, Way::Dropped] {
            broken += alone(sidecars, rate, way);
        }
    }
    assert_eq!(broken, 0, "promises broken");
}

fn measure(sidecars: usize, rate: u32, way: Way) -> usize {
    let stage = Stage::start(sidecars);
    let load = Load::start(stage.sockets(), rate);
    std::thread::sleep(PHASES[0]);
    let (fell, under_way) = (load.now(), load.under_way());
    stage.silence(0, way);
    std::thread::sleep(PHASES[1]);
    stage.recover(0, way);
    let recovered = load.now();
    std::thread::sleep(PHASES[2]);
    let calls = load.end();
    let during: Vec<&Call> = calls.iter().filter(|call| call.began >= fell && call.began < recovered).collect();
    let unknown = |call: &&&Call| call.status == 500;
    let (lost, told): (Vec<&Call>, Vec<&Call>) = during.iter().copied().partition(|call| unknown(&call));
    // What was written to the region and answered when it came back was under way, too.
    let late = told.iter().filter(|call| call.region == "local" && call.began + call.took > recovered).count();
    let mut took: Vec<Duration> = told
        .iter()
        .filter(|call| call.region != "local" || call.began + call.took <= recovered)
        .map(|call| call.took)
        .collect();
    took.sort_unstable();
    let slow = took.iter().filter(|took| **took > SLOWEST).count();
    let refused = told.iter().filter(|call| call.status != 201).count();
    let back = calls.iter().filter(|call| call.began >= recovered && call.region == "local" && call.status == 201);
    let back = back.map(|call| call.began + call.took - recovered).min();
    let at = |share: f64| {
        took.get((took.len() as f64 * share) as usize).or(took.last()).map_or(0.0, |it| it.as_secs_f64() * 1e3)
    };
    println!(
        "| {sidecars} | {rate} | {way} | {} | {:.0} | {:.0} | {:.0} | {slow} | {} | {under_way} | {refused} | {} |",
        during.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        lost.len() + late,
        back.map_or("never".to_owned(), |back| format!("{:.1}", back.as_secs_f64())),
    );
    slow + refused
}

/// Both regions fall silent, the local one recovers: how soon jobs flow at every sidecar when there is no other candidate.
/// 1 where that takes longer than [`FLOWS_WITHIN`] at any of them.
fn alone(sidecars: usize, rate: u32, way: Way) -> usize {
    let stage = Stage::start(sidecars);
    let load = Load::start(stage.sockets(), rate);
    std::thread::sleep(PHASES[0]);
    for region in [0, 1] {
        stage.silence(region, way);
    }
    std::thread::sleep(Duration::from_secs(30));
    stage.recover(0, way);
    let recovered = load.now();
    std::thread::sleep(Duration::from_secs(40));
    let calls = load.end();
    let first = |sidecar: usize| {
        let stored =
            calls.iter().filter(|call| call.sidecar == sidecar && call.began >= recovered && call.status == 201);
        stored.map(|call| call.began + call.took - recovered).min().unwrap_or(Duration::MAX)
    };
    let slowest = (0..sidecars).map(first).max().unwrap_or(Duration::MAX);
    let flows = if slowest == Duration::MAX { "never".to_owned() } else { format!("{:.1} s", slowest.as_secs_f64()) };
    println!(
        "\nboth regions {way} for 30 s, {sidecars} sidecars: jobs flow at the last one {flows} after one region recovered"
    );
    usize::from(slowest > FLOWS_WITHIN)
}
