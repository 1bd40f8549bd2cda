//! Copies that are reported: each of a pair, and very many with one tracking id as a whole.

use serde_json::{Value, json};

use super::super::postgres::Postgres;
use super::super::stage::HubStage;
use super::{
    EU, EU_PLACE, TRACKED, US, US_PLACE, World, counts_one, enqueued, fetched, figure, id, shown, tracked, unix_ms,
};
use crate::support::eventually;

#[tokio::test]
async fn reports_cancel_nothing_and_pinned_copies_count_as_others_do() {
    let world = World::start("report").await;
    let pinned = |region: &str| json!({ "ojs.federation.federation_id": TRACKED, "ojs.federation.region": region });
    enqueued(&world.in_us, &id(1), US, pinned(US)).await;
    let made = world.federation.regions[US_PLACE].jobs().job(&id(1)).unwrap().created_ms;
    eventually("the clock goes on", async || unix_ms() > made).await;
    enqueued(&world.in_eu, &id(2), EU, pinned(EU)).await;
    let copy = world.result(&id(1), "reported").await;
    assert_eq!(copy["conflict"]["why"], "report_only", "{copy}");
    assert_eq!(shown(&world.us, EU, &id(2)).await["queue"], Value::Null, "the hub knows nothing else of the winner");
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (0, 0));
    counts_one(&world.of_us, "reported").await;
    eventually("it is logged", async || world.of_us.log_has(&["hub_conflict", &id(1), "report_only"])).await;
    assert_eq!(
        (world.state(US_PLACE, &id(1)), world.state(EU_PLACE, &id(2))),
        ("available".to_owned(), "available".to_owned())
    );
}

/// A tracking id that very many jobs have is reported once, and others are found behind it.
async fn a_crowd_is_reported_once(world: World) {
    let jobs = 1_200;
    for batch in 0..jobs / 100 {
        let job = |number: u32| json!({ "id": id(1_000 + batch * 100 + number), "type": "t", "args": [], "options": { "queue": "q" }, "meta": tracked() });
        let body = json!({ "jobs": (0..100).map(job).collect::<Vec<_>>() });
        let answer = world.in_eu.client.post("/ojs/v1/jobs/batch", body.to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    enqueued(&world.in_us, &id(1), US, tracked()).await;
    let reported = "ojs_hub_conflicts_total{result=\"reported\"}";
    for hub in [&world.of_us, &world.of_eu] {
        eventually("each hub reports it", async || figure(hub, reported).await.as_deref() == Some("1")).await;
    }
    let copy = shown(&world.us, US, &id(1)).await;
    if copy["counts"] == false {
        assert_eq!((&copy["conflict"]["result"], &copy["conflict"]["why"]), (&json!("reported"), &json!("group")));
    }
    let other = json!({ "ojs.federation.federation_id": "another one" });
    world.enqueue_both([&id(2), &id(3)], other).await;
    eventually("the next one is found", async || figure(&world.of_us, reported).await.as_deref() == Some("2")).await;
    assert_eq!(figure(&world.of_us, "ojs_hub_tracking_ids_repeated_total").await.as_deref(), Some("2"));
    assert_eq!(figure(&world.of_eu, reported).await.as_deref(), Some("1"));
    assert_eq!((world.cancels(US_PLACE), world.cancels(EU_PLACE)), (0, 0));
}

#[tokio::test]
async fn a_tracking_id_of_very_many_jobs_is_reported_once() {
    a_crowd_is_reported_once(World::start("report").await).await;
}

#[tokio::test]
async fn a_tracking_id_of_very_many_jobs_is_reported_once_by_postgresql_too() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    a_crowd_is_reported_once(World::start_with(stage.with_record(record), "report").await).await;
}

#[tokio::test]
async fn a_worker_that_goes_on_does_not_keep_a_copy_from_its_result() {
    let world = World::start("report").await;
    let (first, second) = (id(1), id(2));
    enqueued(&world.in_us, &first, US, tracked()).await;
    assert_eq!(fetched(&world.in_us).await, json!(first));
    enqueued(&world.in_eu, &second, EU, tracked()).await;
    let beat = json!({ "worker_id": "w", "active_jobs": [first] }).to_string();
    eventually("it is doubled", async || {
        world.in_us.client.post("/ojs/v1/workers/heartbeat", beat.clone()).await;
        shown(&world.us, US, &first).await["conflict"]["result"] == "doubled"
    })
    .await;
}

#[tokio::test]
async fn a_group_is_reported_once_and_shown_at_each_of_its_copies() {
    let world = World::start("report").await;
    for number in 1..=3 {
        enqueued(&world.in_us, &id(number), US, tracked()).await;
    }
    let made = world.federation.regions[US_PLACE].jobs().iter().map(|it| it.created_ms).max().unwrap();
    eventually("the clock goes on", async || unix_ms() > made).await;
    enqueued(&world.in_eu, &id(4), EU, tracked()).await;
    for number in 1..=3 {
        let copy = world.result(&id(number), "reported").await;
        assert_eq!((&copy["conflict"]["why"], &copy["counts"]), (&json!("group"), &json!(false)), "{copy}");
    }
    assert_eq!(shown(&world.eu, EU, &id(4)).await["conflict"], Value::Null);
    // A further pair is looked at behind it.
    let other = json!({ "ojs.federation.federation_id": "another one" });
    world.enqueue_both([&id(5), &id(6)], other).await;
    let reported = "ojs_hub_conflicts_total{result=\"reported\"}";
    eventually("the pair is reported", async || world.of_us.log_has(&["hub_conflict", &id(5), "report_only"])).await;
    assert_eq!(figure(&world.of_us, reported).await.as_deref(), Some("2"));
    assert_eq!(world.of_us.log_count(&["hub_conflict", "group"]), 1);
}
