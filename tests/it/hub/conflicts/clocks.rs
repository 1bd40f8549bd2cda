//! A hub whose clock differs is pulled from no longer, until the clocks agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use http::Method;
use ojs_handles::{Sleep, SystemTime, Time};
use serde_json::json;

use super::super::INFO;
use super::super::index::{hub_of, pulls};
use super::super::stage::status;
use super::figure;
use crate::support::{Process, Setup, eventually};

/// A clock that runs ahead of the system's clock by some milliseconds.
struct Ahead(Arc<AtomicU64>);

impl Time for Ahead {
    fn now(&self) -> Instant {
        SystemTime.now()
    }

    fn unix_ms(&self) -> u64 {
        SystemTime.unix_ms() + self.0.load(Ordering::Relaxed)
    }

    fn sleep_until(&self, deadline: Instant) -> Sleep {
        SystemTime.sleep_until(deadline)
    }
}

#[tokio::test]
async fn nothing_is_taken_from_a_hub_whose_clock_differs_until_it_agrees_and_that_is_said_once() {
    let (mut us, eu) = (hub_of("us-east-1", "eu-west-1"), hub_of("eu-west-1", "us-east-1"));
    us.run().await.kill();
    eu.run().await.kill();
    us.set_more(&pulls("us-east-1", "eu-west-1", &eu));
    let ahead = Arc::new(AtomicU64::new(0));
    let settings = ojs_sidecar::hub::Settings::load(&eu.write_config(0)).unwrap();
    let clock = ojs_sidecar::base::Clock::new(Arc::new(Ahead(Arc::clone(&ahead))));
    let bound = ojs_sidecar::hub::bind(settings, clock).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || bound.run(async { drop(stopped.await) }).unwrap());
    let section = eu.section("two").replace("hub: {", "hub: { report_jobs: true,");
    let federation = Setup::default().yaml(&section).stage().await;
    let in_eu = Process::run(&federation.config, &[&INFO[..], &["--set", "local_region=eu-west-1"]].concat()).await;
    eu.follows("two").await;
    let of_us = us.again(0).await;
    let label = "{from=\"eu-west-1\",to=\"us-east-1\"}";
    let (by, is_stopped) = (format!("ojs_hub_clock_skew_seconds{label}"), format!("ojs_hub_clock_stopped{label}"));
    eventually("the clocks agree", async || figure(&of_us, &is_stopped).await.as_deref() == Some("0")).await;
    ahead.store(3_600_000, Ordering::Relaxed);
    eventually("the pull has stopped", async || figure(&of_us, &is_stopped).await.as_deref() == Some("1")).await;
    let seconds: f64 = figure(&of_us, &by).await.unwrap().parse().unwrap();
    assert!((3_500.0..3_700.0).contains(&seconds), "{seconds}");
    let job = json!({ "type": "t", "args": [], "meta": { "ojs.federation.region": "eu-west-1" } });
    let id = in_eu.client.enqueue(job.to_string()).await.job_id();
    let path = format!("/v1/federation/jobs?job_id={id}");
    eventually("its own hub has it", async || status(&eu, "eve", &Method::GET, &path).await.0 == 200).await;
    // Some further pulls, each with a difference of its own.
    for more in [1_000, 2_000] {
        ahead.store(3_600_000 + more, Ordering::Relaxed);
        eventually("it is pulled from again", async || {
            figure(&of_us, &by).await.unwrap().parse::<f64>().unwrap() > seconds + more as f64 / 2_000.0
        })
        .await;
    }
    assert_eq!(status(&us, "eve", &Method::GET, &path).await.0, 404);
    assert_eq!(of_us.log_count(&["hub_pull_failed", "index.max_skew"]), 1);
    ahead.store(0, Ordering::Relaxed);
    eventually("its facts are taken", async || status(&us, "eve", &Method::GET, &path).await.0 == 200).await;
    assert_eq!(figure(&of_us, &is_stopped).await.as_deref(), Some("0"));
    eventually("the return is in the log", async || of_us.log_has(&["hub_pull_returns"])).await;
    let _ = stop.send(());
    drop((in_eu, of_us));
    thread.join().unwrap();
}
