use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::{ProptestConfig, TestCaseError, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::base::SwitchKind;
use crate::config::{Config, Matcher, OnAllUnhealthy, Rule};
use crate::policy::testing::{config, healthy, id, ids, inputs, names, plain};
use crate::policy::{BreakerState, Explanation, Health, explain, route, settle};

mod asked;
mod bounds;
mod cut_off;
mod random;

const SECOND: Duration = Duration::from_secs(1);

fn three(change: impl FnOnce(&mut Config)) -> View {
    let mut config = config(&["us", "eu", "ap"]);
    change(&mut config);
    healthy(&config)
}

fn rule(queue: &str, regions: &[&str], strategy: Option<Strategy>) -> Rule {
    let matcher = Matcher { queue: Some(queue.to_owned()), ..Matcher::default() };
    Rule { matcher, regions: ids(regions), strategy, ledger: None }
}

fn pinned(region: &str) -> Job<'_> {
    Job { pin: Some(region), ..plain() }
}

fn decision(view: &View, job: &Job<'_>) -> Result<(Strategy, bool, String), RouteError> {
    let decision = route(view, job, inputs(Instant::now(), 0))?;
    Ok((decision.strategy, decision.pinned, names(view, &decision)))
}

/// The strategy, whether it is pinned (`!`), and the candidates.
#[track_caller]
fn check(view: &View, job: &Job<'_>, expected: &str) {
    let (strategy, pinned, names) = decision(view, job).unwrap();
    assert_eq!(format!("{strategy}{} {names}", if pinned { "!" } else { "" }), expected);
}

#[track_caller]
fn check_error(view: &View, job: &Job<'_>, expected: &RouteError) {
    assert_eq!(decision(view, job).as_ref(), Err(expected));
}

#[test]
fn a_strategy_comes_from_the_pin_then_the_job_then_the_rule_then_the_default() {
    let view = three(|config| {
        config.routing.strategy = Strategy::ActivePassive;
        config.routing.rules = vec![rule("bulk", &[], Some(Strategy::RoundRobin)), rule("b*", &["ap"], None)];
    });
    let bulk = Job { queue: "bulk", ..plain() };
    check(&view, &plain(), "active-passive us eu ap");
    check(&view, &bulk, "round-robin us eu ap");
    check(&view, &Job { affinity: Some("affinity"), ..bulk }, "affinity us eu ap");
    for affinity in [None, Some("geo-pin"), Some("overflow"), Some("nonsense")] {
        check(&view, &Job { pin: Some("eu"), affinity, ..bulk }, "geo-pin! eu");
    }
    check(&view, &Job { queue: "big", ..plain() }, "active-passive ap");
}

#[test]
fn bad_attributes_are_refused_and_never_replaced_by_a_default() {
    let view = three(|_| {});
    check_error(&view, &pinned("mars-1"), &RouteError::UnknownRegion { region: Some(id("mars-1")) });
    check_error(&view, &pinned("EU"), &RouteError::UnknownRegion { region: None });
    check_error(&view, &pinned(""), &RouteError::UnknownRegion { region: None });
    check_error(&view, &Job { affinity: Some("Overflow"), ..plain() }, &RouteError::UnknownStrategy);
    check_error(&view, &Job { affinity: Some(""), ..plain() }, &RouteError::UnknownStrategy);
    check_error(&view, &Job { affinity: Some("geo-pin"), ..plain() }, &RouteError::PinWithoutRegion);
}

#[test]
fn a_rule_narrows_a_pin_and_never_widens_it() {
    let view = three(|config| config.routing.rules = vec![rule("gdpr", &["eu", "ap"], Some(Strategy::Overflow))]);
    let gdpr = |pin| Job { queue: "gdpr", ..pinned(pin) };
    check(&view, &gdpr("eu"), "geo-pin! eu");
    let expected = RouteError::PinNotPermitted { region: id("us"), permitted: ids(&["eu", "ap"]) };
    check_error(&view, &gdpr("us"), &expected);
}

