use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::base::{Share, Strategy, SwitchKind};
use crate::config::{Config, Matcher, Rule};
use crate::policy::testing::{config, healthy, ids, inputs, names, plain};
use crate::policy::{BreakerState, Health, RegionIndex, settle};

const MINUTE: Duration = Duration::from_secs(60);

/// A view of three regions with a drill of the first one.
fn drill_of(share: &str, now: Instant, change: impl FnOnce(&mut Config)) -> View {
    let mut config = config(&["us", "eu", "ap"]);
    config.routing.strategy = Strategy::ActivePassive;
    change(&mut config);
    let mut view = healthy(&config);
    let drill = Drill::new(7, RegionIndex::new(0), Share::parse(share).unwrap(), now + MINUTE);
    view.drill = Some(Arc::new(drill));
    settle(&mut view, now);
    view
}

/// The candidates of a plain job with this number, and its part.
fn decided(view: &View, job: &Job<'_>, now: Instant, number: u64) -> (String, Option<DrillPart>) {
    let decision = route(view, job, Inputs { drill: &number, ..inputs(now, 0) }).unwrap();
    (names(view, &decision), decision.drilled.map(|it| it.part))
}

fn all(view: &View, job: &Job<'_>, now: Instant) -> (String, Option<DrillPart>) {
    decided(view, job, now, 0)
}

#[test]
fn a_diverted_job_goes_where_it_would_without_the_region_and_comes_back_last() {
    let now = Instant::now();
    let view = drill_of("50%", now, |_| ());
    assert_eq!(decided(&view, &plain(), now, 0), ("us eu ap".to_owned(), Some(DrillPart::Control)));
    assert_eq!(decided(&view, &plain(), now, 1), ("eu ap us".to_owned(), Some(DrillPart::Diverted)));
    assert_eq!(decided(&view, &plain(), now + MINUTE, 1), ("us eu ap".to_owned(), None), "its time is over");
    let of_eu = Job { affinity: Some("active-passive"), tenant: None, ..plain() };
    assert_eq!(decided(&view, &of_eu, now, 1).1, Some(DrillPart::Diverted));
    let one_other = drill_of("100%", now, |config| config.failover.max_redirects = 1);
    assert_eq!(all(&one_other, &plain(), now), ("eu us".to_owned(), Some(DrillPart::Diverted)));
    let mut grounds = Grounds::default();
    let decision = route_on(&view, &plain(), Inputs { drill: &1, ..inputs(now, 0) }, &mut grounds).unwrap();
    assert_eq!(decision.drilled, Some(Drilled { number: 7, part: DrillPart::Diverted }));
    assert_eq!(grounds.fallen.listed(), [(0, Refusal::Drilled)], "it is explained");
}

