//! The later copy runs, and the other one is cancelled, or left alone where something speaks for it.

use http::Method;
use serde_json::{Value, json};

use super::super::INFO;
use super::super::postgres::Postgres;
use super::super::stage::HubStage;
use super::{EU, EU_PLACE, US, US_PLACE, World, counts_one, enqueued, fetched, figure, id, shown, tracked, unix_ms};
use crate::support::{Process, Setup, eventually};

/// The regions are cut off from each other while two clients enqueue; afterwards the later job is the only one that runs.
async fn the_later_one_runs(mut world: World) {
    let (first, second) = (id(1), id(2));
    world.of_eu.kill();
    world.enqueue_both([&first, &second], tracked()).await;
    world.of_eu = world.eu.again(0).await;
    let copy = world.result(&first, "cancelled").await;
    assert_eq!(copy["conflict"]["winner"], json!({ "region": EU, "job_id": second }), "{copy}");
    assert_eq!((&copy["counts"], &copy["winner"]), (&json!(false), &json!(false)));
    assert_eq!(
        (world.state(US_PLACE, &first), world.state(EU_PLACE, &second)),
        ("cancelled".to_owned(), "available".to_owned())
    );
    assert_eq!((fetched(&world.in_us).await, fetched(&world.in_eu).await), (Value::Null, json!(second)));
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (1, 0));
    eventually("the other hub knows it", async || {
        let copy = shown(&world.eu, US, &first).await;
        copy["state"] == "cancelled" && copy["counts"] == false
    })
    .await;
    let winner = shown(&world.eu, EU, &second).await;
    assert_eq!((&winner["counts"], &winner["winner"]), (&json!(true), &json!(true)), "{winner}");
    counts_one(&world.of_us, "cancelled").await;
    for hub in [&world.of_us, &world.of_eu] {
        eventually("each hub counts the tracking id", async || {
            figure(hub, "ojs_hub_tracking_ids_repeated_total").await.as_deref() == Some("1")
        })
        .await;
        eventually("each hub logs it", async || hub.log_has(&["hub_job_repeated"])).await;
    }
    let words = ["hub_conflict", &first, "cancelled", &second];
    eventually("the result is logged", async || world.of_us.log_has(&words)).await;
    let trail = world.us.command("ann", &["audit", "export"]).await;
    assert!(
        trail.stdout.contains("\"action\":\"copies_cancelled\"") && trail.stdout.contains(&first),
        "{}",
        trail.all()
    );
}

#[tokio::test]
async fn of_one_tracking_id_in_two_regions_the_later_job_is_the_only_one_that_runs() {
    the_later_one_runs(World::start("cancel").await).await;
}

#[tokio::test]
async fn of_one_tracking_id_the_later_job_is_the_only_one_that_runs_by_postgresql_too() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    the_later_one_runs(World::start_with(stage.with_record(record), "cancel").await).await;
}

#[tokio::test]
async fn a_copy_that_a_worker_has_is_doubled_and_not_cancelled() {
    let world = World::start("cancel").await;
    let (first, second) = (id(1), id(2));
    enqueued(&world.in_us, &first, US, tracked()).await;
    assert_eq!(fetched(&world.in_us).await, json!(first));
    enqueued(&world.in_eu, &second, EU, tracked()).await;
    let copy = world.result(&first, "doubled").await;
    assert_eq!(copy["conflict"]["winner"]["job_id"], json!(second), "{copy}");
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (0, 0));
    assert_eq!(world.state(US_PLACE, &first), "active");
}

#[tokio::test]
async fn a_worker_that_the_index_does_not_know_is_found_before_a_copy_is_cancelled() {
    let world = World::start("cancel").await;
    let (first, second) = (id(1), id(2));
    enqueued(&world.in_us, &first, US, tracked()).await;
    // A worker without a sidecar: no fact says that it has the job.
    let other = Setup::default().stage().await;
    let text = std::fs::read_to_string(&world.federation.config).unwrap();
    let path = other.files.path().join("silent.yaml");
    std::fs::write(&path, text.replace("report_jobs: true", "report_jobs: false").replace("name: one", "name: silent"))
        .unwrap();
    let silent = Process::run(&path, &INFO).await;
    assert_eq!(fetched(&silent).await, json!(first));
    enqueued(&world.in_eu, &second, EU, tracked()).await;
    let copy = world.result(&first, "doubled").await;
    assert_eq!(copy["state"], "available", "as far as the index knows: {copy}");
    assert_eq!(world.cancels(US_PLACE), 0);
}

#[tokio::test]
async fn a_copy_with_the_job_id_of_the_winner_is_reported_and_not_cancelled() {
    let world = World::start("cancel").await;
    world.enqueue_both([&id(1), &id(1)], tracked()).await;
    let copy = world.result(&id(1), "reported").await;
    assert_eq!((&copy["conflict"]["why"], &copy["counts"]), (&json!("same_job"), &json!(false)), "{copy}");
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (0, 0));
}

#[tokio::test]
async fn a_copy_stays_where_the_later_one_was_cancelled_before_it_ran() {
    let mut world = World::start("cancel").await;
    let (first, second, other) = (id(1), id(2), id(3));
    world.of_us.kill();
    world.enqueue_both([&first, &second], tracked()).await;
    let ended = world.in_eu.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{second}"), "").await;
    assert_eq!(ended.status, 200, "{ended:?}");
    eventually("its hub knows it", async || shown(&world.eu, EU, &second).await["state"] == "cancelled").await;
    world.of_us = world.us.again(0).await;
    eventually("the first one counts", async || shown(&world.us, US, &first).await["counts"] == true).await;
    eventually("it is looked at and dropped", async || {
        let seen = figure(&world.of_us, "ojs_hub_tracking_ids_repeated_total").await.as_deref() == Some("1");
        seen && shown(&world.us, US, &first).await["conflict"].is_null()
    })
    .await;
    assert_eq!((world.cancels(US_PLACE), world.state(US_PLACE, &first)), (0, "available".to_owned()));
    // A later one than both replaces it after all.
    let made = world.federation.regions[US_PLACE].jobs().job(&first).unwrap().created_ms;
    eventually("the clock goes on", async || unix_ms() > made).await;
    enqueued(&world.in_eu, &other, EU, tracked()).await;
    world.result(&first, "cancelled").await;
    assert_eq!(world.cancels(US_PLACE), 1);
}
