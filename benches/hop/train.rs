//! The load from which an instrumented build of the sidecar learns what is hot: see `.ci/trained`.

use std::time::Duration;

use super::cases::job;
use super::peers::{PROGRAM, Sidecar, sidecar};
use super::stage::Stage;
use super::steady;

/// More than any build answers, so that each connection sends as soon as it is answered and the parts take longer than they say.
/// Units: requests per second.
const RATE: usize = 60_000;
/// Enqueues over HTTP/1.1 to the region, which most regions speak, and a share over HTTP/2. Units: connections, seconds at that rate.
const PARTS: [(&str, usize, u64); 3] = [("h1", 8, 2), ("h1", 64, 6), ("h2", 16, 1)];

/// Arguments: the program. It writes what it has learnt when it ends.
pub(crate) fn run(arguments: &[String]) {
    let [program] = arguments else { panic!("train PROGRAM") };
    PROGRAM.set(program.clone()).unwrap();
    for (protocol, connections, seconds) in PARTS {
        let stage = Stage::new(None, protocol);
        let peer = sidecar(&stage, None, Sidecar { more_regions: 2, ..Sidecar::default() });
        let time = Duration::from_secs(seconds);
        let seen = steady::load(None, peer.port, RATE, connections, time, &job(600));
        println!(
            "{protocol} to the region, {connections} connections: p99.9 of {:.0} ms behind its time",
            seen.p999 / 1e3
        );
        peer.end();
    }
}
