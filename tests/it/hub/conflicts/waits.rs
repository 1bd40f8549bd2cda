//! Nothing is decided while a region is not heard, is isolated or does not say that the later copy lives.

use http::Method;
use ojs_testbed::{Fault, When};
use serde_json::{Value, json};

use super::super::INFO;
use super::{EU, EU_PLACE, US, US_PLACE, World, id, shown, tracked, unix_ms};
use crate::support::{Process, eventually};

/// A copy is known to be in conflict, and nothing is done about it although its time has come.
async fn is_left_open(world: &World, id: &str) {
    eventually("its time has come and gone", async || {
        let copy = shown(&world.us, US, id).await;
        assert_eq!((&copy["conflict"]["result"], world.cancels(US_PLACE)), (&json!("open"), 0), "{copy}");
        let known_ms = world.federation.regions[EU_PLACE].jobs().iter().map(|it| it.created_ms).max().unwrap();
        // Twice `conflicts_after`.
        unix_ms() > known_ms + 10_000
    })
    .await;
}

#[tokio::test]
async fn a_hub_whose_view_of_the_other_is_stale_cancels_nothing_until_it_is_heard_again() {
    let mut world = World::start("cancel").await;
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    world.result(&id(1), "open").await;
    world.of_eu.kill();
    is_left_open(&world, &id(1)).await;
    world.of_eu = world.eu.again(0).await;
    world.result(&id(1), "cancelled").await;
}

#[tokio::test]
async fn nothing_is_cancelled_in_a_region_that_is_isolated_as_a_promotion_does() {
    let world = World::start("cancel").await;
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    world.result(&id(1), "open").await;
    let done = world.eu.order("ann", &["drain", US, "--isolate", "--for", "1h"]).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
    is_left_open(&world, &id(1)).await;
    assert_eq!(world.eu.order("ann", &["undrain", US]).await.code, Some(0));
    world.result(&id(1), "cancelled").await;
}

/// A sidecar in the second region that reports no facts, as a client without one.
async fn silent_in_eu(world: &World) -> Process {
    let folder = world.federation.files.path();
    let text = std::fs::read_to_string(folder.join("eu.yaml")).unwrap();
    let path = folder.join("silent.yaml");
    std::fs::write(&path, text.replace("report_jobs: true", "report_jobs: false").replace("name: two", "name: silent"))
        .unwrap();
    Process::run(&path, &INFO).await
}

#[tokio::test]
async fn a_copy_stays_where_the_index_does_not_know_that_the_later_one_was_cancelled() {
    let mut world = World::start("cancel").await;
    let (first, second) = (id(1), id(2));
    let silent = silent_in_eu(&world).await;
    world.of_us.kill();
    world.enqueue_both([&first, &second], tracked()).await;
    let ended = silent.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{second}"), "").await;
    assert_eq!(ended.status, 200, "{ended:?}");
    let is_reported = async || shown(&world.eu, EU, &second).await["state"] != Value::Null;
    eventually("its hub has got the job", is_reported).await;
    assert_eq!(shown(&world.eu, EU, &second).await["state"], "available", "as far as the index knows");
    world.of_us = world.us.again(0).await;
    eventually("the first one counts after all", async || {
        let copy = shown(&world.us, US, &first).await;
        copy["counts"] == true && copy["conflict"].is_null()
    })
    .await;
    assert_eq!((world.cancels(US_PLACE), world.state(US_PLACE, &first)), (0, "available".to_owned()));
    assert_eq!(shown(&world.us, EU, &second).await["state"], "cancelled", "its hub has asked its region");
}

#[tokio::test]
async fn a_region_that_does_not_say_that_the_later_copy_lives_keeps_the_other_one() {
    let world = World::start("cancel").await;
    let faults = world.federation.regions[EU_PLACE].faults();
    faults.add(When::path("/ojs/v1/jobs/").method(Method::GET), Fault::CutBeforeBody);
    world.enqueue_both([&id(1), &id(2)], tracked()).await;
    world.result(&id(1), "open").await;
    is_left_open(&world, &id(1)).await;
    faults.clear();
    world.result(&id(1), "cancelled").await;
}
