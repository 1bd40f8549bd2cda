//! A spoke that does not hear its hub: the local region's jobs go on, and no other region is a candidate.

use super::*;
use crate::policy::{Together, together};

/// Three regions, of which the first is the spoke's own, cut off.
fn cut(change: impl FnOnce(&mut Config)) -> View {
    let mut view = three(change);
    view.set_cut_off(true);
    view
}

#[track_caller]
fn check_hub_lost(view: &View, job: &Job<'_>) {
    let error = decision(view, job).unwrap_err();
    assert!(error.is_hub_lost(), "{error:?}");
}

#[test]
fn jobs_for_the_local_region_go_on_and_those_that_must_go_elsewhere_wait_for_the_hub() {
    let view = cut(|config| config.routing.rules = vec![rule("abroad", &["eu", "ap"], None)]);
    assert!(view.is_cut_off() && !view.region(view.local).is_cut_off);
    check(&view, &plain(), "affinity us");
    check(&view, &pinned("us"), "geo-pin! us");
    for strategy in ["overflow", "weighted", "round-robin", "latency-based", "active-passive"] {
        assert_eq!(decision(&view, &Job { affinity: Some(strategy), ..plain() }).unwrap().2, "us", "{strategy}");
    }
    let retry_after = SECOND * 5;
    let eu = RouteError::RegionUnavailable { region: id("eu"), state: Refusal::HubLost, retry_after };
    check_error(&view, &pinned("eu"), &eu);
    check_hub_lost(&view, &pinned("eu"));
    check_hub_lost(&view, &Job { queue: "abroad", ..plain() });
}

#[test]
fn a_flexible_job_waits_for_the_hub_where_the_local_region_is_down_and_for_that_region_where_it_is_bound_to_it() {
    let mut view = cut(|_| {});
    view.regions[0].health = Health::Unhealthy;
    check_hub_lost(&view, &plain());
    let awaited: Vec<_> = decision(&view, &plain()).unwrap_err().awaits().cloned().collect();
    assert_eq!(awaited, [id("us")], "its own region is asked sooner");
    assert!(!decision(&view, &pinned("us")).unwrap_err().is_hub_lost());
    let mut view = cut(|config| config.failover.on_all_unhealthy = OnAllUnhealthy::TryLastGood);
    (view.regions[0].health, view.regions[0].well_until) = (Health::Unhealthy, Some(Instant::now()));
    (view.regions[1].health, view.regions[1].well_until) = (Health::Unhealthy, Some(Instant::now() + SECOND));
    check(&view, &plain(), "affinity us");
}

#[test]
fn nothing_is_left_of_a_cut_once_it_has_ended() {
    let mut view = cut(|_| {});
    settle(&mut view, Instant::now());
    check(&view, &plain(), "affinity us");
    assert!(view.nearest_others().is_empty() && view.kept_warm().as_slice() == [view.local]);
    let mut view = view.clone();
    view.set_cut_off(false);
    settle(&mut view, Instant::now());
    check(&view, &plain(), "affinity us eu ap");
    check(&view, &pinned("eu"), "geo-pin! eu");
    assert_eq!(view.nearest_others().len(), 2);
}

#[test]
fn a_flexible_job_of_a_mixed_call_joins_no_part_that_is_cut_off() {
    let view = cut(|_| {});
    let demand = |job: &Job<'_>| crate::policy::Demand::of(&view, job).unwrap();
    let demands = [demand(&pinned("eu")), demand(&pinned("ap")), demand(&plain())];
    let alone = |_| Ok::<_, std::convert::Infallible>(view.local);
    let Ok(Together::Mixed(parts)) = together(&view, &demands, alone) else { panic!("no region will do for all") };
    let of_flexible = parts.iter().find(|part| part.members.contains(&2)).unwrap();
    assert_eq!(of_flexible.region, view.local);
}

#[test]
fn a_spoke_begins_without_a_picture_of_other_regions_and_the_region_of_the_hub_with_one() {
    for (local, hub, is_cut_off) in [(0, 1, true), (1, 1, false)] {
        let mut config = config(&["us", "eu", "ap"]);
        config.topology = crate::config::Topology::HubSpoke;
        config.regions[hub].is_hub = true;
        config.local_region = config.regions[local].id.clone();
        assert_eq!(View::unprobed(&config).is_cut_off(), is_cut_off);
    }
}