#[test]
fn a_rule_narrows_the_regions_of_flexible_jobs_whatever_strategy_they_name() {
    let view = three(|config| config.routing.rules = vec![rule("gdpr", &["ap", "eu"], None)]);
    let gdpr = Job { queue: "gdpr", ..plain() };
    check(&view, &gdpr, "affinity eu ap");
    check(&view, &Job { affinity: Some("active-passive"), ..gdpr }, "active-passive eu ap");
}

#[test]
fn geo_pin_by_configuration_means_the_rules_regions_or_the_local_one() {
    let by_default = three(|config| {
        config.routing.strategy = Strategy::GeoPin;
        config.routing.rules = vec![rule("gdpr", &["eu"], None)];
    });
    check(&by_default, &plain(), "geo-pin! us");
    check(&by_default, &Job { queue: "gdpr", ..plain() }, "geo-pin! eu");
    check(&by_default, &Job { affinity: Some("active-passive"), ..plain() }, "active-passive us eu ap");
    let by_rule = three(|config| {
        config.routing.rules =
            vec![rule("here", &[], Some(Strategy::GeoPin)), rule("there", &["ap", "eu"], Some(Strategy::GeoPin))];
    });
    check(&by_rule, &Job { queue: "here", ..plain() }, "geo-pin! us");
    check(&by_rule, &Job { queue: "there", ..plain() }, "geo-pin! eu ap");
    check(&by_rule, &plain(), "affinity us eu ap");
}

/// Makes `eu` unusable in one way and checks how a pinned and a flexible job fare.
#[track_caller]
fn check_unusable(state: Refusal, retry_after: Duration, change: impl FnOnce(&mut crate::policy::RegionView, Instant)) {
    let mut view = three(|_| {});
    let now = Instant::now();
    change(&mut view.regions[1], now);
    let pinned = route(&view, &pinned("eu"), inputs(now, 0));
    assert_eq!(pinned, Err(RouteError::RegionUnavailable { region: id("eu"), state, retry_after }));
    check(&view, &plain(), "affinity us ap");
}

#[test]
fn a_drained_region_takes_pinned_jobs_only_and_a_forbidden_one_no_failover() {
    let mut view = three(|_| {});
    view.regions[0].switch = Some(SwitchKind::Drain);
    check(&view, &plain(), "affinity eu ap");
    check(&view, &pinned("us"), "geo-pin! us");
    view.regions[0].switch = Some(SwitchKind::Forbid);
    check(&view, &plain(), "affinity us eu ap");
    view.regions[1].switch = Some(SwitchKind::Forbid);
    check(&view, &plain(), "affinity us ap");
    check(&view, &pinned("eu"), "geo-pin! eu");
}

#[test]
fn geo_pinned_job_fails_while_its_region_is_down() {
    check_unusable(Refusal::Unhealthy, SECOND * 10, |region, _| region.health = Health::Unhealthy);
    check_unusable(Refusal::Drained, SECOND * 30, |region, _| region.weight = 0);
    check_unusable(Refusal::Evacuated, SECOND * 30, |region, _| region.switch = Some(SwitchKind::Evacuate));
    check_unusable(Refusal::Isolated, SECOND * 30, |region, _| region.switch = Some(SwitchKind::Isolate));
    check_unusable(Refusal::HalfOpen, SECOND, |region, _| region.breaker = BreakerState::HalfOpen);
    check_unusable(Refusal::BreakerOpen, SECOND * 17, |region, now| {
        (region.breaker, region.open_until) = (BreakerState::Open, Some(now + SECOND * 17));
    });
    check_unusable(Refusal::BreakerOpen, SECOND, |region, now| {
        (region.breaker, region.open_until) = (BreakerState::Open, Some(now));
    });
}

#[test]
fn regions_that_were_never_probed_come_last_and_their_pinned_jobs_are_attempted() {
    let mut view = three(|_| {});
    view.regions[0].health = Health::Unknown;
    check(&view, &plain(), "affinity eu ap us");
    check(&view, &pinned("us"), "geo-pin! us");
    for region in &mut view.regions {
        region.health = Health::Unknown;
    }
    check(&view, &plain(), "affinity us eu ap");
}

