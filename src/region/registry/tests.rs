//! The registry around the keeper: what data threads count, what they skip, and what is published.

use std::time::Duration;

use super::*;
use crate::base::{Moment, SteeredTime, SwitchKind, SwitchSubject};
use crate::config::{Decide, FetchWith, HubConfig, Ledger, RegionTls, RepeatedIds};
use crate::ojs::Class;
use crate::policy::{GuardClass, testing};
use crate::switch::{Switch, Switches};

const A: RegionIndex = RegionIndex::new(0);
const B: RegionIndex = RegionIndex::new(1);

/// Two regions that are never called.
fn registry() -> (Registry, Arc<SteeredTime>) {
    registry_of(testing::config(&["a", "b"]))
}

fn registry_of(mut config: Config) -> (Registry, Arc<SteeredTime>) {
    config.regions.iter_mut().for_each(|region| region.url.tls = false);
    let regions = config.regions.iter().enumerate();
    let regions = regions.map(|(place, region)| Arc::new(Region::load(place, region).unwrap())).collect();
    let ids: Vec<_> = config.regions.iter().map(|region| region.id.clone()).collect();
    let metrics = Metrics::new(&ids, &Class::ALL.map(Class::as_str));
    let time = SteeredTime::starting_at(0);
    (Registry::new(&config, regions, Clock::new(Arc::new(Arc::clone(&time))), metrics), time)
}

fn call(registry: &Registry, index: RegionIndex, class: GuardClass, status: Option<u16>) {
    registry.on_attempt(index, &Attempt { class, status, queue_status: false, retry_after: None, source: None });
}

fn guard(registry: &Registry) -> &'static str {
    registry.view().region(A).guard(GuardClass::Enqueue).as_str()
}

#[test]
fn enqueues_that_fail_beside_fetches_that_work_are_kept_away_and_come_back_by_trials() {
    let (registry, time) = registry();
    registry.tick(A);
    call(&registry, A, GuardClass::Fetch, Some(200));
    (0..5).for_each(|_| call(&registry, A, GuardClass::Enqueue, None));
    assert_eq!((guard(&registry), registry.view().region(A).breaker), ("open", BreakerState::Closed));
    assert!(registry.metrics.render().contains(r#"ojs_federation_guard_open{class="enqueue",region="a"} 1"#));
    time.advance(Duration::from_secs(30));
    registry.tick(A);
    assert_eq!(guard(&registry), "trial");
    (0..5).for_each(|_| call(&registry, A, GuardClass::Enqueue, Some(201)));
    assert_eq!(guard(&registry), "closed");
}

#[test]
fn successes_that_change_nothing_are_counted_and_make_no_new_view() {
    let (registry, _) = registry();
    let before = registry.view().clone();
    (0..10).for_each(|_| call(&registry, A, GuardClass::Enqueue, Some(201)));
    assert!(Arc::ptr_eq(&before, &registry.view()));
    assert_eq!(registry.region(A).counters.totals().classes[0].calls, 10);
    call(&registry, A, GuardClass::Enqueue, Some(429));
    assert!(registry.view().region(A).pressure.is_some());
    assert_eq!(
        registry.region(A).counters.totals().classes[0].calls,
        10,
        "backpressure is neither success nor failure"
    );
}

#[tokio::test]
async fn regions_that_fail_together_with_our_own_network_keep_their_verdicts() {
    let (registry, _) = registry();
    for index in [A, B] {
        (0..5).for_each(|_| call(&registry, index, GuardClass::Enqueue, None));
    }
    assert!(registry.view().regions.iter().all(|region| region.breaker == BreakerState::Open));
    registry.all_fail().await;
    registry.on_own_check(false);
    assert!(registry.is_suspect());
    assert!(registry.view().regions.iter().all(|region| region.breaker == BreakerState::Closed));
    (0..20).for_each(|_| call(&registry, A, GuardClass::Enqueue, None));
    assert_eq!(registry.view().region(A).breaker, BreakerState::Closed, "nothing is learned meanwhile");
    call(&registry, B, GuardClass::Read, Some(200));
    assert!(!registry.is_suspect(), "an answer ends it");
}

#[test]
fn the_view_in_which_a_hub_is_heard_has_the_isolations_that_it_has_sent() {
    let mut config = testing::config(&["a", "b"]);
    config.hub = Some(HubConfig {
        urls: Vec::new(),
        tls: RegionTls::default(),
        name: None,
        report_jobs: false,
        ledger: Ledger::Off,
        report_bodies: Vec::new(),
        repeated_ids: RepeatedIds::Pass,
        lease: Duration::from_secs(30),
        fetch: FetchWith::Heard,
        decide: Decide::View,
        decide_cache: Duration::ZERO,
        decide_wait: Duration::ZERO,
    });
    let (registry, _) = registry_of(config);
    assert!(registry.view().fetch_waits);
    let text = || "x".to_owned();
    let isolation = Switch {
        kind: SwitchKind::Isolate,
        subject: SwitchSubject::Region(testing::id("a")),
        calls: None,
        until: Moment(9_000),
        set_unix_ms: 1,
        ends_unix_ms: 9_000,
        reason: text(),
        ticket: text(),
        author: text(),
    };
    let mut switches = Switches::default();
    switches.set(isolation);
    // The task that follows the switches of the journal has not run.
    assert!(registry.hear_hub(|| switches));
    let view = registry.view();
    assert!(!view.fetch_waits && view.region(A).is_isolated() && !view.region(B).is_isolated());
    assert!(!registry.hear_hub(Switches::default), "it was heard before");
    assert!(registry.view().region(A).is_isolated());
}
