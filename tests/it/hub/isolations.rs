//! Isolations that the hubs of other regions take over.

use http::Method;
use serde_json::Value;

use super::INFO;
use super::index::{hub_of, pulls};
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, status};
use crate::support::{Process, eventually, pinned};

const FETCH: &str = "/ojs/v1/workers/fetch";
const LOST: [&str; 5] = ["drain", "eu-west-1", "--isolate", "--for", "1h"];

/// The switches of a hub as `KIND REGION`, with the region of the hub that has set each where that is another one.
async fn listed(stage: &HubStage) -> Vec<String> {
    let (_, document) = status(stage, "eve", &Method::GET, "/v1/hub/switches").await;
    let shown = |it: &Value| {
        let source = it["source"].as_str().map(|source| format!(" of {source}")).unwrap_or_default();
        format!("{} {}{source}", it["switch"].as_str().unwrap(), it["region"].as_str().unwrap())
    };
    document["switches"].as_array().unwrap().iter().map(shown).collect()
}

async fn lists(stage: &HubStage, expected: &[&str]) {
    eventually(&format!("the switches are {expected:?}"), async || listed(stage).await == expected).await;
}

/// Sets the isolation without a sidecar that knows the region.
async fn isolation(stage: &HubStage) {
    let done = stage.order("ann", &[&LOST[..], &["--force"]].concat()).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
}

