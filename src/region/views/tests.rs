//! Views of a hub at the registry of a sidecar.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::base::{Clock, Draw, SteeredTime};
use crate::config::{Config, HealthSource, Topology};
use crate::ojs::Class;
use crate::policy::{Attempt, BreakerState, GuardClass, Health, RegionIndex, testing};
use crate::region::{ProbeReport, Region, Registry, Traffic};
use crate::telemetry::Metrics;

const A: RegionIndex = RegionIndex::new(0);
const B: RegionIndex = RegionIndex::new(1);

struct Sidecar {
    views: HubViews,
    registry: Arc<Registry>,
    traffic: Arc<Traffic>,
    time: Arc<SteeredTime>,
}

/// A sidecar of two regions that follows a hub, with the default interval of ten seconds.
fn sidecar() -> Sidecar {
    sidecar_with(|config| config.health_check.source = HealthSource::Hub)
}

fn sidecar_with(change: impl FnOnce(&mut Config)) -> Sidecar {
    let mut config = testing::config(&["a", "b"]);
    change(&mut config);
    config.regions.iter_mut().for_each(|region| region.url.tls = false);
    let regions = config.regions.iter().enumerate();
    let regions = regions.map(|(place, region)| Arc::new(Region::load(place, region).unwrap())).collect();
    let ids: Vec<_> = config.regions.iter().map(|region| region.id.clone()).collect();
    let metrics = Metrics::new(&ids, &Class::ALL.map(Class::as_str));
    let time = SteeredTime::starting_at(1_000_000);
    let clock = Clock::new(Arc::new(Arc::clone(&time)));
    let traffic = Arc::new(Traffic::new(2, config.load.queues_max, clock.clone(), Arc::clone(&metrics)));
    let registry = Arc::new(Registry::new(&config, regions, clock, metrics));
    let views = HubViews::new(&config, Arc::clone(&registry), Arc::clone(&traffic), Draw::from_seed(1));
    Sidecar { views, registry, traffic, time }
}

fn view(id: &str, probe: u64, healthy: bool) -> FeedView {
    FeedView {
        id: id.to_owned(),
        probe,
        age_ms: 0,
        healthy,
        round_trip_us: healthy.then_some(4_000),
        trouble: None,
        ojs_version: None,
        total: None,
        queues: BTreeMap::new(),
    }
}

fn event(regions: Vec<FeedView>) -> FeedViews {
    FeedViews { age_ms: 0, load: "queue".to_owned(), regions }
}

impl Sidecar {
    fn health(&self, index: RegionIndex) -> Health {
        self.registry.view().region(index).health
    }

    fn breaker(&self, index: RegionIndex) -> BreakerState {
        self.registry.view().region(index).breaker
    }

    /// Lets the prober of region a, which `answers` us or not, do what it does once a second. Whether it has sent a probe.
    fn prober_turn(&self, answers: bool) -> bool {
        self.registry.tick(A);
        if self.views.is_followed(A) && !self.registry.is_by_requests(A) {
            return false;
        }
        let Some(permit) = self.registry.probe_permitted(A) else { return false };
        let report = ProbeReport { healthy: answers, round_trip: None, why: "test", of_hub: None };
        self.registry.on_probe(A, permit, report);
        self.views.on_own_probe(A, answers);
        true
    }

    /// Ten minutes of a hub whose probes of region a fail from the second one on. The seconds at which the sidecar probes it itself.
    fn failed_at_the_hub(&self, answers: bool, mut each: impl FnMut(u64)) -> Vec<u64> {
        let second = |second: u64| {
            if second.is_multiple_of(10) {
                let probe = second / 10 + 1;
                self.views.take(&event(vec![view("a", probe, probe == 1), view("b", probe, true)]));
            }
            self.time.advance(Duration::from_secs(1));
            let sent = self.prober_turn(answers);
            each(second);
            sent.then_some(second)
        };
        (0..600).filter_map(second).collect()
    }

    /// Five failed probes of region a, which open its breaker.
    fn failed_by_views(&self, from: u64) {
        (from..from + 5).for_each(|probe| self.views.take(&event(vec![view("a", probe, false), view("b", 1, true)])));
    }
}

