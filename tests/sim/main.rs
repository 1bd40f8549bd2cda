//! A seeded simulation of the pure core in virtual time: up to a thousand sidecars, two to six regions, faults of all kinds.
//!
//! `SIM_SEED=n cargo test --test sim` replays one seed; `SIM_SEEDS=n` runs another number of seeds than 256. `docs/failure.md`
//! says what the figures mean; `FAILURE_UPDATE=1 cargo test --test sim figures` writes its pictures and numbers.

#![allow(unreachable_pub, reason = "modules of one test binary")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "numbers of a simulation are small"
)]
#![allow(clippy::print_stdout, reason = "figures are printed beside the verdict")]

mod config;
mod engine;
mod figures;
mod ledger;
mod measure;
mod quotas;
mod region;
mod scenario;
mod scenarios;
mod sidecar;
mod svg;

use std::env;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::Sim;
use measure::{Flaps, Ramp, Stampede};
use scenario::{Sabotage, Scenario};

const SEEDS: u64 = 256;
/// Of every eight seeds one is calm, one recovers, one flaps and one draws on the budget; the others are random.
const KINDS: u64 = 8;

#[expect(clippy::disallowed_methods, reason = "a seed to replay is no configuration of the program")]
fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Plays one seed; what it broke.
fn play(seed: u64) -> Vec<String> {
    match seed % KINDS {
        0 => Stampede::of(&Sim::new(scenarios::stampede(seed, 100, false)).run()).problems(),
        2 => Ramp::of(&Sim::new(scenarios::recovery(seed, 40, false)).run()).problems(),
        4 => Flaps::of(&Sim::new(scenarios::flapping(seed, 8, false)).run()).problems(),
        6 => broken(&Sim::new(scenarios::refusing(seed)).run()),
        _ => broken(&Sim::new(scenarios::random(seed)).run()),
    }
}

/// What the ledger tells.
pub fn broken(sim: &Sim) -> Vec<String> {
    sim.ledger.broken.iter().map(|(promise, told)| format!("{promise}: {}", told.join("; "))).collect()
}

#[test]
fn every_promise_holds_for_every_seed() {
    let seeds: Vec<u64> = match number("SIM_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("SIM_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    let (next, total) = (AtomicU64::new(0), seeds.len());
    let failed: Vec<String> = std::thread::scope(|scope| {
        let play_some = || {
            let mut failed = Vec::new();
            while let Some(&seed) = seeds.get(next.fetch_add(1, Relaxed) as usize) {
                failed.extend(play(seed).into_iter().map(|what| format!("SIM_SEED={seed}: {what}")));
            }
            failed
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(play_some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "of {total} seeds:\n{}", failed.join("\n"));
}

#[test]
fn a_seed_replays_exactly() {
    let run = || Sim::new(scenarios::random(3)).run();
    let (a, b) = (run(), run());
    assert_eq!((a.ledger.jobs(), a.attempts, a.confirmed), (b.ledger.jobs(), b.attempts, b.confirmed));
    assert!(a.confirmed > 0);
}

/// Whether some seed of a broken core breaks this promise.
fn caught(sabotage: Sabotage, promise: &str) -> bool {
    let kinds = |seed: &u64| matches!(seed % KINDS, 1 | 3 | 5 | 6 | 7) && seed % 64 != 5;
    (0..64).filter(kinds).any(|seed| {
        let scenario = if seed % KINDS == 6 { scenarios::refusing(seed) } else { scenarios::random(seed) };
        let scenario = Scenario { sabotage: Some(sabotage), ..scenario };
        Sim::new(scenario).run().ledger.broken.contains_key(promise)
    })
}

#[test]
fn a_core_that_breaks_a_promise_is_caught() {
    assert!(caught(Sabotage::LosesPins, "pins never leave"));
    assert!(caught(Sabotage::ProbesFreely, "one probe in half-open"));
    assert!(caught(Sabotage::RedirectsFreely, "attempts within 1 + max_redirects"));
    assert!(caught(Sabotage::PaysFreely, "attempts within budget"));
    assert!(caught(Sabotage::ResendsUnknown, "nothing sent twice"));
    assert!(caught(Sabotage::ResendsUnknown, "nothing stored twice"));
}

#[test]
fn a_core_without_ramp_hold_down_or_drawing_among_equals_is_caught() {
    for seed in [2, 10] {
        assert!(!Ramp::of(&Sim::new(scenarios::recovery(seed, 40, true)).run()).problems().is_empty(), "{seed}");
        assert!(!Flaps::of(&Sim::new(scenarios::flapping(seed, 8, true)).run()).problems().is_empty(), "{seed}");
        assert!(!Stampede::of(&Sim::new(scenarios::stampede(seed, 100, true)).run()).problems().is_empty(), "{seed}");
    }
}