#[test]
fn a_job_that_is_bound_or_has_no_other_region_stays() {
    let now = Instant::now();
    let stays = |why| ("us".to_owned(), Some(DrillPart::Kept(why)));
    let view = drill_of("100%", now, |config| {
        let only = |queue: &str, regions: &[&str]| Rule {
            matcher: Matcher { queue: Some(queue.to_owned()), ..Matcher::default() },
            regions: ids(regions),
            strategy: None,
            ledger: None,
        };
        config.routing.rules = vec![only("one", &["us"]), only("two", &["us", "eu"])];
    });
    let pinned = Job { pin: Some("us"), ..plain() };
    assert_eq!(all(&view, &pinned, now), stays(DrillKept::Bound));
    assert_eq!(all(&view, &Job { pin: Some("eu"), ..plain() }, now), ("eu".to_owned(), None));
    assert_eq!(all(&view, &Job { queue: "one", ..plain() }, now), stays(DrillKept::Bound));
    assert_eq!(all(&view, &Job { queue: "two", ..plain() }, now).0, "eu us");
    for number in 0..4 {
        let named = Job { repeatable: true, ..plain() };
        let part = Some(DrillPart::Kept(DrillKept::Named));
        assert_eq!(decided(&view, &named, now, number), ("us eu ap".to_owned(), part));
    }
    let off = drill_of("100%", now, |config| config.failover.max_redirects = 0);
    assert_eq!(all(&off, &plain(), now), stays(DrillKept::NoFailover));
    for change in [
        |view: &mut View| view.regions[1].breaker = BreakerState::Open,
        |view: &mut View| view.regions[1].health = Health::Unhealthy,
        |view: &mut View| view.regions[1].switch = Some(SwitchKind::Forbid),
        |view: &mut View| view.regions[1].weight = 0,
    ] {
        let mut view = drill_of("100%", now, |config| config.failover.max_redirects = 3);
        change(&mut view);
        settle(&mut view, now);
        assert_eq!(all(&view, &plain(), now), ("ap us".to_owned(), Some(DrillPart::Diverted)));
        view.regions[2].silent = true;
        settle(&mut view, now);
        assert_eq!(all(&view, &plain(), now).1, Some(DrillPart::Kept(DrillKept::NoOther)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Whatever the regions' states, the share, the strategy and the job: the dry run says what the live call does; a diverted job goes exactly where it
    /// goes without the region, and then to it; any other job goes where it goes without a drill.
    #[test]
    fn a_drill_moves_a_job_as_the_loss_of_the_region_would_or_not_at_all(
        states in proptest::array::uniform3(0_u8..5),
        share in 0_u16..=10_000,
        number in 0_u64..20_000,
        seed in 0_u64..1_000,
        strategy in 0_usize..6,
        redirects in 0_u32..4,
        pin in 0_usize..9,
    ) {
        let now = Instant::now();
        let strategies = [Strategy::ActivePassive, Strategy::RoundRobin, Strategy::LatencyBased, Strategy::Weighted, Strategy::Affinity, Strategy::Overflow];
        let mut view = drill_of("1%", now, |config| {
            config.routing.strategy = strategies[strategy];
            config.failover.max_redirects = redirects as usize;
        });
        let share = Share::try_from(share).unwrap();
        view.drill = Some(Arc::new(Drill::new(1, RegionIndex::new(0), share, now + MINUTE)));
        for (region, state) in view.regions.iter_mut().zip(states) {
            match state {
                1 => region.health = Health::Unhealthy,
                2 => region.breaker = BreakerState::Open,
                3 => region.switch = Some(SwitchKind::Drain),
                _ => {}
            }
        }
        settle(&mut view, now);
        let mut plain_view = view.clone();
        plain_view.drill = None;
        settle(&mut plain_view, now);
        let mut lost = plain_view.clone();
        lost.regions[0].breaker = BreakerState::Open;
        settle(&mut lost, now);
        let job = Job { pin: ["us", "eu", "ap"].get(pin).copied(), ..plain() };
        let inputs = Inputs { drill: &number, ..inputs(now, seed) };
        let live = route(&view, &job, inputs);
        prop_assert_eq!(&live, &explain(&view, &job, inputs).outcome);
        let before = route(&plain_view, &job, inputs);
        match live {
            Err(error) => prop_assert_eq!(Err(error), before),
            Ok(decision) => match decision.drilled.map(|it| it.part) {
                Some(DrillPart::Diverted) => {
                    prop_assert!(share.draws(number) && job.pin.is_none());
                    prop_assert_eq!(before.unwrap().target(), Some(RegionIndex::new(0)));
                    let (last, others) = decision.candidates.split_last().unwrap();
                    let there = route(&lost, &job, inputs).unwrap().candidates;
                    prop_assert_eq!((last.get(), others), (0, &there[..others.len()]));
                    prop_assert!(decision.candidates.len() <= view.settings.candidates_max);
                }
                part => {
                    prop_assert!(part != Some(DrillPart::Control) || !share.draws(number));
                    let undrilled = Decision { drilled: None, ..decision };
                    prop_assert_eq!(undrilled, before.unwrap());
                }
            },
        }
    }
}