#[test]
fn a_view_counts_as_a_probe_once_and_an_old_one_not_at_all() {
    let it = sidecar();
    let old = FeedView { age_ms: 19_000, ..view("b", 1, false) };
    it.views.take(&FeedViews { age_ms: 1_001, ..event(vec![old.clone(), view("elsewhere", 1, true)]) });
    assert_eq!(it.health(B), Health::Unknown, "older than two intervals");
    it.views.take(&FeedViews { age_ms: 1_000, ..event(vec![old, FeedView { age_ms: 0, ..view("a", 1, true) }]) });
    assert_eq!((it.health(A), it.health(B)), (Health::Healthy, Health::Unhealthy));
    let shown = it.registry.view().region(A).clone();
    assert_eq!(shown.latency, Some(Duration::from_millis(4)));
    assert_eq!(shown.last_probe_unix_ms, Some(999_000), "by the sidecar's own clock");
    // The same probe again is no further failure: only the fifth one opens a breaker.
    (0..9).for_each(|_| it.views.take(&event(vec![view("a", 1, true), view("b", 1, false)])));
    assert_eq!(it.breaker(B), BreakerState::Closed);
    (2..6).for_each(|probe| it.views.take(&event(vec![view("a", 1, true), view("b", probe, false)])));
    assert_eq!(it.breaker(B), BreakerState::Open);
}

#[test]
fn a_breaker_that_views_opened_is_closed_by_a_view_and_one_that_calls_opened_is_not() {
    let it = sidecar();
    it.failed_by_views(1);
    assert_eq!(it.breaker(A), BreakerState::Open);
    it.time.advance(Duration::from_secs(30));
    it.registry.tick(A);
    assert!(!it.registry.is_by_requests(A), "the hub's next probe decides");
    it.views.take(&event(vec![view("a", 9, true)]));
    assert_eq!(it.breaker(A), BreakerState::Closed);
    let failed =
        Attempt { class: GuardClass::Enqueue, status: None, queue_status: false, retry_after: None, source: None };
    (0..5).for_each(|_| it.registry.on_attempt(A, &failed));
    assert_eq!(it.breaker(A), BreakerState::Open);
    it.time.advance(Duration::from_secs(30));
    it.registry.tick(A);
    it.views.take(&event(vec![view("a", 10, true)]));
    assert_eq!(it.breaker(A), BreakerState::HalfOpen, "the way from here may be what is broken");
    assert!(it.registry.is_by_requests(A) && it.registry.probe_permitted(A).is_some());
}

#[test]
fn a_region_that_is_silent_here_stays_so_although_it_answers_the_hub() {
    let it = sidecar();
    it.views.take(&event(vec![view("a", 1, true), view("b", 1, true)]));
    it.registry.on_look(A, false);
    it.views.take(&event(vec![view("a", 2, true), view("b", 2, true)]));
    assert!(it.registry.view().region(A).silent);
    it.registry.on_look(A, true);
    assert!(!it.registry.view().region(A).silent);
}

#[test]
fn a_probe_of_our_own_is_not_undone_by_an_older_one_of_the_hub() {
    let it = sidecar();
    let own = ProbeReport { healthy: false, round_trip: None, why: "timeout", of_hub: None };
    it.registry.on_probe(A, it.registry.probe_permitted(A).unwrap(), own);
    let older = FeedView { age_ms: 1, ..view("a", 1, true) };
    it.views.take(&event(vec![older]));
    assert_eq!(it.health(A), Health::Unhealthy);
    it.views.take(&event(vec![view("a", 2, true)]));
    assert_eq!(it.health(A), Health::Healthy);
}

#[test]
fn views_are_used_although_the_wall_clock_was_set_back_after_a_probe_of_our_own() {
    let it = sidecar();
    let own = ProbeReport { healthy: true, round_trip: None, why: "ok", of_hub: None };
    it.registry.on_probe(A, it.registry.probe_permitted(A).unwrap(), own);
    it.time.set_wall(10_000);
    it.time.advance(Duration::from_secs(1));
    it.views.take(&event(vec![view("a", 1, false), view("b", 1, true)]));
    assert_eq!(it.health(A), Health::Unhealthy);
}

#[test]
fn a_view_that_is_not_used_keeps_no_probe_of_our_own_away() {
    let it = sidecar();
    it.time.advance(Duration::from_secs(60));
    let own = ProbeReport { healthy: true, round_trip: None, why: "ok", of_hub: None };
    it.registry.on_probe(A, it.registry.probe_permitted(A).unwrap(), own);
    it.views.take(&event(vec![FeedView { age_ms: 1, ..view("a", 1, true) }]));
    assert!(!it.views.is_followed(A));
}

