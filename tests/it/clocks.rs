//! Regions whose clocks are wrong, and what the sidecar's own clock brings about.

use std::time::Duration;

use ojs_sidecar::base::{Clock, SteeredTime};
use ojs_testbed::{Fault, JobState, When};
use serde_json::json;

use crate::support::{IDS, Setup, pinned};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_region_hours_off_or_whose_clock_jumps_takes_finds_and_settles_jobs() {
    let now = Clock::system().unix_ms();
    let hour = u64::try_from(HOUR.as_millis()).unwrap();
    let (ahead, behind) = (SteeredTime::starting_at(now + 5 * hour), SteeredTime::starting_at(now - 5 * hour));
    let clocks = [Clock::system(), clock(&ahead), clock(&behind)];
    let of = |id: &str| IDS.iter().position(|known| *known == id).unwrap();
    let federation = Setup::default()
        .by_the_documents()
        .demo(move |options| options.clock = clocks[of(&options.id)].clone())
        .start()
        .await;
    for (place, region) in IDS.into_iter().enumerate() {
        let name = format!("in-{region}");
        // The answer is lost, so that the region is asked for the job, whatever the time of its creation says.
        federation.regions[place].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: true });
        let made = federation.client.enqueue(pinned(region, &name)).await;
        assert_eq!((made.status.as_u16(), made.region()), (201, region), "{made:?}");
        let id = made.job_id();
        assert_eq!(federation.regions[place].jobs().job(&id).unwrap().stored, 1);
        let beside = federation.sidecar_in(region, &[]).await;
        let fetch = json!({ "queues": ["default"], "worker_id": "w1" }).to_string();
        let fetched = beside.client.post("/ojs/v1/workers/fetch", fetch.clone()).await.json();
        assert_eq!(fetched["jobs"][0]["id"], id.as_str(), "{fetched}");
        if place == 1 {
            // The lease is over at once; the next worker gets the job, and the first one's word is too late.
            ahead.advance(HOUR);
            let second = fetch.replace("w1", "w2");
            let fetched = beside.client.post("/ojs/v1/workers/fetch", second).await.json();
            assert_eq!(fetched["jobs"][0]["id"], id.as_str(), "{fetched}");
            let late = json!({ "job_id": id, "worker_id": "w1" }).to_string();
            assert_eq!(beside.client.post("/ojs/v1/workers/ack", late).await.status, 409);
        }
        let worker = if place == 1 { "w2" } else { "w1" };
        let ack = json!({ "job_id": id, "worker_id": worker }).to_string();
        assert_eq!(beside.client.post("/ojs/v1/workers/ack", ack).await.status, 200);
        let shown = federation.client.get(&format!("/ojs/v1/jobs/{id}")).await;
        assert_eq!((shown.region(), &shown.json()["job"]["state"]), (region, &json!("completed")));
        assert_eq!(federation.regions[place].jobs().count_in(JobState::Completed), 1);
        assert_eq!((federation.health(place), federation.breaker(place)), ("healthy", "closed"));
    }
}

fn clock(time: &std::sync::Arc<SteeredTime>) -> Clock {
    Clock::new(std::sync::Arc::new(std::sync::Arc::clone(time)))
}

#[tokio::test]
async fn a_region_is_probed_once_an_interval_however_busy_clients_are() {
    let federation = Setup::default().steered().yaml("health_check: { interval: 10s }").start().await;
    federation.regions.iter().for_each(|region| region.record().clear());
    for number in 0..120 {
        federation.advance(Duration::from_secs(1));
        assert_eq!(federation.client.enqueue(pinned("eu-west-1", &format!("busy-{number}"))).await.status, 201);
        assert_eq!(federation.client.get("/ojs/v1/health").await.status, 200);
    }
    for (place, region) in IDS.into_iter().enumerate() {
        let probes = federation.probes(place);
        // Each wait is spread by a tenth; one that began before may end within.
        assert!((1..=14).contains(&probes), "{region}: {probes} probes in twelve intervals");
    }
}
