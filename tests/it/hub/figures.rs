//! The figures of pools and their queues over the fleet, as the hub sums them. Judged by the jobs in the region.

use http::Method;
use ojs_testbed::{DemoRegion, JobState};
use serde_json::{Value, json};

use super::stage::HubStage;
use super::{INFO, status};
use crate::support::{Answer, Process, Setup, Stage, command, eventually};

const POOLS: &str = "/ojs/v1/admin/pools";
const STATS: &str = "/ojs/v1/admin/scheduling/stats";
const FETCH: &str = "/ojs/v1/workers/fetch";
const ACK: &str = "/ojs/v1/workers/ack";
const CONFIGURED: &str = "scheduling: { pools: [{ name: pay, queues: [payments], concurrency: 4, concurrency_of: fleet, on_hub_loss: hold, \
                          longest_lease: 60s }, { name: general, queues: [default, 'mail-*'], concurrency: 9, strategy: strict }] }";
const OF_HUB: &str = "pools: [{ name: pay, concurrency: 20 }]";

/// A sidecar with a name and a journal of its own.
async fn sidecar(federation: &Stage, name: &str) -> Process {
    let journal = format!("journal.path={}", federation.files.path().join(format!("journal-{name}")).display());
    let name = format!("hub.name={name}");
    Process::run(&federation.config, &[&INFO[..], &["--set", &name, "--set", &journal]].concat()).await
}

