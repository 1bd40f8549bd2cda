use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::*;
use crate::config::{self, Config};
use crate::policy::testing::{config, healthy, id, ids, inputs, named, names, plain};
use crate::policy::{Inputs, Job, Live, RegionIndex, View, explain, route};

const SECOND: Duration = Duration::from_secs(1);

/// `local`, `near` (20 ms), `far` (80 ms) and `new` (latency unknown), all healthy.
fn four(change: impl FnOnce(&mut Config)) -> View {
    let mut config = config(&["local", "far", "new", "near"]);
    change(&mut config);
    let mut view = healthy(&config);
    for (region, millis) in [(0, 1), (1, 80), (3, 20)] {
        view.regions[region].latency = Some(Duration::from_millis(millis));
    }
    view
}

/// The order that a strategy gives, which the dry run must score from high to low.
fn order(view: &View, job: &Job<'_>, inputs: Inputs<'_>) -> String {
    let decision = route(view, job, inputs).unwrap();
    let explanation = explain(view, job, inputs);
    let scores: Vec<_> = explanation.candidates.iter().map(|scored| scored.score).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b) && scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
    assert_eq!(explanation.candidates[0].region, decision.candidates[0]);
    names(view, &decision)
}

#[track_caller]
fn check(view: &View, job: &Job<'_>, seed: u64, expected: &str) {
    assert_eq!(order(view, job, inputs(Instant::now(), seed)), expected);
}

/// How often each region is the target over 4000 draws, in percent.
fn shares(view: &View, job: &Job<'_>, now: Instant) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    for seed in 0..4_000 {
        let target = route(view, job, inputs(now, seed)).unwrap().candidates[0];
        *counts.entry(view.region(target).id.to_string()).or_insert(0) += 1;
    }
    counts.into_iter().map(|(region, count)| (region, count / 40)).collect()
}

#[track_caller]
fn check_share(shares: &HashMap<String, u64>, region: &str, percent: std::ops::RangeInclusive<u64>) {
    let share = shares.get(region).copied().unwrap_or(0);
    assert!(percent.contains(&share), "{region}: {share} % of {shares:?}");
}

#[test]
fn affinity_prefers_local_then_preferred_regions_then_the_nearest() {
    check(&four(|_| {}), &plain(), 0, "local near far new");
    let mut preferring = four(|config| config.failover.prefer_regions = ids(&["new", "far"]));
    check(&preferring, &plain(), 0, "local new far near");
    preferring.regions[0].health = crate::policy::Health::Unhealthy;
    check(&preferring, &plain(), 0, "new far near");
}

#[test]
fn affinity_takes_the_configured_order_where_nothing_else_tells_regions_apart() {
    check(&healthy(&config(&["a", "c", "b"])), &plain(), 3, "a c b");
}

#[test]
fn affinity_leaves_a_region_whose_queue_is_full_as_polled_or_by_what_we_sent_since() {
    struct Sent(u64);
    impl Live for Sent {
        fn in_flight(&self, _: RegionIndex) -> u64 {
            0
        }
        fn sent_since(&self, region: RegionIndex, _: Option<&str>, _: Instant) -> u64 {
            if region.get() == 0 { self.0 } else { 0 }
        }
        fn send_rate(&self, _: RegionIndex) -> f64 {
            0.0
        }
    }
    let check = |depth, sent, age, expected: &str| {
        let mut view = four(|config| config.regions[0].max_queue_depth = Some(100));
        let polled = Instant::now();
        view.regions[0].load.set_queue("default", depth, polled, 4);
        let inputs = Inputs { live: &Sent(sent), ..inputs(polled + SECOND * age, 0) };
        assert_eq!(order(&view, &plain(), inputs), expected, "{depth} {sent} {age}");
    };
    check(99, 0, 0, "local near far new");
    check(100, 0, 0, "near far new");
    check(90, 10, 5, "near far new");
    check(500, 0, 31, "local near far new");
}

#[test]
fn latency_based_takes_the_lowest_and_unprobed_regions_last() {
    let mut view = four(|_| {});
    view.regions[0].latency = Some(Duration::from_millis(50));
    for name in ["latency-based", "latency"] {
        check(&view, &named(name), 0, "near local far new");
    }
}

