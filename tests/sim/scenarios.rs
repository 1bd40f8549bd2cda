//! What is simulated: a scenario for each seed, and the few that the document's figures come from.

use ojs_sidecar::base::Draw;

use crate::config::{Knobs, NAIVE_BREAKER};
use crate::region::Fault;
use crate::scenario::Scenario;

/// Faults of all kinds at random times, some on top of each other; the last half minute is for recovery.
pub fn random(seed: u64) -> Scenario {
    let mut draw = Draw::from_seed(seed ^ 0x5eed);
    let regions = 2 + draw.below(5) as usize;
    let seconds = 60 + draw.below(120);
    // Most fleets are small, so that many seeds fit a run; every 64th has a thousand sidecars.
    let (sidecars, jobs_per_s) = match seed % 64 {
        5 => (1_000, 0.05),
        it if it % 8 == 1 => (1 + draw.below(3) as usize, 8.0),
        _ => (1 + draw.below(30) as usize, 0.5 + draw.unit()),
    };
    let strategies = ["affinity", "overflow", "weighted", "round-robin", "latency-based", "active-passive"];
    let faults = (0..1 + draw.below(7)).flat_map(|_| {
        let (region, begins) = (draw.below(regions as u64) as usize, 5 + draw.below(seconds - 35));
        let lasts = 3 + draw.below(40);
        let fault = match draw.below(10) {
            0 | 1 => Fault::Down,
            2 => Fault::Silent,
            3 => Fault::Slow([200, 2_000, 6_000, 30_000][draw.below(4) as usize]),
            4 | 5 => Fault::Grey(20 + draw.below(80)),
            6 => Fault::Flapping(1_000 + draw.below(12_000)),
            9 => Fault::Refusing(20 + draw.below(60)),
            7 => [Fault::LateWrites, Fault::Busy][draw.below(2) as usize],
            _ => Fault::Partition,
        };
        [(begins, region, fault), ((begins + lasts).min(seconds - 30), region, Fault::Up)]
    });
    let faults = faults.collect();
    let polls = draw.below(2) == 0;
    Scenario {
        seed,
        knobs: Knobs {
            regions,
            weights: (0..regions).map(|_| 1 + draw.below(4) as u32).collect(),
            strategy: strategies[draw.below(6) as usize],
            max_redirects: draw.below(4) as usize,
            breaker: "{}",
        },
        sidecars,
        seconds,
        jobs_per_s,
        pinned_percent: [0, 10, 50][draw.below(3) as usize],
        fetches_per_s: [0.0, 0.5][draw.below(2) as usize],
        one_home: draw.below(2) == 0,
        faults,
        backlog: if polls { 500 } else { 0 },
        drain_per_s: if polls { sidecars as f64 * jobs_per_s } else { 1e9 },
        ..Scenario::default()
    }
}

/// One region says of two jobs in five that it does not take them: too few to open anything, too many to send all elsewhere.
pub fn refusing(seed: u64) -> Scenario {
    Scenario {
        seed,
        sidecars: 3,
        seconds: 90,
        jobs_per_s: 20.0,
        faults: vec![(5, 0, Fault::Refusing(40))],
        ..Scenario::default()
    }
}

/// Nothing is wrong; all jobs may go anywhere, and workers are just fast enough.
pub fn stampede(seed: u64, sidecars: usize, least_loaded: bool) -> Scenario {
    let regions = 4 + (seed % 3) as usize;
    let weights =
        if seed.is_multiple_of(2) { vec![1; regions] } else { (0..regions).map(|it| 1 + it as u32 % 2).collect() };
    let jobs_per_s = 200.0 / sidecars as f64;
    Scenario {
        seed,
        knobs: Knobs { regions, weights, strategy: "overflow", ..Knobs::default() },
        sidecars,
        seconds: 120,
        jobs_per_s,
        backlog: 4_000,
        // Every other one begins far from even, as after an outage: what has to be evened out must not become a crowd.
        uneven: if seed.is_multiple_of(16) { 0.5 } else { 0.03 },
        drain_per_s: 200.0,
        least_loaded,
        ..Scenario::default()
    }
}

/// The region that all jobs are meant for is gone for half a minute and cold when it comes back.
pub fn recovery(seed: u64, sidecars: usize, naive: bool) -> Scenario {
    // Often enough for breakers to open before the next probe: then they close together as well.
    let jobs_per_s = (400.0 / sidecars as f64).max(2.0);
    Scenario {
        seed,
        knobs: Knobs { breaker: if naive { NAIVE_BREAKER } else { "{}" }, ..Knobs::default() },
        sidecars,
        seconds: 100,
        jobs_per_s,
        // Between two rounds of probes, so that breakers tell first.
        faults: vec![(14, 0, Fault::Down), (44, 0, Fault::Up)],
        cold: Some(jobs_per_s * sidecars as f64),
        ..Scenario::default()
    }
}

/// The region that all jobs are meant for comes and goes for ten minutes.
pub fn flapping(seed: u64, sidecars: usize, naive: bool) -> Scenario {
    Scenario {
        seed,
        knobs: Knobs { regions: 2, breaker: if naive { NAIVE_BREAKER } else { "{}" }, ..Knobs::default() },
        sidecars,
        seconds: 660,
        jobs_per_s: 0.05,
        faults: vec![(20, 0, Fault::Flapping(15_000)), (620, 0, Fault::Up)],
        ..Scenario::default()
    }
}

/// One region of three is down for a minute and a half; what counts are the probes that it gets.
pub fn probes(seed: u64, sidecars: usize, naive: bool) -> Scenario {
    Scenario {
        seed,
        sidecars,
        seconds: 170,
        jobs_per_s: 0.5,
        faults: vec![(40, 0, Fault::Down), (130, 0, Fault::Up)],
        plain_probes: naive,
        ..Scenario::default()
    }
}
