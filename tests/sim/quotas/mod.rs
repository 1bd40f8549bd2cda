//! Quotas over simulated time: a hundred sidecars, the program's own pure core and its part that asks the hub, and a hub that comes and goes. Sidecars are
//! killed, with or without their workers, and one after the other is cut off alone; answers of the region are lost, and leases are of several lengths.
//!
//! `QUOTA_SIM_SEED=n cargo test --test sim quotas` replays one seed; `QUOTA_SIM_SEEDS=n` runs another number of seeds than 2, and
//! `QUOTA_SIM_SECONDS=n` longer ones: `make quotas-proof` plays two hours of each seed.

mod hub;
mod judge;
mod region;
mod run;
mod sidecar;

use ojs_sidecar::policy::{ANY, OnHubLoss, OverLimit, Quota};

use run::Run;

const SEEDS: u64 = 2;
/// How long each run lasts. Stretches of any length are judged, and an hour of one quota is spent at once. Units: seconds.
const LASTS_S: u64 = 300;
/// By how much longer, for the quiet end of a run: the jobs that are due at its beginning are done at its end. Units: seconds.
const QUIET_S: u64 = 300;
/// Seeds of broken cores, one of which is seen to be broken.
const SABOTAGED: std::ops::Range<u64> = 1..5;
/// Tenants, the first ones of which have quotas.
pub const TENANTS: usize = 20;
pub const SIDECARS: usize = 100;

/// A core that is broken in one place, to see that the judge tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A hub that was killed has lost its record.
    ForgetsRecord,
    /// The hub forgets tokens that were taken less than an hour ago.
    ForgetsHour,
    /// A job that its region refuses gives its token back twice.
    GivesBackTwice,
    /// A sidecar forgets the jobs that it has fetched.
    ForgetsLeases,
    /// A delayed job is stored for now.
    ForgetsTimes,
    /// A sidecar keeps the slots of jobs that have ended.
    KeepsSlots,
    /// No FETCH finds a slot.
    GrantsNone,
}

fn quota(tenant: usize, max_per_hour: u64, max_active: Option<u64>) -> Quota {
    Quota {
        tenant: name(tenant),
        job_type: ANY.to_owned(),
        profile: None,
        max_per_hour,
        burst: if max_per_hour == 0 { 0 } else { (max_per_hour / 20).max(1) },
        max_active,
        queues: Vec::new(),
        over_limit: OverLimit::Refuse,
        on_hub_loss: OnHubLoss::Hold,
        local_per_hour: None,
        local_active: None,
    }
}

/// The name of a tenant.
pub fn name(tenant: usize) -> String {
    format!("tenant-{tenant}")
}

/// The quotas: of tenants, by hour, by active jobs or by both; and one of a type of all tenants that have none of their own.
pub fn quotas() -> Vec<Quota> {
    // An hour of it is spent at once.
    let at_once = Quota { burst: 120, ..quota(0, 120, None) };
    let delay = Quota { over_limit: OverLimit::Delay, ..quota(1, 240, Some(2)) };
    let no_hub = Quota { on_hub_loss: OnHubLoss::Refuse, ..quota(2, 0, Some(20)) };
    let of_type = Quota { tenant: ANY.to_owned(), job_type: "report".to_owned(), ..quota(0, 1_800, None) };
    let of_type = Quota { over_limit: OverLimit::Delay, ..of_type };
    vec![at_once, delay, no_hub, quota(3, 0, Some(3)), of_type]
}

#[test]
fn no_tenant_is_above_its_quota_with_a_hundred_sidecars_and_a_hub_that_comes_and_goes() {
    let seeds: Vec<u64> = match crate::number("QUOTA_SIM_SEED") {
        Some(seed) => vec![seed],
        None => (0..crate::number("QUOTA_SIM_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    let lasts = crate::number("QUOTA_SIM_SECONDS").unwrap_or(LASTS_S);
    for part in seeds.chunks(2) {
        let play = |seed: &u64| (*seed, Run::new(*seed, None).play(lasts, QUIET_S));
        let played: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = part.iter().map(|seed| scope.spawn(move || play(seed))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (seed, judged) in played {
            println!("QUOTA_SIM_SEED={seed}: {}", judged.figures);
            let (count, first) = (judged.broken.len(), &judged.broken[..judged.broken.len().min(40)]);
            assert!(count == 0, "QUOTA_SIM_SEED={seed}: {count} of this kind:\n{}", first.join("\n"));
        }
    }
}

#[test]
fn a_seed_of_quotas_replays_exactly() {
    let play = || Run::new(7, None).play(60, 0).figures;
    assert_eq!(play(), play());
}

#[test]
fn a_core_of_quotas_that_breaks_a_promise_is_caught() {
    for (sabotage, lasts, words) in [
        (Sabotage::ForgetsRecord, (300, 0), &["in an hour", "above: tenant"][..]),
        (Sabotage::GivesBackTwice, (300, 0), &["in an hour"]),
        (Sabotage::ForgetsLeases, (120, 0), &["above: tenant"]),
        (Sabotage::ForgetsTimes, (120, 0), &["bucket"]),
        (Sabotage::KeepsSlots, (120, QUIET_S), &["undone"]),
        (Sabotage::GrantsNone, (60, 60), &["unreached", "undone"]),
    ] {
        let is_caught = SABOTAGED.clone().any(|seed| {
            let broken = Run::new(seed, Some(sabotage)).play(lasts.0, lasts.1).broken;
            words.iter().all(|word| broken.iter().any(|it| it.contains(word)))
        });
        assert!(is_caught, "{sabotage:?}");
    }
}

#[test]
fn an_hour_that_has_too_many_jobs_is_caught_where_no_minute_has() {
    let broken = |seed, sabotage| {
        let broken = Run::new(seed, sabotage).play_twice(150, 3_000).broken;
        broken.into_iter().filter(|it| it.contains("in an hour")).collect::<Vec<String>>()
    };
    let is_caught = SABOTAGED.clone().any(|seed| {
        assert_eq!(broken(seed, None), Vec::<String>::new(), "{seed}");
        broken(seed, Some(Sabotage::ForgetsHour)).iter().any(|it| it.contains("tenant-0"))
    });
    assert!(is_caught);
}
