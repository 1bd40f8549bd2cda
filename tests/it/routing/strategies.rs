//! The eight strategies, each through the whole program.

use std::collections::BTreeMap;
use std::time::Duration;

use ojs_sidecar::policy::{Figure, LoadFigures};
use ojs_testbed::{Fault, When};

use super::{asking, check, job, land};
use crate::support::{Federation, IDS, Setup, eventually};

/// Says of a region that it is unwell, and waits until the sidecar knows.
async fn make_unhealthy(federation: &Federation, place: usize) {
    let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
    federation.regions[place].faults().add(When::health(), fault);
    federation.advance_until_health(place, "unhealthy").await;
}

/// The region with the lowest latency among some.
fn nearest(federation: &Federation, among: &[usize]) -> usize {
    let view = federation.shared.registry.view();
    *among.iter().min_by_key(|place| view.regions[**place].latency).unwrap()
}

/// Waits until a figure of every region is fresh and as deep as said.
async fn polled_by(federation: &Federation, figure: impl Fn(&LoadFigures) -> Option<Figure>, depths: [u64; 3]) {
    federation
        .advance_until("the polled depths", || {
            let registry = &federation.shared.registry;
            let (view, now) = (registry.view(), registry.clock().now());
            let fresh = |at| now.saturating_duration_since(at) <= Duration::from_secs(10);
            let holds = |place: usize| {
                // A depth that has just jumped may jump again before the next poll, so nobody is told apart by it.
                let holds = |it: Figure| it.depth == depths[place] && it.drift == 0 && fresh(it.at);
                figure(&view.regions[place].load).is_some_and(holds)
            };
            (0..3).all(holds)
        })
        .await;
}

async fn polled(federation: &Federation, queue: &str, depths: [u64; 3]) {
    polled_by(federation, |load| load.queue(queue), depths).await;
}

/// How many of `count` jobs landed in each region, by place.
async fn spread(federation: &Federation, body: &str, count: usize) -> [usize; 3] {
    let mut landed = BTreeMap::new();
    for _ in 0..count {
        *landed.entry(land(federation, body).await.region().to_owned()).or_default() += 1;
    }
    IDS.map(|id| landed.get(id).copied().unwrap_or_default())
}