#[test]
fn failures_of_all_regions_at_the_hub_change_nothing_and_bring_own_probes() {
    let it = sidecar();
    it.views.take(&event(vec![view("a", 1, true), view("b", 1, true)]));
    assert!(it.views.is_followed(A) && it.views.is_followed(B));
    it.views.take(&event(vec![view("a", 2, false), view("b", 2, false)]));
    assert_eq!((it.health(A), it.health(B)), (Health::Healthy, Health::Healthy));
    it.time.advance(Duration::from_secs(10));
    assert!(!it.views.is_followed(A) && !it.views.is_followed(B));
    it.views.take(&event(vec![view("a", 3, false), view("b", 3, true)]));
    assert_eq!((it.health(A), it.health(B)), (Health::Unhealthy, Health::Healthy));
    // A probe of our own is answered: the hub is not heeded until it agrees.
    it.views.on_own_probe(A, true);
    assert!(!it.views.is_followed(A) && it.views.is_followed(B));
}

#[test]
fn a_region_that_only_the_hub_cannot_reach_is_usable_within_an_interval_although_no_job_was_refused() {
    let it = sidecar();
    let probes = it.failed_at_the_hub(true, |second| {
        assert_eq!(it.breaker(A), BreakerState::Closed);
        assert!(second < 30 || it.health(A) == Health::Healthy, "at {second}");
    });
    assert!(probes[0] < 20 && probes.iter().filter(|second| **second < 20).count() <= 11, "{probes:?}");
}

#[test]
fn a_region_that_is_down_is_checked_by_one_probe_at_first_and_one_behind_each_cooldown() {
    let it = sidecar();
    let mut opened = 0;
    let mut was = BreakerState::Closed;
    let probes = it.failed_at_the_hub(false, |_| {
        let is = it.breaker(A);
        opened += usize::from(is == BreakerState::Open && was != is);
        was = is;
    });
    assert!((10..=20).contains(&probes[0]), "{probes:?}");
    assert_eq!(probes.len(), opened, "the first one, and each that opened the breaker again: {probes:?}");
    let is_apart = |pair: &[u64]| pair[1] - pair[0] >= 30;
    assert!(opened > 9 && probes.windows(2).all(is_apart), "a cooldown apart: {probes:?}");
}

#[test]
fn a_breaker_that_views_opened_is_closed_by_our_own_probe_where_the_region_answers_us_again() {
    let it = sidecar();
    let mut answers_from = None;
    it.views.take(&event(vec![view("a", 1, true), view("b", 1, true)]));
    for second in 0..300 {
        if second % 10 == 0 {
            it.views.take(&event(vec![view("a", second / 10 + 2, false), view("b", second / 10 + 2, true)]));
        }
        it.time.advance(Duration::from_secs(1));
        it.prober_turn(answers_from.is_some());
        if it.breaker(A) == BreakerState::Open {
            answers_from.get_or_insert(second);
        }
        let back = answers_from.is_some_and(|from| second > from + 30 + 10 + 10 + 20);
        assert!(!back || (it.breaker(A) == BreakerState::Closed && it.health(A) == Health::Healthy), "at {second}");
    }
}

#[test]
fn figures_are_taken_with_their_age_and_only_those_of_queues_in_use() {
    let it = sidecar();
    it.traffic.sent(A, Some(&it.traffic.known().queue("mail")));
    let figure = |depth, age_ms| FeedFigure { depth, age_ms };
    let queues = |depth, age_ms| {
        BTreeMap::from([("mail".to_owned(), figure(depth, age_ms)), ("other".to_owned(), figure(1, 0))])
    };
    let with = |probe, depth, age_ms| FeedView { queues: queues(depth, age_ms), ..view("a", probe, true) };
    it.views.take(&event(vec![with(1, 7, 2_000)]));
    let load = |name: &str| it.registry.view().region(A).load.queue(name).map(|it| (it.depth, it.at));
    let at = it.registry.clock().now() - Duration::from_secs(2);
    assert_eq!((load("mail"), load("other")), (Some((7, at)), None));
    let polled = |names: &[&str]| {
        let wanted = names.iter().map(|name| Some(Arc::from(*name))).collect();
        let polled = it.views.without_figure(A, wanted);
        polled.into_iter().flatten().map(|name| name.to_string()).collect::<Vec<_>>()
    };
    assert!(polled(&["mail"]).is_empty());
    // The same figure, sent again a second later, is the figure of before.
    it.time.advance(Duration::from_secs(1));
    it.views.take(&event(vec![with(2, 7, 2_950)]));
    assert_eq!(load("mail"), Some((7, at)));
    it.views.take(&FeedViews { load: "admin".to_owned(), ..event(vec![with(3, 9, 0)]) });
    assert!(it.views.is_followed(A));
    assert_eq!(polled(&["mail"]), ["mail"], "the hub polls other figures than this sidecar");
}