/// Fetches so many jobs, and acknowledges some of them.
async fn work(sidecar: &Process, queue: &str, jobs: usize, done: usize) {
    let mut ids = Vec::new();
    eventually("the jobs come", async || {
        let count = jobs - ids.len();
        let fetch = json!({ "queues": [queue], "count": count, "worker_id": queue, "visibility_timeout_ms": 60_000 });
        let answer = sidecar.client.post(FETCH, fetch.to_string()).await.json();
        ids.extend(answer["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        ids.len() == jobs
    })
    .await;
    for id in &ids[..done] {
        let answer = sidecar.client.post(ACK, format!(r#"{{"job_id":"{id}"}}"#)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

async fn scoped(sidecar: &Process, path: &str, scopes: &[&str]) -> Answer {
    let request = scopes.iter().fold(http::Request::get(path), |request, scope| request.header("x-scope", *scope));
    sidecar.client.send(request, "").await
}

async fn of_fleet(sidecar: &Process, path: &str) -> Value {
    let answer = scoped(sidecar, path, &["fleet"]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn rows(list: &Value, columns: &[&str]) -> Value {
    let row = |row: &Value| columns.iter().map(|column| row[*column].clone()).collect::<Value>();
    list.as_array().unwrap().iter().map(row).collect()
}

/// How many jobs of a queue the region has handed out, and how many of them are active.
fn handed_out(region: &DemoRegion, queue: &str) -> [usize; 2] {
    let jobs = region.jobs();
    let count = |state| jobs.iter().filter(|job| job.queue == queue && job.state == state).count();
    let active = count(JobState::Active);
    [active + count(JobState::Completed), active]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_of_the_fleet_are_those_of_the_region_and_an_ended_sidecar_drops_out() {
    let stage = HubStage::new(OF_HUB);
    let _hub = stage.run().await;
    let federation = stage.federation("one", CONFIGURED).await;
    let region = &federation.regions[0];
    for queue in ["payments", "default", "mail-eu"] {
        region.fill(queue, 20);
    }
    let [one, two, three] =
        [sidecar(&federation, "one").await, sidecar(&federation, "two").await, sidecar(&federation, "three").await];
    work(&one, "payments", 3, 1).await;
    work(&one, "default", 4, 0).await;
    work(&two, "payments", 2, 2).await;
    work(&two, "mail-eu", 1, 0).await;
    work(&three, "default", 2, 1).await;
    let expected = || {
        let row = |name: &str, queue: &str, sidecars: u64| {
            let [all, active] = handed_out(region, queue);
            json!([name, all, active, sidecars])
        };
        json!([row("default", "default", 3), row("mail-*", "mail-eu", 3), row("payments", "payments", 3)])
    };
    let columns = ["name", "dispatch_count_1m", "active_jobs", "sidecars"];
    // Every sidecar has the same sums.
    for sidecar in [&one, &two] {
        eventually("the sums are those of the region", async || {
            rows(&of_fleet(sidecar, STATS).await["queues"], &columns) == expected()
        })
        .await;
    }
    let stats = of_fleet(&one, STATS).await;
    assert_eq!(rows(&stats["queues"], &["dispatch_ratio_1m"]), json!([[0.5], [0.0833], [0.4167]]), "{stats}");
    assert_eq!((&stats["scope"], &stats["window"]), (&json!("fleet"), &json!("PT1M")));
    assert_eq!((&stats["fleet"]["sidecars"], &stats["fleet"]["sidecars_left_out"]), (&json!(3), &json!(0)));
    assert!(stats["fleet"]["age_ms"].is_u64() && stats["queues"][0]["avg_wait_ms"].is_u64(), "{stats}");
    let pools = of_fleet(&one, POOLS).await;
    let columns = ["name", "concurrency", "strategy", "active_workers", "active_jobs", "sidecars"];
    let expected = json!([["general", null, "strict", 3, 6, 3], ["pay", 20, "round-robin", 2, 2, 3]]);
    assert_eq!(rows(&pools["items"], &columns), expected, "{pools}");
    assert_eq!(of_fleet(&two, &format!("{POOLS}/pay")).await["concurrency"], 20);
    // Those of a sidecar alone are as they were.
    for scopes in [&[][..], &["sidecar"]] {
        let own = scoped(&one, STATS, scopes).await.json();
        assert_eq!(rows(&own["queues"], &["dispatch_count_1m", "active_jobs"]), json!([[4, 4], [0, 0], [3, 2]]));
        assert!(own["scope"].is_null() && own["queues"][0]["sidecars"].is_null(), "{own}");
    }
    let address = one.client.address().to_string();
    let run = |more: &[&str]| command(&[&["scheduling", "--fleet", "--address", &address], more].concat(), &[], "");
    let shown = run(&[]);
    assert!(shown.code == Some(0) && shown.stdout.contains("3 sidecars, 0 connected ones left out"), "{}", shown.all());
    let document: Value = serde_json::from_str(&run(&["--json"]).stdout).unwrap();
    assert_eq!(document["pools"]["items"][1]["concurrency"], 20);
    drop(three);
    eventually("the sums are those of the two others", async || {
        let stats = of_fleet(&one, STATS).await;
        stats["fleet"]["sidecars"] == 2
            && rows(&stats["queues"], &["dispatch_count_1m", "sidecars"]) == json!([[4, 2], [1, 2], [5, 2]])
    })
    .await;
}

#[tokio::test]
async fn a_scope_that_cannot_be_answered_is_refused_with_its_reason() {
    let stage = HubStage::new(OF_HUB);
    let mut hub = stage.run().await;
    let federation = stage.federation("one", CONFIGURED).await;
    let one = sidecar(&federation, "one").await;
    for path in [STATS, POOLS] {
        for scopes in [&["region"][..], &["Fleet"], &[""], &["fleet", "fleet"], &["sidecar", "fleet"]] {
            let error = scoped(&one, path, scopes).await.check_error(400, "invalid_request", "scope_unknown");
            assert_eq!(error["details"]["field"], "X-Scope", "{scopes:?}");
        }
    }
    // A sidecar without pools has no figures of its own, and shows those of the others.
    let text = std::fs::read_to_string(&federation.config).unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("scheduling:")).collect();
    let config = federation.files.path().join("without.yaml");
    std::fs::write(&config, without.join("\n")).unwrap();
    let other = Process::run(&config, &[&INFO[..], &["--set", "hub.name=other"]].concat()).await;
    eventually("the sums have the other one", async || {
        let answer = scoped(&other, POOLS, &["fleet"]).await;
        answer.status == 200
            && rows(&answer.json()["items"], &["name", "queues", "sidecars"])
                == json!([["general", null, 1], ["pay", null, 1]])
            && answer.json()["fleet"]["sidecars_left_out"] == 1
    })
    .await;
    of_fleet(&one, STATS).await;
    hub.kill();
    one.wait_for_line("ojs.federation.hub_lost").await;
    let refused = scoped(&one, STATS, &["fleet"]).await;
    refused.check_error(503, "backend_error", "hub_unavailable");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(scoped(&one, STATS, &["sidecar"]).await.status, 200);
    let none = Setup::default().yaml("scheduling: { pools: [{ name: general, queues: [default] }] }").start().await;
    let asked = http::Request::get(STATS).header("x-scope", "fleet");
    none.client.send(asked, "").await.check_error(404, "not_found", "no_fleet_figures");
    assert!(none.regions.iter().all(|region| region.record().requests_to(STATS).is_empty()));
}

#[tokio::test]
async fn a_hub_takes_the_figures_of_a_sidecar_that_it_knows_and_of_a_later_one() {
    let stage = HubStage::new(OF_HUB);
    let _hub = stage.run().await;
    let federation = stage.federation("one", CONFIGURED).await;
    let _one = sidecar(&federation, "one").await;
    stage.follows("one").await;
    let put = async |document: Value| {
        let body = document.to_string().into();
        super::stage::ask_with(&stage, Some("pod"), &Method::PUT, "/v1/hub/figures", &[], body).await
    };
    let figures = json!({ "pools": [], "queues": [], "later": 1 });
    assert_eq!(put(json!({ "sidecar": "one", "figures": figures, "later": 1 })).await.0.status, 204);
    assert_eq!(put(json!({ "sidecar": "two", "figures": figures })).await.0.status, 409);
    let rows = vec![json!({ "name": "q", "jobs": 1, "timed": 0, "waited_ms": 0, "active": 0 }); 257];
    let (head, document) = put(json!({ "sidecar": "one", "figures": { "pools": [], "queues": rows } })).await;
    let message = document["error"]["message"].as_str().unwrap();
    assert!(head.status == 400 && message.contains("`figures.queues`"), "{document}");
    assert_eq!(status(&stage, "eve", &Method::GET, "/v1/hub/figures").await.0, 200);
}
