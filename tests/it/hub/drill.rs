//! A failover drill: a share of the flexible jobs of a region goes to another one, for a time, until something goes wrong, or until the hub is lost.

mod refused;

use std::path::PathBuf;

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::Value;

use super::INFO;
use super::stage::{HubStage, status};
use super::views::regions;
use crate::support::{Process, Scrape, Setup, Stage, eventually, job, pinned};

const HOME: &str = "us-east-1";
const OTHER: &str = "eu-west-1";
const STARTED: &str = "ojs.federation.drill_started";
const ENDED: &str = "ojs.federation.drill_ended";

/// The regions, and the configurations of two sidecars before them.
struct Two {
    stage: Stage,
    configs: [PathBuf; 2],
}

impl Two {
    async fn new(hubs: &HubStage, more: &str) -> Self {
        let own = hubs.section("one");
        let stage = Setup::default().regions(2).yaml(&own).yaml(more).stage().await;
        let second = stage.files.path().join("two.yaml");
        let text = std::fs::read_to_string(&stage.config).unwrap().replace(&own, &hubs.section("two"));
        std::fs::write(&second, text).unwrap();
        let configs = [stage.config.clone(), second];
        Self { stage, configs }
    }

    /// Both sidecars, which follow the hub.
    async fn run(&self, hubs: &HubStage) -> [Process; 2] {
        let sidecars = [Process::run(&self.configs[0], &INFO).await, Process::run(&self.configs[1], &INFO).await];
        hubs.follows("one").await;
        hubs.follows("two").await;
        sidecars
    }

    /// The jobs of a region whose arguments have this text, each once.
    fn jobs_in(&self, place: usize, args: &str) -> usize {
        let jobs = self.stage.regions[place].jobs();
        let mut ids: Vec<String> = jobs.iter().filter(|it| it.args.contains(args)).map(|it| it.id.clone()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "a job is stored once");
        all
    }
}

/// Orders a drill, and returns its name.
async fn begin(hubs: &HubStage, more: &[&str]) -> String {
    let ended = hubs.order("ann", &[&["drill", HOME], more].concat()).await;
    assert_eq!(ended.code, Some(0), "{}", ended.all());
    ended.stdout.split(':').next().unwrap().to_owned()
}

/// The report of a drill.
async fn report(hubs: &HubStage, id: &str) -> Value {
    status(hubs, "eve", &Method::GET, &format!("/v1/hub/drills/{id}")).await.1["drill"].clone()
}

async fn lines(sidecar: &Process, words: &str) -> usize {
    sidecar.log().iter().filter(|line| line.contains(words)).count()
}

/// Enqueues so many flexible jobs, which are all stored.
async fn enqueue(sidecar: &Process, count: usize, args: &str) {
    for _ in 0..count {
        let stored = sidecar.client.enqueue(job(args)).await;
        assert_eq!(stored.status, 201, "{stored:?}");
    }
}

async fn ends(hubs: &HubStage, id: &str, cause: &str) -> Value {
    let mut last = Value::Null;
    eventually(&format!("the drill ends by {cause}"), async || {
        last = report(hubs, id).await;
        last["on"] == false
    })
    .await;
    assert_eq!(last["cause"], cause, "{last}");
    last
}

