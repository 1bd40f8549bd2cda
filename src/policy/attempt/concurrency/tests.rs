use proptest::prelude::*;

use super::*;

const A: RegionIndex = RegionIndex::new(0);
const B: RegionIndex = RegionIndex::new(1);
const BOUNDS: Bounds = Bounds { floor: 10, start: 100, ceiling: 500 };
const ROOMY: Bounds = Bounds { floor: 10_000, start: 10_000, ceiling: 10_000 };
const MANY: u64 = 10_000;

/// Places that are granted to this class until one is refused, of at most 1 000.
fn fill(limits: &Concurrency, index: RegionIndex, class: GuardClass) -> Vec<CallPermit<&Limit>> {
    (0..1_000).map_while(|_| limits.acquire(index, class, Instant::now()).ok()).collect()
}

#[test]
fn reads_are_shed_first_then_enqueues_and_words_about_leased_jobs_never() {
    let limits = Concurrency::new(2, BOUNDS, MANY);
    let reads = fill(&limits, A, GuardClass::Read);
    assert_eq!(reads.len(), 80);
    let enqueues = fill(&limits, A, GuardClass::Enqueue);
    assert_eq!(enqueues.len(), 20);
    for class in [GuardClass::Read, GuardClass::Enqueue, GuardClass::Fetch, GuardClass::Admin] {
        assert_eq!(limits.acquire(A, class, Instant::now()).err(), Some(Shed::Region), "{}", class.as_str());
    }
    for class in [GuardClass::Ack, GuardClass::Nack, GuardClass::Heartbeat] {
        assert_eq!(fill(&limits, A, class).len(), 1_000, "{}", class.as_str());
    }
    assert!(limits.acquire(B, GuardClass::Read, Instant::now()).is_ok(), "another region is not full");
    drop((reads, enqueues));
    assert_eq!(limits.in_flight(A), 0);
}

#[test]
fn the_total_bounds_all_regions_and_a_refusal_holds_no_place() {
    let limits = Concurrency::new(2, ROOMY, 100);
    let held = fill(&limits, A, GuardClass::Enqueue);
    assert_eq!(held.len(), 100);
    assert_eq!(limits.acquire(B, GuardClass::Enqueue, Instant::now()).err(), Some(Shed::Total));
    drop(held);
    let limits = Concurrency::new(1, BOUNDS, MANY);
    let held = fill(&limits, A, GuardClass::Enqueue);
    assert!((0..10).all(|_| limits.acquire(A, GuardClass::Enqueue, Instant::now()).is_err()));
    drop(held);
    assert_eq!((limits.in_flight(A), limits.total.in_flight.load(Relaxed)), (0, 0));
}

/// Keeps the region as full as it may be for so many seconds, each call taking `latency_ms` of its number.
fn busy(limits: &Concurrency, now: &mut Instant, seconds: u32, latency_ms: impl Fn(u64) -> u64) {
    for _ in 0..seconds * 10 {
        *now += Duration::from_millis(100);
        let permits = fill(limits, A, GuardClass::Enqueue);
        let calls = permits.len() as u64;
        permits.into_iter().for_each(|permit| permit.done(*now, Some(Duration::from_millis(latency_ms(calls)))));
    }
}

#[test]
fn a_limit_grows_to_its_ceiling_while_latency_is_flat_and_calls_want_in() {
    let (limits, mut now) = (Concurrency::new(1, BOUNDS, MANY), Instant::now());
    busy(&limits, &mut now, 300, |_| 200);
    assert_eq!(limits.limit(A), 500);
}

#[test]
fn a_limit_that_nobody_reaches_does_not_grow() {
    let (limits, mut now) = (Concurrency::new(1, BOUNDS, MANY), Instant::now());
    for _ in 0..10_000 {
        now += Duration::from_millis(30);
        limits.acquire(A, GuardClass::Enqueue, Instant::now()).unwrap().done(now, Some(Duration::from_millis(20)));
    }
    assert_eq!(limits.limit(A), 100);
}

#[test]
fn a_limit_shrinks_when_latency_rises_and_no_further_than_its_floor() {
    let (limits, mut now) = (Concurrency::new(1, BOUNDS, MANY), Instant::now());
    busy(&limits, &mut now, 300, |_| 200);
    busy(&limits, &mut now, 10, |_| 4_000);
    let shrunk = limits.limit(A);
    assert!((10..150).contains(&shrunk), "{shrunk}");
}

#[test]
fn a_burst_at_a_region_next_door_takes_nothing_from_its_limit() {
    let (limits, mut now) = (Concurrency::new(1, Bounds::below(500), MANY), Instant::now());
    for _ in 0..1_000 {
        now += Duration::from_millis(10);
        limits.acquire(A, GuardClass::Enqueue, Instant::now()).unwrap().done(now, Some(Duration::from_micros(300)));
    }
    busy(&limits, &mut now, 10, |_| 40);
    assert_eq!(limits.limit(A), 500);
}