#[test]
fn latency_based_draws_among_equals_by_weight() {
    let mut config = config(&["a", "b"]);
    config.regions[0].weight = 3;
    let shares = shares(&healthy(&config), &named("latency-based"), Instant::now());
    check_share(&shares, "a", 72..=78);
}

#[test]
fn round_robin_gives_each_usable_region_its_turn() {
    let mut view = four(|_| {});
    view.regions[2].health = crate::policy::Health::Unhealthy;
    let job = named("round-robin");
    for (turn, expected) in ["local far near", "far near local", "near local far", "local far near"].iter().enumerate()
    {
        check(&view, &job, turn as u64, expected);
    }
    check(&view, &job, u64::MAX, "local far near");
}

#[test]
fn only_a_decision_that_the_turn_made_uses_it_up() {
    let by_turn = |view: &View, job: &Job<'_>| route(view, job, inputs(Instant::now(), 0)).unwrap().by_turn;
    for (strategy, expected) in [("round-robin", true), ("affinity", false), ("weighted", false), ("geographic", false)]
    {
        assert_eq!(by_turn(&four(|_| {}), &named(strategy)), expected, "{strategy}");
    }
    let view = geographic(Strategy::RoundRobin);
    assert!(by_turn(&view, &named("geographic")), "without a hint the default decides");
    let hinted = |_: &str| Some(Cow::Borrowed("de")).into();
    assert!(!by_turn(&view, &Job { meta: &hinted, ..named("geographic") }));
    assert!(!by_turn(&view, &Job { pin: Some("near"), ..plain() }));
}

#[test]
fn active_passive_takes_preferred_regions_then_the_configured_order() {
    check(&four(|_| {}), &named("active-passive"), 0, "local far new near");
    let preferring = four(|config| config.failover.prefer_regions = ids(&["near", "local"]));
    check(&preferring, &named("active-passive"), 0, "near local far new");
}

#[test]
fn weighted_draws_in_proportion_to_the_registry_and_so_does_its_failover() {
    let mut config = config(&["a", "b", "c"]);
    (config.regions[0].weight, config.regions[1].weight) = (6, 3);
    let view = healthy(&config);
    let firsts = shares(&view, &named("weighted"), Instant::now());
    check_share(&firsts, "a", 57..=63);
    check_share(&firsts, "b", 27..=33);
    check_share(&firsts, "c", 8..=12);
    // After a, the other two share three to one.
    let runs = (0..4_000).map(|seed| order(&view, &named("weighted"), inputs(Instant::now(), seed)));
    let (mut after_a, mut then_b) = (0_u32, 0_u32);
    for run in runs.filter(|run| run.starts_with('a')) {
        after_a += 1;
        then_b += u32::from(run == "a b c");
    }
    assert!((70..=80).contains(&(then_b * 100 / after_a)));
}

#[test]
fn a_jobs_own_weights_win_and_unusable_ones_fall_back_to_the_registry() {
    let mut config = config(&["a", "b", "c"]);
    config.regions[1].weight = 99;
    let view = healthy(&config);
    let given = |weights: &[(&str, f64)]| -> Vec<_> {
        weights.iter().map(|&(region, weight)| (region.to_owned(), weight)).collect::<Vec<(String, f64)>>()
    };
    let shares_of = |weights: &[(&str, f64)]| {
        let own = given(weights);
        shares(&view, &Job { weights: Some(&own), ..named("weighted") }, Instant::now())
    };
    let own = shares_of(&[("a", 0.5), ("c", 1.5), ("nowhere", 9.0)]);
    check_share(&own, "a", 22..=28);
    check_share(&own, "c", 72..=78);
    check_share(&own, "b", 0..=0);
    let extreme = shares_of(&[("a", 1e308), ("c", 1e-308)]);
    check_share(&extreme, "a", 100..=100);
    for unusable in [&[][..], &[("a", 0.0)], &[("a", -1.0), ("c", f64::NAN)], &[("nowhere", 5.0)]] {
        check_share(&shares_of(unusable), "b", 96..=100);
    }
}

