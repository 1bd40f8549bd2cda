//! The load under which a build of the sidecar is trained: see `tools/release/profile` and `tools/release/order`.

use std::time::Duration;

use super::cases::job;
use super::peers::{PROGRAM, Sidecar, ask, sidecar};
use super::stage::Stage;
use super::steady::{self, Pace};

/// More than any build answers, so that each connection sends as soon as it is answered and the parts take longer than they say.
/// Units: requests per second.
const RATE: usize = 60_000;
/// At rest, then enqueues over HTTP/1.1 to the region, which most regions speak, and a share over HTTP/2; a few of them large. Units:
/// connections, seconds at that rate, bytes of a job, and one in how many of the rate.
const PARTS: [(&str, usize, u64, usize, usize); 6] = [
    ("h1", 0, 5, 0, 1),
    ("h1", 8, 2, 600, 1),
    ("h1", 64, 6, 600, 1),
    ("h2", 16, 1, 600, 1),
    ("h1", 16, 4, 20_000, 20),
    ("h1", 16, 4, 120_000, 100),
];
/// What else a pod asks its sidecar.
const CALLS: [&str; 4] = [
    "GET /ojs/v1/jobs/019539a4-b68c-7def-8000-1a2b3c4d5e6f",
    "GET /ojs/v1/health",
    "GET /v1/federation/health",
    "GET /v1/federation/regions",
];
/// What its operator asks.
const OPERATOR: [&str; 3] = ["GET /metrics", "GET /livez", "GET /readyz"];
/// Failures in a hundred requests that leave the counts as good as without them.
const FAILED_MAX: usize = 5;
/// As often as makes no difference to what is hot.
const TIMES: usize = 3;

/// Arguments: the program, and a rate where it is so slow that the usual number of requests would take hours. The program writes
/// what it has learnt when it ends.
pub(crate) fn run(arguments: &[String]) {
    let (program, rate) = match arguments {
        [program] => (program, RATE),
        [program, rate] => (program, rate.parse().expect("RATE is a number of requests per second")),
        _ => panic!("train PROGRAM [RATE]"),
    };
    PROGRAM.set(program.clone()).unwrap();
    for (protocol, connections, seconds, bytes, one_in) in PARTS {
        let stage = Stage::new(None, protocol);
        let peer = sidecar(&stage, None, Sidecar { more_regions: 2, ..Sidecar::default() });
        let time = Duration::from_secs(seconds);
        if connections == 0 {
            std::thread::sleep(time);
            peer.end();
            continue;
        }
        // Each connection sends something.
        let rate = (rate / one_in).max(connections);
        let pace = Pace { rate, connections, time, failed_max: FAILED_MAX };
        let seen = steady::load(None, &[peer.port], pace, &job(bytes));
        for _ in 0..TIMES {
            for (port, calls) in [(peer.port, &CALLS[..]), (peer.admin.unwrap(), &OPERATOR[..])] {
                calls.iter().for_each(|call| assert!(ask(port, call).unwrap().starts_with("HTTP/1.1 "), "{call}"));
            }
        }
        println!(
            "{protocol} to the region, {connections} connections, jobs of {bytes} bytes: p99.9 of {:.0} ms behind its time",
            seen[0].p999 / 1e3
        );
        peer.end();
    }
}
