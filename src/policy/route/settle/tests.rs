use std::collections::HashSet;
use std::time::Duration;

use super::*;
use crate::base::SwitchKind;
use crate::policy::testing::{config, healthy, ids, inputs, named, plain};
use crate::policy::{Health, route};

const SECOND: Duration = Duration::from_secs(1);

/// Those that find once for a view what they can.
const STRATEGIES: [&str; 5] = ["affinity", "weighted", "round-robin", "latency-based", "active-passive"];

/// One region is in some state; whether its view has an order for all jobs, and that jobs find what they find without.
fn check_settled(is_settled: bool, change: impl FnOnce(&mut crate::policy::RegionView, Instant)) {
    let start = Instant::now();
    let mut view = healthy(&config(&["us", "eu", "ap"]));
    change(&mut view.regions[0], start);
    let mut settled = view.clone();
    settle(&mut settled, start);
    assert_eq!(settled.settled.0.is_some(), is_settled);
    assert!(settled.clone().settled.0.is_none(), "a copy is made to be changed");
    for seed in 0..200 {
        let inputs = inputs(start + SECOND / 10 * u32::try_from(seed).unwrap(), seed);
        for job in STRATEGIES.map(named).into_iter().chain([plain(), Job { pin: Some("us"), ..plain() }]) {
            assert_eq!(route(&settled, &job, inputs), route(&view, &job, inputs), "{seed}");
        }
    }
}

#[test]
fn an_order_that_is_found_once_is_what_each_job_would_find() {
    check_settled(true, |_, _| {});
    check_settled(true, |region, _| region.health = Health::Unhealthy);
    check_settled(true, |region, _| region.held = true);
    for kind in [SwitchKind::Forbid, SwitchKind::Drain, SwitchKind::Evacuate, SwitchKind::Isolate] {
        check_settled(true, |region, _| region.switch = Some(kind));
    }
    check_settled(true, |region, now| region.recovered_at = Some(now));
    let trial = |now| crate::policy::GuardState::Trial { since: now, all_at: now + SECOND * 15 };
    check_settled(false, |region, now| region.guards = region.guards.map(|_| trial(now)));
    // What a region once asked for is over some day.
    let signed = |at| crate::policy::Pressure::after_sign(None, at, None, false);
    check_settled(false, |region, now| region.pressure = signed(now));
    check_settled(true, |region, now| region.pressure = signed(now.checked_sub(SECOND * 100).unwrap()));
    check_settled(false, |region, now| {
        region.max_queue_depth = Some(5);
        region.load.set_queue("default", 9, now, 4);
    });
}

#[test]
fn of_equally_near_regions_one_that_may_only_come_first_is_drawn_too() {
    let mut config = config(&["us", "eu", "ap"]);
    config.failover.exclude_regions = ids(&["us"]);
    let mut view = healthy(&config);
    for (region, millis) in view.regions.iter_mut().zip([10, 10, 20]) {
        region.latency = Some(Duration::from_millis(millis));
    }
    let start = Instant::now();
    let mut settled = view.clone();
    settle(&mut settled, start);
    for seed in 0..200 {
        let (job, inputs) = (named("latency-based"), inputs(start, seed));
        assert_eq!(route(&settled, &job, inputs), route(&view, &job, inputs), "{seed}");
    }
}

#[test]
fn a_hundred_regions_are_drawn_and_take_turns_as_each_job_would_find() {
    let ids: Vec<String> = (0..100).map(|number| format!("region-{number}")).collect();
    let mut view = healthy(&config(&ids.iter().map(String::as_str).collect::<Vec<_>>()));
    for (region, number) in view.regions.iter_mut().zip(1..) {
        region.weight = number * number % 97 + 1;
        region.latency = Some(Duration::from_micros(u64::from(number * 7 % 101)));
    }
    let start = Instant::now();
    let mut settled = view.clone();
    settle(&mut settled, start);
    let mut drawn = HashSet::new();
    for seed in 0..500 {
        let inputs = inputs(start, seed);
        for strategy in STRATEGIES {
            let decision = route(&settled, &named(strategy), inputs).unwrap();
            assert_eq!(Ok(&decision), route(&view, &named(strategy), inputs).as_ref(), "{strategy}, {seed}");
            assert_eq!(decision.candidates.iter().collect::<HashSet<_>>().len(), 4, "{strategy}, {seed}");
            drawn.extend(decision.candidates.into_iter().filter(|_| strategy == "weighted"));
        }
    }
    assert!(drawn.len() > 90, "{drawn:?}");
    let own = [("region-42".to_owned(), 1.0)];
    let target = route(&settled, &Job { weights: Some(&own), ..named("weighted") }, inputs(start, 0)).unwrap().target();
    assert_eq!(target, settled.index_of("region-42"), "the job's own weights are not those of the registry");
}