#[test]
fn a_queue_that_the_hub_does_not_poll_is_polled_here_and_the_others_are_not() {
    let it = sidecar();
    ["left-out", "mail", "new"].iter().for_each(|queue| it.traffic.sent(A, Some(&it.traffic.known().queue(queue))));
    let mut polled = Vec::new();
    for second in 0..300 {
        if second % 10 == 0 {
            let figure = FeedFigure { depth: 7, age_ms: 0 };
            let mut queues = BTreeMap::from([("mail".to_owned(), figure)]);
            // The hub hears of one later, and leaves one out from the hundredth second on.
            let sent = [("new", second >= 20), ("left-out", second < 100)];
            queues.extend(sent.iter().filter(|(_, is_sent)| *is_sent).map(|(name, _)| ((*name).to_owned(), figure)));
            let region = |id| FeedView { queues: queues.clone(), ..view(id, second / 10 + 1, true) };
            it.views.take(&event(vec![region("a"), view("b", second / 10 + 1, true)]));
            let wanted = it.traffic.queues().into_iter().map(Some).collect();
            polled.extend(
                it.views.without_figure(A, wanted).into_iter().flatten().map(|name| (second, name.to_string())),
            );
        }
        it.time.advance(Duration::from_secs(1));
    }
    let from_120: Vec<_> = (120..300).step_by(10).map(|second| (second, "left-out".to_owned())).collect();
    assert_eq!(polled, from_120);
    it.views.await_figures(A);
    assert!(
        it.views.without_figure(A, vec![Some(Arc::from("left-out"))]).is_empty(),
        "behind an outage the hub is waited for"
    );
}

#[test]
fn the_end_of_the_feed_and_views_that_stop_coming_bring_own_probes_within_an_interval() {
    let it = sidecar();
    it.views.take(&event(vec![view("a", 1, true), view("b", 1, true)]));
    it.views.lost();
    it.time.advance(Duration::from_secs(10));
    assert!(!it.views.is_followed(A));
    it.views.opened();
    it.views.take(&event(vec![view("a", 1, true), view("b", 1, true)]));
    assert!(it.views.is_followed(A));
    it.time.advance(Duration::from_secs(19));
    it.views.take(&event(vec![view("a", 2, true)]));
    it.time.advance(Duration::from_secs(11));
    assert!(it.views.is_followed(A) && !it.views.is_followed(B), "the hub has no news of b");
}

/// A sidecar in region a, a spoke; the hub is elsewhere, so that region b is another spoke.
fn spoke() -> Sidecar {
    sidecar_with(|config| config.topology = Topology::HubSpoke)
}

#[test]
fn a_spoke_takes_views_of_other_spokes_alone_and_never_asks_them() {
    let it = spoke();
    it.views.take(&event(vec![view("a", 1, false), view("b", 1, true)]));
    assert_eq!((it.health(A), it.health(B)), (Health::Unknown, Health::Healthy), "its own region it probes itself");
    it.traffic.used_elsewhere("mail");
    it.time.advance(Duration::from_secs(600));
    assert!(it.views.without_figure(B, vec![None, Some("mail".into())]).is_empty());
    assert_eq!(it.health(B), Health::Healthy, "the last view stands");
}

#[test]
fn a_breaker_of_another_spoke_that_calls_opened_is_closed_by_the_next_view_behind_its_cooldown() {
    let it = spoke();
    it.views.take(&event(vec![view("b", 1, true)]));
    let failed =
        Attempt { class: GuardClass::Enqueue, status: None, queue_status: false, retry_after: None, source: None };
    (0..5).for_each(|_| it.registry.on_attempt(B, &failed));
    assert_eq!(it.breaker(B), BreakerState::Open);
    it.views.take(&event(vec![view("b", 2, true)]));
    assert_eq!(it.breaker(B), BreakerState::Open, "the cooldown is not over");
    it.time.advance(Duration::from_secs(30));
    it.registry.tick(B);
    assert_eq!(it.breaker(B), BreakerState::HalfOpen);
    it.views.take(&event(vec![view("a", 3, true), view("b", 3, false)]));
    assert_eq!(it.breaker(B), BreakerState::Open, "the view decides, also where it is a failure");
    it.time.advance(Duration::from_secs(30));
    it.registry.tick(B);
    it.views.take(&event(vec![view("b", 4, true)]));
    assert_eq!(it.breaker(B), BreakerState::Closed);
}