#[test]
fn weighted_scores_tell_shares_whatever_the_scale_of_the_weights() {
    let scores = |scale: u32| {
        let mut config = config(&["a", "b"]);
        (config.regions[0].weight, config.regions[1].weight) = (3 * scale, scale);
        let candidates = explain(&healthy(&config), &named("weighted"), inputs(Instant::now(), 1)).candidates;
        candidates.into_iter().map(|scored| (scored.score * 1e9).round()).collect::<Vec<_>>()
    };
    assert_eq!(scores(1), scores(1_000));
}

/// A view of three regions with weights and depths of the queue, polled `age` seconds before the time that comes with it.
fn loaded(regions: [(u32, Option<u64>); 3], age: u32) -> (View, Instant) {
    let mut config = config(&["a", "b", "c"]);
    for (region, (weight, _)) in config.regions.iter_mut().zip(regions) {
        region.weight = weight;
    }
    let mut view = healthy(&config);
    let polled = Instant::now();
    for (region, (_, depth)) in view.regions.iter_mut().zip(regions) {
        if let Some(depth) = depth {
            region.load.set_queue("default", depth, polled, 4);
        }
    }
    (view, polled + SECOND * age)
}

#[test]
fn overflow_takes_the_least_load_for_its_weight() {
    let check = |regions, expected: &str| {
        let (view, now) = loaded(regions, 0);
        assert_eq!(order(&view, &named("overflow"), inputs(now, 1)), expected);
    };
    check([(1, Some(300)), (1, Some(100)), (1, Some(200))], "b c a");
    check([(10, Some(300)), (1, Some(100)), (1, Some(200))], "a b c");
    check([(1, Some(50)), (1, Some(0)), (1, Some(9))], "b c a");
}

#[test]
fn overflow_draws_by_weight_among_loads_that_their_age_makes_indistinguishable() {
    let check = |depths: [u64; 3], age, expected: [std::ops::RangeInclusive<u64>; 3]| {
        let (view, now) = loaded([(2, Some(depths[0])), (1, Some(depths[1])), (1, Some(depths[2]))], age);
        let shares = shares(&view, &named("overflow"), now);
        for (region, percent) in ["a", "b", "c"].into_iter().zip(expected) {
            check_share(&shares, region, percent);
        }
    };
    check([200, 110, 200], 0, [64..=70, 30..=36, 0..=0]);
    check([200, 150, 200], 0, [100..=100, 0..=0, 0..=0]);
    // c is beyond what cannot be told apart by two thirds, and keeps a third of its lot.
    check([200, 150, 200], 20, [56..=63, 26..=33, 7..=13]);
    check([0, 0, 1], 0, [47..=53, 22..=28, 22..=28]);
}

#[test]
fn overflow_counts_what_we_sent_since_the_poll() {
    struct SentTo(usize);
    impl Live for SentTo {
        fn in_flight(&self, _: RegionIndex) -> u64 {
            0
        }
        fn sent_since(&self, region: RegionIndex, queue: Option<&str>, _: Instant) -> u64 {
            assert_eq!(queue, Some("default"));
            if region.get() == self.0 { 1_000 } else { 0 }
        }
        fn send_rate(&self, _: RegionIndex) -> f64 {
            0.0
        }
    }
    let (view, now) = loaded([(1, Some(0)), (1, Some(50)), (1, Some(100))], 0);
    let inputs = Inputs { live: &SentTo(0), ..inputs(now, 0) };
    assert_eq!(order(&view, &named("overflow"), inputs), "b c a");
}

struct Busy;
impl Live for Busy {
    fn in_flight(&self, region: RegionIndex) -> u64 {
        [8, 2, 4][region.get()]
    }
    fn sent_since(&self, _: RegionIndex, _: Option<&str>, _: Instant) -> u64 {
        0
    }
    fn send_rate(&self, _: RegionIndex) -> f64 {
        0.5
    }
}

#[test]
fn overflow_compares_own_traffic_when_one_figure_is_missing_or_stale() {
    let check = |view: &View, now, expected: &str| {
        assert_eq!(order(view, &named("overflow"), Inputs { live: &Busy, ..inputs(now, 0) }), expected);
    };
    let (view, now) = loaded([(1, Some(0)), (1, Some(50)), (1, None)], 0);
    check(&view, now, "b c a");
    let (view, now) = loaded([(1, Some(0)), (1, Some(50)), (1, Some(90))], 31);
    check(&view, now, "b c a");
    let (view, now) = loaded([(1, Some(0)), (1, Some(50)), (1, Some(90))], 30);
    check(&view, now, "a b c");
}