#[test]
fn what_was_learned_and_what_is_under_way_goes_over_to_the_same_region_at_another_place() {
    let (limits, mut now) = (Concurrency::new(2, BOUNDS, MANY), Instant::now());
    busy(&limits, &mut now, 300, |_| 200);
    let held = fill(&limits, A, GuardClass::Enqueue);
    let next = limits.carried_over(BOUNDS, [None, Some(A)].into_iter());
    assert_eq!((next.limit(A), next.limit(B)), (100, 500));
    assert_eq!((next.in_flight(A), next.in_flight(B), next.total_in_flight()), (0, 500, 500));
    drop(held);
    assert_eq!(next.total_in_flight(), 0);
}

#[test]
fn a_limit_settles_where_a_region_begins_to_queue() {
    // A region that serves a hundred at once in 200 ms each, and makes the others wait.
    let (limits, mut now) = (Concurrency::new(1, BOUNDS, MANY), Instant::now());
    busy(&limits, &mut now, 20, |calls| 200 * calls.div_ceil(50).max(1));
    let settled = limits.limit(A);
    assert!((50..=250).contains(&settled), "{settled}");
}

#[test]
fn failed_calls_shrink_it_like_slow_ones() {
    let (limits, mut now) = (Concurrency::new(1, BOUNDS, MANY), Instant::now());
    busy(&limits, &mut now, 30, |_| 200);
    let before = limits.limit(A);
    for _ in 0..50 {
        now += Duration::from_millis(100);
        fill(&limits, A, GuardClass::Enqueue).into_iter().for_each(|permit| permit.done(now, None));
    }
    assert!(limits.limit(A) < before / 2, "{} of {before}", limits.limit(A));
}

proptest! {
    #[test]
    fn a_limit_stays_between_floor_and_ceiling_and_no_place_is_lost(
        steps in prop::collection::vec((0..2_000_u64, 0..5_000_u64, 0..120_usize, 0..7_usize, any::<bool>()), 1..200),
    ) {
        let (limits, mut now) = (Concurrency::new(1, BOUNDS, 500), Instant::now());
        for (wait, latency, calls, class, gives_up) in steps {
            now += Duration::from_millis(wait);
            let class = GuardClass::ALL[class];
            let permits: Vec<_> = (0..calls).map_while(|_| limits.acquire(A, class, Instant::now()).ok()).collect();
            if class.is_refusable() {
                prop_assert!(permits.len() as u64 <= limits.limit(A));
            }
            for permit in permits {
                if !gives_up {
                    permit.done(now, (latency > 0).then(|| Duration::from_millis(latency)));
                }
            }
            prop_assert!((10..=500).contains(&limits.limit(A)) && limits.total_limit() == 500);
            prop_assert_eq!(limits.in_flight(A), 0);
        }
    }

    #[test]
    fn flat_latency_never_shrinks_it(latency in 1..10_000_u64, calls in 1..100_usize) {
        let (limits, mut now) = (Concurrency::new(1, BOUNDS, MANY), Instant::now());
        let mut before = limits.limit(A);
        for _ in 0..100 {
            now += Duration::from_millis(100);
            let permits: Vec<_> = (0..calls).map_while(|_| limits.acquire(A, GuardClass::Enqueue, Instant::now()).ok()).collect();
            permits.into_iter().for_each(|permit| permit.done(now, Some(Duration::from_millis(latency))));
            prop_assert!(limits.limit(A) >= before);
            before = limits.limit(A);
        }
    }
}

#[test]
fn a_throttled_call_leaves_its_place_in_the_grant() {
    let limits = Concurrency::new(1, ROOMY, MANY);
    limits.grant(A).set_limit(Some(3));
    limits.throttle(A).set(Some(1));
    let held = fill(&limits, A, GuardClass::Enqueue);
    assert_eq!(held.len(), 1);
    for _ in 0..10 {
        assert_eq!(limits.acquire(A, GuardClass::Enqueue, Instant::now()).err(), Some(Shed::Throttle));
    }
    assert_eq!(fill(&limits, A, GuardClass::Ack).len(), 1_000, "words about leased jobs are not throttled");
    drop(held);
    limits.throttle(A).set(None);
    let held = fill(&limits, A, GuardClass::Enqueue);
    assert_eq!((held.len(), limits.acquire(A, GuardClass::Enqueue, Instant::now()).err()), (3, Some(Shed::Fleet)));
}

#[test]
fn calls_under_way_count_in_a_throttle_over_a_reload() {
    let limits = Concurrency::new(1, ROOMY, MANY);
    limits.throttle(A).set(Some(1));
    for after in
        [limits.carried_over(ROOMY, [Some(A)].into_iter()), limits.bounded_anew(BOUNDS, MANY, [Some(A)].into_iter())]
    {
        let held = fill(&limits, A, GuardClass::Enqueue);
        assert_eq!((held.len(), fill(&after, A, GuardClass::Enqueue).len()), (1, 0));
        drop(held);
        assert_eq!(fill(&after, A, GuardClass::Enqueue).len(), 1);
    }
}