#[tokio::test]
async fn affinity_takes_the_local_region_and_without_it_the_nearest() {
    let federation = Setup::default().steered().start().await;
    check(&land(&federation, &job("")).await, "us-east-1", "affinity");
    make_unhealthy(&federation, 0).await;
    eventually("a job between two probes", async || {
        let before = nearest(&federation, &[1, 2]);
        let answer = land(&federation, &job(r#""ojs.federation.region_affinity":"affinity""#)).await;
        let steady = before == nearest(&federation, &[1, 2]);
        assert!(!steady || answer.region() == IDS[before], "{answer:?}");
        steady
    })
    .await;
    federation.regions[0].faults().clear();
    federation.advance_until_health(0, "healthy").await;
    federation.advance(Duration::from_secs(11));
    check(&land(&federation, &job("")).await, "us-east-1", "affinity");
}

#[tokio::test]
async fn affinity_falls_back_to_the_preferred_region_before_the_nearest() {
    for preferred in ["eu-west-1", "ap-south-1"] {
        let yaml = format!("failover: {{ prefer_regions: [{preferred}] }}");
        let federation = Setup::default().steered().yaml(&yaml).start().await;
        make_unhealthy(&federation, 0).await;
        check(&land(&federation, &job("")).await, preferred, "affinity");
    }
}

#[tokio::test]
async fn affinity_leaves_a_region_whose_queue_is_at_its_maximum_depth() {
    let setup = Setup::default().steered().region(0, "max_queue_depth: 20");
    let federation = setup.yaml("failover: { prefer_regions: [ap-south-1] }").start().await;
    check(&land(&federation, &asking("affinity", "mail")).await, "us-east-1", "affinity");
    federation.regions[0].fill("mail", 18);
    polled(&federation, "mail", [19, 0, 0]).await;
    check(&land(&federation, &asking("affinity", "mail")).await, "us-east-1", "affinity");
    // The figure is still 19; what was sent since makes it 20.
    check(&land(&federation, &asking("affinity", "mail")).await, "ap-south-1", "affinity");
    check(&land(&federation, &asking("affinity", "other")).await, "us-east-1", "affinity");
    check(&land(&federation, &job(r#""ojs.federation.region":"us-east-1""#)).await, "us-east-1", "geo-pin");
}

#[tokio::test]
async fn the_depth_of_a_queue_with_shards_is_that_of_all_its_names() {
    let setup = Setup::default().steered().region(0, "max_queue_depth: 20");
    let setup = setup.yaml("scheduling: { tenant_queues: [{ queue: mail, shards: 2 }] }");
    let federation = setup.yaml("failover: { prefer_regions: [ap-south-1] }").start().await;
    check(&land(&federation, &asking("affinity", "mail")).await, "us-east-1", "affinity");
    for (name, count) in [("mail", 1), ("mail.ojs-t00", 10), ("mail.ojs-t01", 8)] {
        federation.regions[0].fill(name, count);
    }
    polled(&federation, "mail", [20, 0, 0]).await;
    check(&land(&federation, &asking("affinity", "mail")).await, "ap-south-1", "affinity");
    check(&land(&federation, &asking("affinity", "other")).await, "us-east-1", "affinity");
}

#[tokio::test]
async fn a_job_is_refused_when_the_queue_is_full_everywhere() {
    let depths = |setup: Setup, place| setup.region(place, "max_queue_depth: 1");
    let federation = (0..3).fold(Setup::default().steered(), depths).start().await;
    land(&federation, &asking("affinity", "mail")).await;
    (0..3).for_each(|place| federation.regions[place].fill("mail", 5));
    polled(&federation, "mail", [6, 5, 5]).await;
    let sent = federation.job_requests();
    let answer = federation.client.enqueue(asking("affinity", "mail")).await;
    answer.check_error(503, "backend_error", "no_healthy_region");
    // The next poll.
    answer.check_retry_after(10);
    assert_eq!(federation.job_requests(), sent);
}

#[tokio::test]
async fn overflow_takes_the_region_whose_queue_is_least_deep() {
    let federation = Setup::default().steered().start().await;
    land(&federation, &asking("overflow", "video")).await;
    let before: Vec<usize> = federation.regions.iter().map(|region| region.jobs().len()).collect();
    for (place, count) in [5000, 1000, 100].into_iter().enumerate() {
        federation.regions[place].fill("video", count - before[place]);
    }
    polled(&federation, "video", [5000, 1000, 100]).await;
    assert_eq!(spread(&federation, &asking("overflow", "video"), 12).await, [0, 0, 12]);
    federation.regions[2].fill("video", 8888);
    polled(&federation, "video", [5000, 1000, 9000]).await;
    assert_eq!(spread(&federation, &asking("overflow", "video"), 12).await, [0, 12, 0]);
}

#[tokio::test]
async fn regions_are_asked_about_a_queue_whose_first_job_comes_after_a_long_silence() {
    let federation = Setup::default().steered().start().await;
    federation.advance(Duration::from_secs(11 * 60));
    land(&federation, &asking("overflow", "video")).await;
    let before: Vec<usize> = federation.regions.iter().map(|region| region.jobs().len()).collect();
    for (place, count) in [30, 20, 10].into_iter().enumerate() {
        federation.regions[place].fill("video", count - before[place]);
    }
    polled(&federation, "video", [30, 20, 10]).await;
}

#[tokio::test]
async fn overflow_divides_depths_by_weights_and_reads_totals_where_it_is_told_to() {
    let setup = Setup::default().steered().yaml("load: { source: admin }").region(0, "weight: 100");
    let federation = setup.start().await;
    for (place, count) in [1000, 900, 800].into_iter().enumerate() {
        federation.regions[place].fill("anything", count);
    }
    polled_by(&federation, LoadFigures::total, [1000, 900, 800]).await;
    assert_eq!(spread(&federation, &asking("overflow", "video"), 12).await, [12, 0, 0]);
}

#[tokio::test]
async fn overflow_without_figures_spreads_by_weight() {
    let federation = Setup::default().steered().region(1, "weight: 0").start().await;
    let [local, drained, other] = spread(&federation, &asking("overflow", "video"), 80).await;
    assert!(local > 0 && other > 0 && drained == 0, "{local} {drained} {other}");
}

#[tokio::test]
async fn geo_pin_takes_its_region_whatever_else_the_job_asks_for() {
    let federation = Federation::start().await;
    for (place, id) in IDS.into_iter().enumerate() {
        for affinity in ["geo-pin", "affinity", "overflow", "round-robin", "no-such-strategy"] {
            let mark = format!("mark-{place}-{affinity}");
            let meta =
                format!(r#""ojs.federation.region":"{id}","ojs.federation.region_affinity":"{affinity}","m":"{mark}""#);
            check(&land(&federation, &job(&meta)).await, id, "geo-pin");
            assert_eq!(federation.seen(&mark), [place]);
        }
    }
}

#[tokio::test]
async fn round_robin_takes_each_region_in_turn_whatever_comes_between() {
    let federation = Federation::start().await;
    let mut landed = Vec::new();
    for between in [0, 2, 0, 1, 2, 2, 5, 2, 2] {
        for _ in 0..between {
            land(&federation, &job("")).await;
        }
        // A refused job takes no turn either.
        federation.client.enqueue(job(r#""ojs.federation.region":"nowhere""#)).await.check_error(
            400,
            "invalid_request",
            "region_unknown",
        );
        landed.push(land(&federation, &asking("round-robin", "q")).await.region().to_owned());
    }
    assert_eq!(landed, [IDS, IDS, IDS].concat());
}

#[tokio::test]
async fn latency_based_takes_the_region_whose_probes_return_soonest_under_both_names() {
    let federation = Setup::default().steered().start().await;
    let first = nearest(&federation, &[0, 1, 2]);
    let slow = Fault::Slow { delay: Duration::from_millis(40) };
    federation.regions[first].faults().add(When::health(), slow);
    federation.advance_until("another is nearest", || nearest(&federation, &[0, 1, 2]) != first).await;
    for name in ["latency-based", "latency"] {
        eventually("a job between two probes", async || {
            let before = nearest(&federation, &[0, 1, 2]);
            let answer = land(&federation, &asking(name, "q")).await;
            let steady = before == nearest(&federation, &[0, 1, 2]);
            if steady {
                check(&answer, IDS[before], "latency-based");
            }
            steady
        })
        .await;
    }
}

#[tokio::test]
async fn weighted_shares_out_by_the_registry_and_by_the_jobs_own_weights() {
    let setup = Setup::default().region(0, "weight: 9").region(2, "weight: 0");
    let federation = setup.start().await;
    let [first, second, drained] = spread(&federation, &asking("weighted", "q"), 200).await;
    assert_eq!((first + second, drained), (200, 0));
    assert!(second > 0 && first > 140, "{first} to {second}");
    let own = |weights: &str| {
        job(&format!(r#""ojs.federation.region_affinity":"weighted","ojs.federation.weights":{{{weights}}}"#))
    };
    assert_eq!(spread(&federation, &own(r#""eu-west-1":0.001"#), 10).await, [0, 10, 0]);
    assert_eq!(spread(&federation, &own(r#""us-east-1":5,"eu-west-1":0"#), 10).await, [10, 0, 0]);
    // No share for any usable region: the registry's weights count again.
    assert_eq!(spread(&federation, &own(r#""ap-south-1":7"#), 10).await[2], 0);
}

#[tokio::test]
async fn active_passive_takes_the_first_usable_region_of_its_order() {
    let setup = Setup::default().steered().yaml("failover: { prefer_regions: [ap-south-1, eu-west-1] }");
    let federation = setup.start().await;
    check(&land(&federation, &asking("active-passive", "q")).await, "ap-south-1", "active-passive");
    make_unhealthy(&federation, 2).await;
    check(&land(&federation, &asking("active-passive", "q")).await, "eu-west-1", "active-passive");
    make_unhealthy(&federation, 1).await;
    check(&land(&federation, &asking("active-passive", "q")).await, "us-east-1", "active-passive");
}

#[tokio::test]
async fn geographic_takes_the_region_of_the_hint_and_else_the_default_strategy() {
    let yaml = "routing: { geographic: { meta_key: country, regions: { DE: eu-west-1, IN: ap-south-1 } } }";
    let federation = Setup::default().steered().yaml(yaml).start().await;
    let hinted = |hint: &str| job(&format!(r#""ojs.federation.region_affinity":"geographic"{hint}"#));
    check(&land(&federation, &hinted(r#","country":"DE""#)).await, "eu-west-1", "geographic");
    check(&land(&federation, &hinted(r#","country":"I\u004e""#)).await, "ap-south-1", "geographic");
    check(&land(&federation, &hinted(r#","country":"FR""#)).await, "us-east-1", "geographic");
    check(&land(&federation, &hinted(r#","country":7"#)).await, "us-east-1", "geographic");
    check(&land(&federation, &hinted("")).await, "us-east-1", "geographic");
    make_unhealthy(&federation, 1).await;
    check(&land(&federation, &hinted(r#","country":"DE""#)).await, "us-east-1", "geographic");
}