#[tokio::test]
async fn the_share_of_flexible_jobs_goes_elsewhere_until_the_end_and_the_report_counts_as_the_regions_do() {
    let hubs = HubStage::new("");
    let mut hub = hubs.run().await;
    let two = Two::new(&hubs, "").await;
    let sidecars = two.run(&hubs).await;
    let id = begin(&hubs, &["--share", "50%", "--for", "10m"]).await;
    assert!(hub.log_has(&["hub_drill_started", &id]));
    for sidecar in &sidecars {
        sidecar.wait_for_line(STARTED).await;
        enqueue(sidecar, 40, "flexible").await;
        for _ in 0..5 {
            let stored = sidecar.client.enqueue(pinned(HOME, "bound")).await;
            assert_eq!((stored.status.as_u16(), stored.region()), (201, HOME), "{stored:?}");
        }
    }
    // The drill takes 20 jobs of any 40 that one sidecar sends in a row.
    assert_eq!((two.jobs_in(0, "flexible"), two.jobs_in(1, "flexible"), two.jobs_in(0, "bound")), (40, 40, 10));
    let mut shown = Value::Null;
    eventually("all jobs are reported", async || {
        shown = report(&hubs, &id).await;
        shown["diverted"]["jobs"] == 40 && shown["control"]["jobs"] == 40 && shown["stayed"]["bound"] == 10
    })
    .await;
    assert_eq!((&shown["diverted"]["stored"], &shown["control"]["stored"]), (&40.into(), &40.into()), "{shown}");
    assert_eq!(
        (&shown["regions"][0]["region"], &shown["regions"][0]["stored"]),
        (&OTHER.into(), &40.into()),
        "{shown}"
    );
    assert_eq!(shown["sidecars"], serde_json::json!(["one", "two"]));
    assert!(shown["diverted"]["mean_ms"].as_f64().unwrap() > 0.0 && shown["on"] == true, "{shown}");
    let scrape = Scrape::of(&sidecars[0].admin).await;
    assert_eq!((scrape.value("drill_active"), scrape.value("drill_jobs_total{part=\"diverted\"}")), (1.0, 20.0));
    // A second one is refused while it is on.
    let second = hubs.order("ann", &["drill", HOME, "--share", "1%", "--for", "1m"]).await;
    assert!(second.code == Some(1) && second.stderr.contains(&id), "{}", second.all());
    // Without the hub no job is diverted; with it, the drill goes on, with what was counted.
    hub.kill();
    for sidecar in &sidecars {
        sidecar.wait_for_line(ENDED).await;
        enqueue(sidecar, 10, "alone").await;
    }
    assert_eq!((two.jobs_in(0, "alone"), two.jobs_in(1, "alone")), (20, 0));
    let hub = hubs.run().await;
    for sidecar in &sidecars {
        eventually("the drill is on again", async || lines(sidecar, STARTED).await == 2).await;
        enqueue(sidecar, 4, "again").await;
    }
    assert_eq!((two.jobs_in(0, "again"), two.jobs_in(1, "again")), (4, 4));
    eventually("all jobs are reported", async || report(&hubs, &id).await["diverted"]["jobs"] == 44).await;
    let stopped = hubs.command("ann", &["drills", &id, "--stop"]).await;
    assert!(stopped.code == Some(0) && stopped.stdout.contains("stopped"), "{}", stopped.all());
    for sidecar in &sidecars {
        eventually("the drill is over", async || lines(sidecar, ENDED).await == 2).await;
        enqueue(sidecar, 10, "behind").await;
    }
    assert_eq!((two.jobs_in(0, "behind"), two.jobs_in(1, "behind")), (20, 0));
    drop(hub);
    let _hub = hubs.run().await;
    let kept = report(&hubs, &id).await;
    assert_eq!(
        (&kept["cause"], &kept["diverted"]["stored"], &kept["ticket"]),
        (&"stopped".into(), &44.into(), &"OPS-7".into()),
        "{kept}"
    );
    let text = hubs.command("eve", &["drills", &id]).await;
    assert!(text.stdout.contains("to eu-west-1") && text.stdout.contains("control in us-east-1"), "{}", text.all());
    let (_, trail) = status(&hubs, "ann", &Method::GET, "/v1/hub/audit").await;
    let rows: Vec<&str> = trail["rows"].as_array().unwrap().iter().filter_map(|it| it["action"].as_str()).collect();
    assert_eq!(
        (rows, &trail["rows"][0]["subject"]),
        (vec!["drill_ordered", "drill_ended"], &"drill us-east-1 50%".into())
    );
}

