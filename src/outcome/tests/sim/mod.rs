//! Many random histories of one job: calls and their repetitions, crashes at each record, late requests, reads that lag, regions that say
//! nothing or lie, ids that were used before, workers, and the client's own cancellation.
//!
//! `SIM_SEED=n cargo test --lib outcome::tests::sim` replays one seed; `SIM_SEEDS=n` runs another number than 2048.

#![allow(clippy::cast_possible_truncation, reason = "numbers of a simulation are small")]

mod background;
mod history;
mod world;

use super::world::Kind;
use super::*;
use crate::base::Draw;
use crate::outcome::State as Said;
use history::History;

const SEEDS: u64 = 2_048;

/// A machine or a driver that is broken in one place, to see that the judge tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plant {
    /// A "no" counts before the grace is over.
    CountsEarly,
    /// What an earlier round has seen is taken for fresh.
    CancelsUnseen,
    CancelsBoth,
    /// At a restart what is watched is final.
    ForgetsWatched,
    /// A "no" counts also where the job may be hidden from who asks.
    BelievesUntrusted,
    /// Any 2xx is an answer.
    BelievesPages,
    /// Time decides also where ids are guarded.
    NoFence,
}

#[derive(Debug, Clone)]
struct Setting {
    seed: u64,
    kinds: Vec<Kind>,
    own_id: bool,
    /// A region shows the job to its caller only.
    private: bool,
    redirects: bool,
    /// How late requests are at most, and how far reads are behind. Units: milliseconds.
    late_ms: u64,
    lag_ms: u64,
    /// Of requests, in a hundred.
    late_percent: u64,
    plant: Option<Plant>,
}

impl Setting {
    fn random(seed: u64) -> Self {
        let mut draw = Draw::from_seed(seed);
        let regions = 1 + draw.below(3);
        let mix = draw.below(3);
        let kind = |draw: &mut Draw| match mix {
            0 => Kind::Overwrite,
            1 => Kind::Refuse,
            _ => [Kind::Overwrite, Kind::Refuse][draw.below(2) as usize],
        };
        let kinds: Vec<Kind> = (0..regions).map(|_| kind(&mut draw)).collect();
        // A third is within what the rules say.
        let is_honest = draw.below(3) == 0;
        Self {
            seed,
            own_id: draw.below(4) == 0,
            private: draw.below(5) == 0,
            redirects: draw.below(4) == 0,
            late_ms: if is_honest { 1_900 } else { 60_000 },
            lag_ms: if is_honest { 900 } else { [0, 10_000][draw.below(2) as usize] },
            late_percent: [15, 50][draw.below(2) as usize],
            kinds,
            plant: None,
        }
    }

    fn all_guard(&self) -> bool {
        self.kinds.iter().all(|kind| *kind == Kind::Refuse)
    }
}

/// What a history breaks.
fn problems(setting: Setting) -> Vec<String> {
    let it = History::new(setting).run();
    let (world, setting, said) = (&it.world, &it.setting, it.placement.state());
    let mut found = Vec::new();
    if it.told_stored && !world.called_off && world.done == 0 {
        found.push("lost after it was told to be stored".to_owned());
    }
    let overwrites_itself = setting.own_id && !setting.all_guard();
    let is_said = matches!(said, Said::Doubled | Said::Expired);
    if said == Said::Expired && !setting.private && !world.regions.iter().any(world::Region::is_away_long) {
        found.push("given up although its region answers".to_owned());
    }
    if world.started > 1 && !is_said && !overwrites_itself {
        found.push(format!("doubled in silence: {} starts, said {said:?}", world.started));
    }
    let is_within_rules = setting.late_ms <= 2_000 && setting.lag_ms <= 1_000;
    if world.started > 1 && !setting.redirects && (setting.all_guard() || is_within_rules) {
        found.push("doubled at all".to_owned());
    }
    if said == Said::Absent && world.done > 0 && !world.called_off && !overwrites_itself {
        found.push("said to be absent, and was done".to_owned());
    }
    if said == Said::Stored && world.started == 0 && !world.called_off {
        found.push("said to be stored, and never was".to_owned());
    }
    if it.cancelled_unseen {
        found.push("cancelled while no other copy was seen".to_owned());
    }
    if !it.placement.is_at_rest() && !it.placement.copies.is_empty() {
        found.push(format!("not at rest after 60 hours: {:?}", it.placement));
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "a seed to replay is no configuration of the program")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn no_history_loses_a_job_or_hides_a_double() {
    let seeds = number("SIM_SEED").map_or(0..number("SIM_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    let found = |seed| problems(Setting::random(seed)).into_iter().map(move |what| format!("SIM_SEED={seed}: {what}"));
    let found: Vec<String> = seeds.flat_map(found).collect();
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found[..found.len().min(20)].join("\n"));
}

#[test]
fn a_seed_replays_exactly() {
    let run = || History::new(Setting::random(7)).run();
    let (a, b) = (run(), run());
    assert_eq!((&a.placement, a.world.now, a.world.started), (&b.placement, b.world.now, b.world.started));
}

#[test]
fn a_broken_machine_is_caught() {
    let plants = [
        (Plant::CountsEarly, "doubled at all"),
        (Plant::CancelsUnseen, "cancelled while no other"),
        (Plant::CancelsBoth, "lost"),
        (Plant::ForgetsWatched, "doubled in silence"),
        (Plant::BelievesUntrusted, "doubled in silence"),
        (Plant::BelievesPages, "lost"),
        (Plant::NoFence, "doubled at all"),
    ];
    for (plant, promise) in plants {
        let breaks = |seed: &u64| {
            let setting = Setting { plant: Some(plant), ..Setting::random(*seed) };
            problems(setting).iter().any(|what| what.starts_with(promise))
        };
        assert!((0..1_000).any(|seed| breaks(&seed)), "{plant:?} is not caught");
    }
}
