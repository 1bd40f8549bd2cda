//! What may not widen where a job goes: tags, and the last good region.

use super::*;

#[test]
fn a_jobs_tags_narrow_a_configured_geo_pin_and_never_widen_it() {
    let view = three(|config| {
        config.routing.strategy = Strategy::GeoPin;
        config.regions[0].tags = vec!["gpu".to_owned()];
        config.regions[1].tags = vec!["gpu".to_owned(), "large".to_owned()];
    });
    let tagged = |tags| Job { regions_with: Some(tags), ..plain() };
    check(&view, &plain(), "geo-pin! us");
    check(&view, &tagged("gpu"), "geo-pin! us");
    check(&view, &tagged("large"), "geo-pin! eu");
    let mut down = view;
    down.regions[0].health = Health::Unhealthy;
    assert!(decision(&down, &tagged("gpu")).is_err(), "the local region or nowhere");
}

#[test]
fn the_last_good_region_is_none_that_failovers_exclude() {
    let now = Instant::now();
    let mut view = three(|config| {
        config.failover.on_all_unhealthy = OnAllUnhealthy::TryLastGood;
        config.failover.exclude_regions = ids(&["ap"]);
    });
    for (region, seconds) in view.regions.iter_mut().zip([90, 60, 20]) {
        (region.health, region.well_until) = (Health::Unhealthy, Some(now - SECOND * seconds));
    }
    check(&view, &plain(), "affinity eu");
}
