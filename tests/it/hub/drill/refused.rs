//! Drills where something refuses: the other region, a record that takes no counts, one of two hubs.

use http::{Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::Value;

use super::{HOME, OTHER, STARTED, Two, begin, ends, enqueue, report};
use crate::hub::postgres::Postgres;
use crate::hub::stage::HubStage;
use crate::support::{Scrape, eventually, job};

#[tokio::test]
async fn a_diverted_job_that_is_refused_for_load_or_by_the_retry_budget_is_stored_as_before() {
    let hubs = HubStage::new("");
    let _hub = hubs.run().await;
    let more = "circuit_breaker: { failure_threshold: 1000000, failure_ratio: 1000 }\nfailover: { retry_budget: { ratio: 0, floor: 0 } }";
    let two = Two::new(&hubs, more).await;
    let sidecars = two.run(&hubs).await;
    let refused = |status| FaultAnswer::error_document(status, "refused");
    let answers = [
        refused(StatusCode::TOO_MANY_REQUESTS),
        FaultAnswer::queue_unavailable(),
        refused(StatusCode::SERVICE_UNAVAILABLE),
    ];
    let mut sent = 0;
    for answer in answers {
        let id = begin(&hubs, &["--share", "100%", "--for", "10m", "--abort-failures", "100%"]).await;
        sidecars[0].wait_for_line(&id).await;
        two.stage.regions[1].faults().add(When::enqueue(), Fault::Answer { answer, store: false });
        enqueue(&sidecars[0], 20, "flexible").await;
        sent += 20;
        eventually("one has come back", async || {
            enqueue(&sidecars[0], 1, "flexible").await;
            sent += 1;
            report(&hubs, &id).await["diverted"]["returned"] != 0
        })
        .await;
        assert_eq!(hubs.command("ann", &["drills", &id, "--stop"]).await.code, Some(0));
        ends(&hubs, &id, "stopped").await;
        two.stage.regions[1].faults().clear();
    }
    assert_eq!((two.jobs_in(0, "flexible"), two.jobs_in(1, "flexible")), (sent, 0));
}

#[tokio::test]
async fn a_job_that_its_client_may_send_again_under_a_name_stays() {
    let hubs = HubStage::new("");
    let _hub = hubs.run().await;
    let two = Two::new(&hubs, "").await;
    let [sidecar, _] = two.run(&hubs).await;
    let id = begin(&hubs, &["--share", "100%", "--for", "10m"]).await;
    sidecar.wait_for_line(STARTED).await;
    let own = r#"{"id":"0197a7e2-7b1c-7abc-8def-0123456789ab","type":"email.send","args":["own"]}"#;
    let unique = r#"{"type":"email.send","args":["own"],"options":{"unique":{"keys":["type"]}}}"#;
    for body in [own, unique] {
        assert_eq!(sidecar.client.enqueue(body.to_owned()).await.region(), HOME, "{body}");
    }
    let keyed = Request::post("/ojs/v1/jobs").header("content-type", "application/openjobspec+json");
    let keyed = sidecar.client.send(keyed.header("idempotency-key", "k-1"), job("keyed")).await;
    assert_eq!((keyed.status.as_u16(), keyed.region()), (201, HOME), "{keyed:?}");
    assert_eq!(sidecar.client.enqueue(job("plain")).await.region(), OTHER);
    eventually("they are reported", async || {
        let shown = report(&hubs, &id).await;
        shown["stayed"]["named"] == 3 && shown["diverted"]["jobs"] == 1
    })
    .await;
}

#[tokio::test]
async fn a_drill_is_judged_and_ended_also_where_the_record_does_not_take_the_counts() {
    let hubs = HubStage::new("");
    hubs.run().await.kill();
    let refuses = "CREATE TRIGGER full BEFORE INSERT ON drill_count BEGIN SELECT RAISE(ABORT, 'full'); END";
    rusqlite::Connection::open(hubs.path("hub.db")).unwrap().execute_batch(refuses).unwrap();
    let hub = hubs.run().await;
    let two = Two::new(&hubs, "circuit_breaker: { failure_threshold: 1000000, failure_ratio: 1000 }").await;
    let sidecars = two.run(&hubs).await;
    let id = begin(&hubs, &["--share", "100%", "--for", "10m"]).await;
    sidecars[0].wait_for_line(STARTED).await;
    enqueue(&sidecars[0], 5, "flexible").await;
    eventually("the record takes no counts", async || hub.log_has(&["hub_drill_waits", "full"])).await;
    let stopped = hubs.command("ann", &["drills", &id, "--stop"]).await;
    assert_eq!(stopped.code, Some(0), "{}", stopped.all());
    ends(&hubs, &id, "stopped").await;
    let out = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "unavailable");
    two.stage.regions[1].faults().add(When::enqueue(), Fault::Answer { answer: out, store: false });
    let id = begin(&hubs, &["--share", "100%", "--for", "10m"]).await;
    sidecars[0].wait_for_line(&id).await;
    enqueue(&sidecars[0], 30, "flexible").await;
    let ended = ends(&hubs, &id, "failures").await;
    assert!(ended["diverted"]["failed"].as_u64() >= Some(20), "{ended}");
}