#[test]
fn with_no_usable_region_the_one_that_was_well_last_may_be_tried() {
    let now = Instant::now();
    let ago = |seconds| Some(now - SECOND * seconds);
    let unwell = |change: fn(&mut Config)| {
        let mut view = three(change);
        for (region, well_until) in view.regions.iter_mut().zip([ago(90), ago(20), None]) {
            (region.health, region.well_until) = (Health::Unhealthy, well_until);
        }
        view
    };
    let view = unwell(|config| config.failover.on_all_unhealthy = OnAllUnhealthy::TryLastGood);
    check(&view, &plain(), "affinity eu");
    let explained = explain(&view, &plain(), inputs(now, 0));
    assert_eq!(explained.candidates[0].reason, "was well last, not usable, tried because no region is");
    assert!(matches!(route(&view, &pinned("eu"), inputs(now, 0)), Err(RouteError::RegionUnavailable { .. })));
    let mut drained = view.clone();
    drained.regions[1].weight = 0;
    check(&drained, &plain(), "affinity us");
    drained.regions[0].weight = 0;
    assert!(route(&drained, &plain(), inputs(now, 0)).is_err(), "the last one was never well");
    let mut one_well = view;
    one_well.regions[2].health = Health::Healthy;
    check(&one_well, &plain(), "affinity ap");
    assert!(route(&unwell(|_| {}), &plain(), inputs(now, 0)).is_err(), "by default it is refused");
    let by_rule = unwell(|config| {
        config.failover.on_all_unhealthy = OnAllUnhealthy::TryLastGood;
        config.routing.rules = vec![rule("gdpr", &["us", "ap"], None)];
    });
    check(&by_rule, &Job { queue: "gdpr", ..plain() }, "affinity us");
}

#[test]
fn no_usable_region_is_an_error_that_names_each_and_the_first_to_come_back() {
    let mut view = three(|_| {});
    let now = Instant::now();
    view.regions[0].health = Health::Unhealthy;
    view.regions[1].weight = 0;
    (view.regions[2].breaker, view.regions[2].open_until) = (BreakerState::Open, Some(now + SECOND * 4));
    let regions = vec![(id("us"), Refusal::Unhealthy), (id("eu"), Refusal::Drained), (id("ap"), Refusal::BreakerOpen)];
    let error = route(&view, &plain(), inputs(now, 0)).unwrap_err();
    assert_eq!(error, RouteError::NoHealthyRegion { strategy: Strategy::Affinity, retry_after: SECOND * 4, regions });
}

#[test]
fn failover_goes_to_preferred_regions_first_whatever_the_strategy() {
    let view = three(|config| config.failover.prefer_regions = ids(&["ap"]));
    check(&view, &plain(), "affinity us ap eu");
    for seed in 0..3 {
        let job = Job { affinity: Some("round-robin"), ..plain() };
        let decision = route(&view, &job, inputs(Instant::now(), seed)).unwrap();
        let expected = ["us ap eu", "eu ap us", "ap us eu"][seed as usize];
        assert_eq!(names(&view, &decision), expected);
    }
}

#[test]
fn a_preferred_region_that_was_never_probed_does_not_overtake_a_healthy_one() {
    let mut view = three(|config| config.failover.prefer_regions = ids(&["eu"]));
    view.regions[1].health = Health::Unknown;
    check(&view, &plain(), "affinity us ap eu");
}

#[test]
fn excluded_regions_are_never_failed_over_to_and_still_a_first_choice_and_a_pin() {
    let mut view = three(|config| config.failover.exclude_regions = ids(&["us", "ap"]));
    check(&view, &plain(), "affinity us eu");
    check(&view, &pinned("ap"), "geo-pin! ap");
    let round_robin = Job { affinity: Some("round-robin"), ..plain() };
    assert_eq!(names(&view, &route(&view, &round_robin, inputs(Instant::now(), 2)).unwrap()), "ap eu");
    view.regions[0].health = Health::Unhealthy;
    check(&view, &plain(), "affinity eu");
    view.regions[1].health = Health::Unhealthy;
    for affinity in [None, Some("affinity"), Some("active-passive"), Some("geographic")] {
        let refused = decision(&view, &Job { affinity, ..plain() });
        assert!(matches!(refused, Err(RouteError::NoHealthyRegion { .. })), "ap would be failing over");
    }
}