#[test]
fn overflow_never_compares_a_queue_with_a_total() {
    let (mut view, now) = loaded([(1, Some(0)), (1, Some(50)), (1, None)], 0);
    view.regions[2].load.set_total(10, now);
    assert_eq!(order(&view, &named("overflow"), Inputs { live: &Busy, ..inputs(now, 0) }), "b c a");
    view.regions[0].load.set_total(900, now);
    view.regions[1].load.set_total(500, now);
    assert_eq!(order(&view, &named("overflow"), inputs(now, 0)), "c b a");
}

fn geographic(default: Strategy) -> View {
    let table = config::Geographic {
        meta_key: "country".to_owned(),
        regions: [("de", "far"), ("in", "new"), ("se", "near")].map(|(hint, region)| (hint.into(), id(region))).into(),
    };
    four(|config| (config.routing.strategy, config.routing.geographic) = (default, Some(table)))
}

/// The order for a job with this hint; `far` is down.
#[track_caller]
fn check_hint(default: Strategy, hint: Option<&'static str>, expected: &str) {
    let mut view = geographic(default);
    view.regions[1].health = crate::policy::Health::Unhealthy;
    let meta = |key: &str| hint.filter(|_| key == "country").map(Cow::Borrowed).into();
    check(&view, &Job { meta: &meta, ..named("geographic") }, 0, expected);
}

#[test]
fn geographic_takes_the_hinted_region_and_else_the_default_strategy() {
    for default in [Strategy::Affinity, Strategy::Geographic] {
        check_hint(default, Some("se"), "near local new");
        check_hint(default, Some("in"), "new local near");
        check_hint(default, Some("de"), "local near new");
        check_hint(default, Some("fr"), "local near new");
        check_hint(default, None, "local near new");
    }
    check_hint(Strategy::LatencyBased, Some("in"), "new local near");
    check_hint(Strategy::RoundRobin, None, "local new near");
}

#[test]
fn geographic_with_a_default_of_geo_pin_leads_to_the_hint_or_the_local_region_and_nowhere_else() {
    check_hint(Strategy::GeoPin, Some("se"), "near local");
    check_hint(Strategy::GeoPin, Some("de"), "local");
    check_hint(Strategy::GeoPin, None, "local");
}

#[test]
fn overflow_does_not_take_a_region_that_fails_fast_for_an_idle_one() {
    // b has nothing waiting and nothing in flight because it fails what comes.
    let check = |depths: [Option<u64>; 3], failing, percent: std::ops::RangeInclusive<u64>| {
        let (mut view, now) = loaded(depths.map(|depth| (1, depth)), 0);
        view.regions[1].failing = failing;
        check_share(&shares(&view, &named("overflow"), now), "b", percent);
    };
    check([Some(100), Some(0), Some(100)], 0.0, 100..=100);
    check([Some(100), Some(0), Some(100)], 0.3, 0..=0);
    check([Some(0), Some(0), Some(0)], 0.0, 30..=36);
    check([Some(0), Some(0), Some(0)], 0.5, 18..=22);
    check([None, Some(0), None], 0.5, 18..=22);
}

#[test]
fn overflow_tells_less_apart_where_loads_have_lately_moved_fast() {
    let check = |before: u64, age, expected: [std::ops::RangeInclusive<u64>; 2]| {
        let (mut view, polled) = loaded([(1, Some(before)), (1, Some(1_000)), (1, Some(1_000))], 0);
        let now = polled + SECOND * 10;
        for (region, depth) in view.regions.iter_mut().zip([400, 1_000, 1_000]) {
            region.load.set_queue("default", depth, now, 4);
        }
        let shares = shares(&view, &named("overflow"), now + SECOND * age);
        for (region, percent) in ["a", "b"].into_iter().zip(expected) {
            check_share(&shares, region, percent);
        }
    };
    check(400, 5, [100..=100, 0..=0]);
    // A crowd of 300 a second was seen: three seconds later nobody knows who is the least loaded.
    check(3_400, 0, [100..=100, 0..=0]);
    check(3_400, 3, [30..=36, 30..=36]);
}