#[tokio::test]
async fn a_drill_of_two_hubs_on_one_record_is_ended_and_shown_by_either() {
    let hubs = HubStage::new("");
    let Some(server) = Postgres::start(&hubs.authority).await else { return };
    let record = Postgres::section(&[&server], &hubs.path(""), &hubs.path("hub.ca.pem"));
    let hubs = hubs.on_record(record);
    let (mut first, second) = (hubs.again(0).await, hubs.again(1).await);
    let two = Two::new(&hubs, "").await;
    let sidecars = two.run(&hubs).await;
    let knows = async |replica| hubs.command_at(replica, "ann", &["fleet"]).await.stdout.contains("two");
    eventually("both hubs know the sidecars", async || knows(0).await && knows(1).await).await;
    // Two drills are ordered at once, and one of them is begun.
    let at_once = ["drill", HOME, "--share", "1%", "--for", "1m"];
    let both = tokio::join!(hubs.order_at(0, "ann", &at_once), hubs.order_at(1, "ann", &at_once));
    let (begun, refused) = if both.0.code == Some(0) { both } else { (both.1, both.0) };
    assert_eq!((begun.code, refused.code), (Some(0), Some(1)), "{} {}", begun.all(), refused.all());
    assert!(refused.stderr.contains("there is one at a time"), "{}", refused.all());
    let id = begun.stdout.split(':').next().unwrap();
    assert_eq!(hubs.command("ann", &["drills", id, "--stop"]).await.code, Some(0));
    let id = begin(&hubs, &["--share", "50%", "--for", "10m"]).await;
    for sidecar in &sidecars {
        sidecar.wait_for_line(&id).await;
        enqueue(sidecar, 20, "flexible").await;
    }
    assert_eq!((two.jobs_in(0, "flexible"), two.jobs_in(1, "flexible")), (20, 20));
    let shown = async || {
        let shown = hubs.command_at(1, "eve", &["drills", &id, "--json"]).await;
        serde_json::from_str::<Value>(&shown.stdout).unwrap_or_default()["drill"].clone()
    };
    eventually("the other hub has the counts of all sidecars", async || {
        let shown = shown().await;
        shown["diverted"]["stored"] == 20 && shown["control"]["stored"] == 20
    })
    .await;
    first.kill();
    let refused = hubs.order_at(1, "ann", &["drill", HOME, "--share", "1%", "--for", "1m"]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains(&id), "{}", refused.all());
    let stopped = hubs.command_at(1, "ann", &["drills", &id, "--stop"]).await;
    assert!(stopped.code == Some(0) && second.log_has(&["hub_drill_ended", "stopped"]), "{}", stopped.all());
    for sidecar in &sidecars {
        eventually("the drill is over", async || {
            let scrape = Scrape::of(&sidecar.admin).await;
            scrape.value("drill_active") == 0.0 && scrape.value("hub_connected") == 1.0
        })
        .await;
        enqueue(sidecar, 5, "behind").await;
    }
    assert_eq!((two.jobs_in(0, "behind"), two.jobs_in(1, "behind")), (10, 0));
    let report = shown().await;
    assert_eq!((&report["cause"], &report["diverted"]["jobs"]), (&"stopped".into(), &20.into()), "{report}");
    let next = hubs.order_at(1, "ann", &["drill", HOME, "--share", "1%", "--for", "1m"]).await;
    assert_eq!(next.code, Some(0), "{}", next.all());
}