#[test]
fn a_decision_names_the_one_region_that_was_meant_whatever_that_regions_state() {
    let geographic = |config: &mut Config| {
        let regions = [("DE".to_owned(), id("eu"))].into();
        config.routing.geographic = Some(crate::config::Geographic { meta_key: "country".to_owned(), regions });
    };
    let check = |change: &dyn Fn(&mut Config), affinity: &str, sound: (&str, &str), down: (&str, &str)| {
        let mut view = three(|config| {
            geographic(config);
            change(config);
        });
        let german = |key: &str| (key == "country").then_some(Cow::Borrowed("DE")).into();
        let job = Job { affinity: Some(affinity), meta: &german, ..plain() };
        let told = |view: &View| {
            let decision = route(view, &job, inputs(Instant::now(), 0)).unwrap();
            let name = |region: Option<RegionIndex>| region.map_or("none", |it| view.region(it).id.as_str()).to_owned();
            (name(decision.home), name(decision.target()))
        };
        let owned = |(home, target): (&str, &str)| (home.to_owned(), target.to_owned());
        assert_eq!(told(&view), owned(sound), "{affinity}");
        let home = view.index_of(sound.0).unwrap_or(view.local);
        view.regions[home.get()].health = Health::Unhealthy;
        assert_eq!(told(&view), owned(down), "{affinity}");
    };
    let as_is = |_: &mut Config| {};
    check(&as_is, "affinity", ("us", "us"), ("us", "eu"));
    check(&as_is, "active-passive", ("us", "us"), ("us", "eu"));
    check(&|it| it.failover.prefer_regions = ids(&["ap"]), "active-passive", ("ap", "ap"), ("ap", "us"));
    check(&as_is, "geographic", ("eu", "eu"), ("eu", "us"));
    check(&|it| it.routing.strategy = Strategy::GeoPin, "geographic", ("eu", "eu"), ("eu", "us"));
    check(&|it| it.routing.rules = vec![rule("*", &["us", "ap"], None)], "geographic", ("us", "us"), ("us", "ap"));
    check(&as_is, "round-robin", ("none", "us"), ("none", "eu"));
}

#[test]
fn redirects_are_bounded_and_failover_off_leaves_the_first_candidate() {
    check(&three(|config| config.failover.max_redirects = 1), &plain(), "affinity us eu");
    check(&three(|config| config.failover.max_redirects = 0), &plain(), "affinity us");
    check(&three(|config| config.failover.enabled = false), &plain(), "affinity us");
}

#[test]
fn flexible_traffic_ramps_up_after_a_recovery_and_pinned_traffic_does_not() {
    let mut view = three(|_| {});
    let two_pinned = three(|config| config.routing.rules = vec![rule("*", &["us", "eu"], Some(Strategy::GeoPin))]);
    let now = Instant::now();
    view.regions[0].recovered_at = Some(now);
    let local_firsts = |view: &View, job: &Job<'_>, seconds: u32| {
        let targets =
            (0..2_000).map(|seed| route(view, job, inputs(now + SECOND * seconds, seed)).unwrap().candidates[0]);
        targets.filter(|&target| target == view.local).count() / 20
    };
    assert_eq!(local_firsts(&view, &plain(), 0), 0);
    assert!((26..=34).contains(&local_firsts(&view, &plain(), 3)));
    assert!((66..=74).contains(&local_firsts(&view, &plain(), 7)));
    assert_eq!(local_firsts(&view, &plain(), 10), 100);
    assert_eq!(local_firsts(&view, &pinned("us"), 0), 100);
    view = View { settings: two_pinned.settings.clone(), ..view };
    assert_eq!(local_firsts(&view, &plain(), 0), 100, "pinned to two regions by configuration");
    view = View { settings: three(|_| {}).settings.clone(), ..view };
    check(&view, &plain(), "affinity eu ap us");
    for region in [1, 2] {
        view.regions[region].health = Health::Unhealthy;
    }
    assert_eq!(local_firsts(&view, &plain(), 0), 100, "there is no other candidate");
}