#[tokio::test]
async fn a_drill_whose_jobs_the_other_region_refuses_ends_by_itself_and_no_job_is_lost_or_doubled() {
    let hubs = HubStage::new("");
    let _hub = hubs.run().await;
    // No breaker opens, so that the failures are the signal.
    let two = Two::new(&hubs, "circuit_breaker: { failure_threshold: 1000000, failure_ratio: 1000 }").await;
    let sidecars = two.run(&hubs).await;
    let out = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "unavailable");
    two.stage.regions[1].faults().add(When::enqueue(), Fault::Answer { answer: out, store: false });
    let id = begin(&hubs, &["--share", "50%", "--for", "10m"]).await;
    let mut sent = 0;
    for sidecar in &sidecars {
        sidecar.wait_for_line(STARTED).await;
        enqueue(sidecar, 30, "flexible").await;
        sent += 30;
    }
    let ended = ends(&hubs, &id, "failures").await;
    assert!(ended["detail"].as_str().unwrap().contains("diverted jobs failed"), "{ended}");
    for sidecar in &sidecars {
        sidecar.wait_for_line(ENDED).await;
        enqueue(sidecar, 5, "flexible").await;
        sent += 5;
    }
    assert_eq!((two.jobs_in(0, "flexible"), two.jobs_in(1, "flexible")), (sent, 0));
    eventually("the rest is reported", async || report(&hubs, &id).await["control"]["stored"] == 30).await;
    let last = report(&hubs, &id).await;
    assert_eq!((&last["diverted"]["failed"], &last["diverted"]["returned"]), (&30.into(), &30.into()), "{last}");
}

#[tokio::test]
async fn a_drill_ends_when_a_breaker_opens_or_a_region_is_lost_by_the_probes_of_the_hub() {
    let mut hubs = HubStage::new("");
    hubs.run().await.kill();
    let two = Two::new(&hubs, "").await;
    hubs.set_more(&regions(&two.stage, |_| None));
    let hub = hubs.run().await;
    let sidecars = two.run(&hubs).await;
    let healthy = async |count: usize| {
        let line = format!("ojs_hub_regions_healthy {count}");
        eventually(&line, async || String::from_utf8_lossy(&hub.admin.get("/metrics").await.body).contains(&line))
            .await;
    };
    healthy(2).await;
    let out = || FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "unavailable");
    let refuses = |place: usize, when: When| {
        two.stage.regions[place].faults().add(when, Fault::Answer { answer: out(), store: false });
    };
    // A breaker that a sidecar opens by its own calls.
    let id = begin(&hubs, &["--share", "100%", "--for", "10m", "--abort-failures", "100%"]).await;
    sidecars[0].wait_for_line(STARTED).await;
    refuses(1, When::enqueue());
    eventually("the breaker opens", async || {
        enqueue(&sidecars[0], 1, "a").await;
        lines(&sidecars[0], "breaker").await > 0
    })
    .await;
    let ended = ends(&hubs, &id, "breaker_open").await;
    assert_eq!(ended["unwell"][OTHER], "breaker_open", "{ended}");
    two.stage.regions[1].faults().clear();
    // Regions that the hub finds lost: the other one, and the drilled one, whose loss a drill must not hide.
    for (place, cause) in [(1, "region_unhealthy"), (0, "drilled_region_lost")] {
        eventually("the regions are well at the sidecars", async || {
            let mut are_well = true;
            for sidecar in &sidecars {
                let shown = sidecar.client.get("/v1/federation/regions").await.json();
                are_well &= shown["regions"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|it| it["status"] == "healthy" && it["circuit_breaker"] == "closed");
            }
            are_well
        })
        .await;
        healthy(2).await;
        let id = begin(&hubs, &["--share", "10%", "--for", "10m"]).await;
        refuses(place, When::health());
        ends(&hubs, &id, cause).await;
        healthy(1).await;
        let refused = hubs.order("ann", &["drill", HOME, "--share", "1%", "--for", "1m"]).await;
        let why = if place == 0 { "is not healthy by the probes" } else { "no other region" };
        assert!(refused.code == Some(1) && refused.stderr.contains(why), "{}", refused.all());
        two.stage.regions[place].faults().clear();
    }
}