async fn end(stage: &HubStage) {
    let ended = stage.order("ann", &["undrain", "eu-west-1"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.all());
}

/// The audit trail as `CALLER ACTION SUBJECT`.
async fn trail(stage: &HubStage) -> Vec<String> {
    let (_, document) = status(stage, "ann", &Method::GET, "/v1/hub/audit").await;
    let shown = |it: &Value| ["caller", "action", "subject"].map(|key| it[key].as_str().unwrap()).join(" ");
    document["rows"].as_array().unwrap().iter().map(shown).collect()
}

/// The hubs of us-east-1 and eu-west-1, each of which hears the other.
async fn two() -> (HubStage, HubStage, Hub, Hub) {
    two_with(hub_of("eu-west-1", "us-east-1")).await
}

async fn two_with(mut eu: HubStage) -> (HubStage, HubStage, Hub, Hub) {
    let mut us = hub_of("us-east-1", "eu-west-1");
    drop((us.run().await, eu.run().await));
    us.set_more(&pulls("us-east-1", "eu-west-1", &eu));
    eu.set_more(&pulls("eu-west-1", "us-east-1", &us));
    let (of_us, of_eu) = (us.again(0).await, eu.again(0).await);
    (us, eu, of_us, of_eu)
}

#[tokio::test]
async fn an_isolation_of_one_hub_holds_at_the_other_and_ends_with_it() {
    check_taken_over(hub_of("eu-west-1", "us-east-1")).await;
}

#[tokio::test]
async fn a_hub_on_postgresql_takes_isolations_over_too() {
    let eu = hub_of("eu-west-1", "us-east-1");
    let Some(server) = Postgres::start(&eu.authority).await else { return };
    let record = Postgres::section(&[&server], &eu.path(""), &eu.path("hub.ca.pem"));
    check_taken_over(eu.with_record(record)).await;
}

async fn check_taken_over(eu: HubStage) {
    let (us, eu, mut of_us, mut of_eu) = two_with(eu).await;
    isolation(&us).await;
    lists(&eu, &["isolate eu-west-1 of us-east-1"]).await;
    assert_eq!(trail(&eu).await, ["hub us-east-1 switch_set isolate eu-west-1"], "once");
    // A source that is silent ends nothing, and the isolation outlives both hubs.
    of_us.kill();
    eventually("the loss of the source", async || of_eu.log_has(&["hub_pull_failed", "us-east-1"])).await;
    of_eu.kill();
    let of_eu = eu.again(0).await;
    assert_eq!(listed(&eu).await, ["isolate eu-west-1 of us-east-1"]);
    let of_us = us.again(0).await;
    // It goes back to no hub that has set it.
    assert_eq!(listed(&us).await, ["isolate eu-west-1"]);
    end(&us).await;
    lists(&eu, &[]).await;
    assert_eq!(listed(&us).await, [""; 0]);
    assert_eq!(trail(&eu).await.len(), 2);
    assert_eq!(trail(&eu).await[1], "hub us-east-1 switch_ended isolate eu-west-1");
    let exported = eu.command("ann", &["audit", "export"]).await;
    let file = eu.path("trail");
    std::fs::write(&file, &exported.stdout).unwrap();
    let verified = crate::support::command(&["audit", "verify", file.to_str().unwrap()], &[], "");
    assert_eq!(verified.code, Some(0), "{}", verified.all());
    drop((of_us, of_eu));
}

#[tokio::test]
async fn an_isolation_that_an_operator_has_ended_comes_back_only_with_another_one_of_its_source() {
    let (us, eu, _of_us, mut of_eu) = two().await;
    isolation(&us).await;
    lists(&eu, &["isolate eu-west-1 of us-east-1"]).await;
    end(&eu).await;
    assert_eq!(listed(&eu).await, [""; 0]);
    of_eu.kill();
    // Its feeds are open once it has heard the other hub: the isolation was shown to it again.
    let _of_eu = eu.again(0).await;
    let federation = eu.federation("one", "").await;
    let _sidecar = Process::run(&federation.config, &INFO).await;
    eu.follows("one").await;
    assert_eq!(listed(&eu).await, [""; 0]);
    isolation(&us).await;
    lists(&eu, &["isolate eu-west-1 of us-east-1"]).await;
    assert_eq!(trail(&eu).await.len(), 3);
}

#[tokio::test]
async fn a_hub_takes_no_isolation_from_a_source_that_may_set_none() {
    let (us, eu, _of_us, mut of_eu) = two().await;
    isolation(&us).await;
    lists(&eu, &["isolate eu-west-1 of us-east-1"]).await;
    of_eu.kill();
    let mut eu = eu;
    eu.set_more(&pulls("eu-west-1", "us-east-1", &us).replace("from: [{", "from: [{ isolations: false,"));
    let _of_eu = eu.again(0).await;
    lists(&eu, &[]).await;
}

#[tokio::test]
async fn a_hub_that_returns_hears_the_others_before_its_sidecars_hear_it() {
    let (us, mut eu, mut of_us, mut of_eu) = two().await;
    of_eu.kill();
    isolation(&us).await;
    of_us.kill();
    eu.set_more(&pulls("eu-west-1", "us-east-1", &us).replace("index: {", "index: { return_wait: 5m,"));
    let federation = eu.federation("one", "").await;
    let of_eu = eu.again(0).await;
    let sidecar = Process::run(&federation.config, &INFO).await;
    sidecar.wait_for_line("hears the hubs of other regions first").await;
    assert!(sidecar.admin.get("/switches").await.json()["switches"].as_array().unwrap().is_empty());
    let _of_us = us.again(0).await;
    sidecar.wait_for_line("ojs.federation.hub_connected").await;
    sidecar.wait_for_line("ojs.federation.switch_set").await;
    let refused = sidecar.client.enqueue(pinned("eu-west-1", "a")).await;
    refused.check_error(503, "backend_error", "region_unavailable");
    assert!(!of_eu.log_has(&["hub_return_unheard"]));
}

#[tokio::test]
async fn a_hub_whose_sources_are_silent_serves_its_sidecars_behind_its_wait_and_at_once_without_one() {
    for (wait, is_logged) in [("1s", true), ("0s", false)] {
        let (us, mut eu, of_us, mut of_eu) = two().await;
        drop(of_us);
        of_eu.kill();
        eu.set_more(
            &pulls("eu-west-1", "us-east-1", &us).replace("index: {", &format!("index: {{ return_wait: {wait},")),
        );
        let federation = eu.federation("one", "").await;
        let of_eu = eu.again(0).await;
        let _sidecar = Process::run(&federation.config, &INFO).await;
        eu.follows("one").await;
        assert_eq!(of_eu.log_has(&["hub_return_unheard", "us-east-1"]), is_logged, "{wait}");
    }
}

#[tokio::test]
async fn a_data_centre_that_comes_back_hands_out_nothing_while_another_region_has_isolated_it() {
    let (us, eu, _of_us, mut of_eu) = two().await;
    of_eu.kill();
    isolation(&us).await;
    let section = eu.section("one").replace("hub: {", "hub: { fetch: heard,");
    let federation = crate::support::Setup::default().yaml(&section).stage().await;
    federation.regions[1].fill("a", 1);
    let settings = [&INFO[..], &["--set", "local_region=eu-west-1"]].concat();
    let sidecar = Process::run(&federation.config, &settings).await;
    let fetch = async || sidecar.client.post(FETCH, r#"{"queues":["a"],"worker_id":"w"}"#).await.json();
    let is_empty = async || fetch().await["jobs"].as_array().unwrap().is_empty();
    assert!(is_empty().await, "the hub is not heard");
    let _of_eu = eu.again(0).await;
    sidecar.wait_for_line("ojs.federation.hub_fetch_goes_on").await;
    assert!(is_empty().await, "the region is isolated");
    assert_eq!(federation.regions[1].record().requests_to(FETCH).len(), 0);
    end(&us).await;
    eventually("the job", async || !is_empty().await).await;
}