#[test]
fn the_dry_run_lists_every_region_with_a_reason() {
    let mut view = three(|config| config.failover.max_redirects = 0);
    view.regions[1].latency = Some(Duration::from_millis(34));
    view.regions[2].health = Health::Unhealthy;
    let Explanation { strategy, outcome, candidates } = explain(&view, &plain(), inputs(Instant::now(), 0));
    assert_eq!(strategy, Some(Strategy::Affinity));
    assert_eq!(outcome.unwrap().target(), Some(view.local));
    let told: Vec<_> = candidates.iter().map(|scored| format!("{:.2} {}", scored.score, scored.reason)).collect();
    assert_eq!(
        told,
        ["1.00 local, healthy", "0.90 latency 34.0 ms, healthy, beyond the permitted redirects", "0.00 unhealthy"]
    );
    let refused = explain(&view, &pinned("mars-1"), inputs(Instant::now(), 0));
    assert!(refused.outcome.is_err());
    assert!(refused.candidates.iter().all(|scored| scored.refusal == Some(Refusal::NotCompared)));
    assert_eq!(refused.candidates.len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_dry_run_agrees_with_live_routing_and_every_decision_keeps_the_promises(case in random::case()) {
        case.with(|view, job, inputs| {
            let live = route(view, job, inputs);
            let dry = explain(view, job, inputs);
            prop_assert_eq!(&live, &dry.outcome);
            // What is found once for all jobs is what each would find.
            for settled_at in [inputs.now, inputs.now - SECOND * 20] {
                let mut settled = view.clone();
                settle(&mut settled, settled_at);
                prop_assert_eq!(&route(&settled, job, inputs), &live);
            }
            check_explanation(view, &dry)?;
            match live {
                Ok(decision) => check_decision(view, job, &decision),
                Err(error) => {
                    if let RouteError::RegionUnavailable { retry_after, .. } | RouteError::NoHealthyRegion { retry_after, .. } = &error
                    {
                        prop_assert!(*retry_after >= SECOND, "{error:?}");
                    }
                    Ok(())
                }
            }
        })?;
    }
}

fn check_explanation(view: &View, dry: &Explanation) -> Result<(), TestCaseError> {
    let regions: HashSet<_> = dry.candidates.iter().map(|scored| scored.region).collect();
    prop_assert_eq!((regions.len(), dry.candidates.len()), (view.regions.len(), view.regions.len()));
    prop_assert!(dry.candidates.is_sorted_by(|a, b| a.score >= b.score));
    for scored in &dry.candidates {
        prop_assert!((0.0..=1.0).contains(&scored.score) && !scored.reason.is_empty());
        prop_assert!(scored.refusal.is_none() || scored.score == 0.0);
    }
    let tried = dry.outcome.as_ref().map(|decision| decision.candidates.as_slice()).unwrap_or_default();
    let ranked: Vec<_> = dry.candidates.iter().take(tried.len()).map(|scored| scored.region).collect();
    prop_assert_eq!(tried, ranked);
    Ok(())
}

fn check_decision(view: &View, job: &Job<'_>, decision: &Decision) -> Result<(), TestCaseError> {
    let unique: HashSet<_> = decision.candidates.iter().collect();
    prop_assert_eq!(unique.len(), decision.candidates.len());
    prop_assert!((1..=view.settings.candidates_max).contains(&decision.candidates.len()));
    for &candidate in &decision.candidates {
        let region = view.region(candidate);
        prop_assert!(region.weight > 0 && region.health != Health::Unhealthy);
        prop_assert!(!matches!(region.switch, Some(SwitchKind::Evacuate | SwitchKind::Isolate)));
        prop_assert!(decision.pinned || region.switch != Some(SwitchKind::Drain));
        prop_assert_eq!(region.breaker, BreakerState::Closed);
        let rule = view.settings.rules.iter().find(|rule| rule.matches(job, false).unwrap());
        let permitted = rule.and_then(|rule| rule.regions.as_ref());
        prop_assert!(permitted.is_none_or(|set| set.contains(candidate)));
    }
    if let Some(pin) = job.pin {
        prop_assert!(decision.pinned);
        prop_assert_eq!(names(view, decision), pin);
    }
    Ok(())
}