#[tokio::test]
async fn a_drill_ends_in_its_time_and_one_that_cannot_be_is_refused() {
    let hubs = HubStage::new("");
    let _hub = hubs.run().await;
    let two = Two::new(&hubs, "").await;
    let sidecars = two.run(&hubs).await;
    let order = async |arguments: &[&str]| hubs.order("ann", &[&["drill"], arguments].concat()).await;
    for (arguments, word) in [
        (&[HOME, "--share", "0%", "--for", "1m"][..], "`share`"),
        (&[HOME, "--share", "150%", "--for", "1m"], "`share`"),
        (&[HOME, "--share", "5%", "--for", "2d"], "`for`"),
        (&[HOME, "--share", "5%", "--for", "soon"], "`for`"),
        (&[HOME, "--share", "5%", "--for", "1m", "--abort-failures", "all"], "`abort_failures`"),
        (&[HOME, "--share", "5%", "--for", "1m", "--abort-latency", "1h"], "`abort_latency`"),
        (&["mars", "--share", "5%", "--for", "1m"], "`region`"),
    ] {
        let refused = order(arguments).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(word), "{arguments:?}: {}", refused.all());
    }
    let path = "/v1/hub/drills?region=us-east-1&share=5&for=1m&reason=r&author=a";
    let (code, refused) = status(&hubs, "ann", &Method::POST, path).await;
    assert!(code == 400 && refused.to_string().contains("`ticket`"), "{refused}");
    assert_eq!(status(&hubs, "eve", &Method::POST, &format!("{path}&ticket=t")).await.0, 403, "a reader begins none");
    assert_eq!(status(&hubs, "pod", &Method::GET, "/v1/hub/drills").await.0, 403);
    assert_eq!(status(&hubs, "eve", &Method::GET, "/v1/hub/drills/none").await.0, 404);
    let dry = order(&[HOME, "--share", "5%", "--for", "1m", "--dry-run"]).await;
    assert!(dry.code == Some(0) && dry.stdout.contains("5% of the flexible jobs of us-east-1"), "{}", dry.all());
    let none = hubs.command("eve", &["drills"]).await;
    assert!(none.stdout.contains("no drills"), "{}", none.all());
    assert_eq!(hubs.order("ann", &["drain", HOME, "--for", "1h"]).await.code, Some(0));
    let closed = order(&[HOME, "--share", "5%", "--for", "1m"]).await;
    assert!(closed.code == Some(1) && closed.stderr.contains("drain us-east-1 is in force"), "{}", closed.all());
    assert_eq!(hubs.order("ann", &["undrain", HOME]).await.code, Some(0));
    // The dry run of a job, and the note of a live one, say why.
    let id = begin(&hubs, &["--share", "100%", "--for", "10m"]).await;
    for sidecar in &sidecars {
        sidecar.wait_for_line(STARTED).await;
    }
    let client = &sidecars[0].client;
    let dry = client.post("/v1/federation/route", job("a")).await.json();
    assert_eq!(dry["target_region"], OTHER, "{dry}");
    assert_eq!(dry["candidates"][1]["reason"], "left for a failover drill", "{dry}");
    let live = client.enqueue(job("a")).await;
    assert_eq!((live.status.as_u16(), live.region()), (201, OTHER), "{live:?}");
    let noted = client.get(&format!("/v1/federation/decisions?job_id={}", live.job_id())).await.json();
    assert_eq!(noted["decisions"][0]["refused"][0]["reason"], "drill", "{noted}");
    assert_eq!(hubs.command("ann", &["drills", &id, "--stop"]).await.code, Some(0));
    ends(&hubs, &id, "stopped").await;
    let id = begin(&hubs, &["--share", "100%", "--for", "1s"]).await;
    ends(&hubs, &id, "time_over").await;
    for sidecar in &sidecars {
        eventually("jobs go home", async || sidecar.client.enqueue(job("b")).await.region() == HOME).await;
        enqueue(sidecar, 5, "home").await;
    }
    assert_eq!((two.jobs_in(0, "home"), two.jobs_in(1, "home")), (10, 0));
    assert_eq!(status(&hubs, "ann", &Method::DELETE, &format!("/v1/hub/drills/{id}")).await.0, 409, "it is over");
}
