//! A job is cancelled in the region that has it.

use http::Method;
use ojs_testbed::{Fault, Gate, JobState, When};
use serde_json::json;

use super::{Bed, id, job, order, why};
use crate::hub::stage::post;
use crate::support::eventually;

#[tokio::test]
async fn a_cancellation_reaches_the_region_of_the_job_and_no_other_one_behind_its_row_in_the_trail() {
    let (bed, _hub) = Bed::new().await;
    bed.stage.regions[1].put(&job(1, "[1]", "null"), 1);
    bed.stage.regions[1].put(&job(2, "[2]", "null"), 1);
    let gate = Gate::new();
    let when = When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1);
    bed.stage.regions[1].faults().add(when, Fault::Hold { gate: gate.clone() });
    let ordered = ("job_cancel_ordered".to_owned(), format!("job {} in eu-west-1", id(1)));
    let held = async {
        eventually("the order is on its way", async || bed.counts(&Method::DELETE) == [0, 1, 0]).await;
        let rows = bed.rows().await;
        gate.open();
        rows
    };
    let ((code, done), rows) = tokio::join!(order(&bed, "cancel", 1, json!({})), held);
    assert_eq!(rows, std::slice::from_ref(&ordered), "the order is in the trail before it is carried out");
    assert_eq!((code, &done["job"]["state"], &done["job"]["region"]), (200, &"cancelled".into(), &"eu-west-1".into()));
    let at = done["job"]["cancelled_at"].as_str().unwrap();
    assert!(at.len() == 24 && at.ends_with('Z') && done["job"]["enqueued_at"].is_string(), "{done}");
    let ended = ("job_cancel_ended".to_owned(), format!("job {} in eu-west-1: cancelled", id(1)));
    assert_eq!(bed.rows().await, [ordered, ended]);
    let jobs = bed.stage.regions[1].jobs();
    let states = [1, 2].map(|number| jobs.job(&id(number)).unwrap().state);
    assert_eq!(states, [JobState::Cancelled, JobState::Available]);
    assert_eq!(bed.counts(&Method::DELETE), [0, 1, 0]);
    let path = bed.asked(1, &Method::DELETE)[0].path.clone();
    assert_eq!(path, format!("/ojs/v1/jobs/{}", id(1)));
}

#[tokio::test]
async fn the_refusal_of_a_region_is_passed_on_and_a_lost_answer_is_looked_for() {
    let (bed, hub) = Bed::new().await;
    bed.stage.regions[0].put(&job(1, "[1]", "null"), 1);
    let delete = || When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1);
    bed.stage.regions[0].faults().add(delete(), Fault::CutAfterRequest { store: true });
    let (code, done) = order(&bed, "cancel", 1, json!({})).await;
    assert_eq!((code, &done["job"]["state"]), (200, &"cancelled".into()), "{done}");
    let (code, over) = order(&bed, "cancel", 1, json!({})).await;
    assert_eq!((code, &over["error"]["code"]), (409, &"cancel_refused".into()), "{over}");
    let message = over["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("us-east-1") && message.contains("409") && message.contains("the job is cancelled there"),
        "{message}"
    );
    // It is deleted between the look and the order.
    bed.stage.regions[0].put(&job(2, "[2]", "null"), 1);
    let answer = ojs_testbed::FaultAnswer::error_document(http::StatusCode::NOT_FOUND, "not_found");
    bed.stage.regions[0].faults().add(delete(), Fault::Answer { answer, store: false });
    let (code, gone) = order(&bed, "cancel", 2, json!({})).await;
    assert_eq!((code, &gone["error"]["code"]), (404, &"not_found".into()), "{gone}");
    let ends: Vec<String> =
        bed.rows().await.into_iter().filter(|it| it.0 == "job_cancel_ended").map(|it| it.1).collect();
    let of = |number, word: &str| format!("job {} in us-east-1: {word}", id(number));
    assert_eq!(ends, [of(1, "cancelled"), of(1, "refused"), of(2, "refused")]);
    let metrics = hub.admin.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body);
    assert!(metrics.contains("ojs_hub_job_cancels_total{result=\"refused\"} 2"), "{metrics}");
}

#[tokio::test]
async fn a_job_is_cancelled_and_run_again_from_the_command_line() {
    let (bed, _hub) = Bed::new().await;
    bed.stage.regions[1].put(&job(1, "[1]", "null"), 1);
    let cancelled = bed.hubs.order("ann", &["cancel", &id(1)]).await;
    assert!(cancelled.code == Some(0) && cancelled.stdout.contains("in eu-west-1: cancelled"), "{}", cancelled.all());
    let tried = bed.hubs.order("ann", &["replay", &id(1), "--dry-run"]).await;
    assert!(tried.code == Some(0) && tried.stdout.contains("would be run again in eu-west-1"), "{}", tried.all());
    let done = bed.hubs.order("ann", &["replay", &id(1), "--priority", "-3"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("eu-west-1: replayed as "), "{}", done.all());
    let refused = bed.hubs.order("ann", &["replay", &id(1), "--digest", &super::sha256("[]")]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("nothing was sent"), "{}", refused.all());
    // The name that it has made is one of a replay, and repeats the order.
    let made = refused.stderr.split_once("--name ").unwrap().1.split('`').next().unwrap().to_owned();
    let first = bed.hubs.order("ann", &["replay", &id(1), "--ignore-ledger", "--name", &made]).await;
    assert!(first.code == Some(0), "{}", first.all());
    let second = bed.hubs.order("ann", &["replay", &id(1), "--ignore-ledger", "--name", &made]).await;
    assert_eq!((second.code, &second.stdout), (Some(0), &first.stdout), "{}", second.all());
    assert_eq!(bed.replayed()[&id(1)].len(), 2);
    let listed = bed.hubs.command("eve", &["replays"]).await;
    assert!(listed.code == Some(0) && listed.stdout.contains("1 replayed"), "{}", listed.all());
    let ids = bed.hubs.path("ids");
    std::fs::write(&ids, format!("{}\n\n{}\n", id(1), id(8))).unwrap();
    let args = ["replay", "--ids", ids.to_str().unwrap(), "--per-second", "100"];
    let refused = bed.hubs.order("ann", &args).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("scope backfill"), "{}", refused.all());
    let ordered = bed.hubs.order("bea", &args).await;
    assert!(ordered.code == Some(0) && ordered.stdout.contains("2 jobs at 100 a second"), "{}", ordered.all());
    let name = ordered.stdout.split(':').next().unwrap().to_owned();
    let mut shown = String::new();
    eventually("the replay is done", async || {
        shown = bed.hubs.command("eve", &["replays", &name]).await.stdout;
        shown.contains(", done")
    })
    .await;
    assert!(shown.contains("not run again: 1 not_found") && shown.contains("1 refused, 1 replayed"), "{shown}");
    let over = bed.hubs.command("bea", &["replays", &name, "--stop"]).await;
    assert!(over.code == Some(1) && over.stderr.contains("is over"), "{}", over.all());
    let (code, _) = post(&bed.hubs, "eve", &format!("/api/jobs/{}/cancel", id(1)), &why(json!({}))).await;
    assert_eq!(code, 403);
}

#[tokio::test]
async fn an_answer_that_shows_another_state_is_no_cancellation() {
    let (bed, _hub) = Bed::new().await;
    bed.stage.regions[0].put(&job(1, "[1]", "null"), 1);
    for (state, code, word, shows) in [
        ("completed", 409, "cancel_refused", "the job is completed there"),
        ("active", 503, "outcome_unknown", "shows it as available"),
    ] {
        let body = format!(r#"{{"job":{{"id":"{}","state":"{state}"}}}}"#, id(1));
        let answer = ojs_testbed::FaultAnswer { body: body.into(), ..ojs_testbed::FaultAnswer::page() };
        let when = When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1);
        bed.stage.regions[0].faults().add(when, Fault::Answer { answer, store: false });
        let (found, refused) = order(&bed, "cancel", 1, json!({})).await;
        assert_eq!((found, &refused["error"]["code"]), (code, &word.into()), "{state}: {refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(shows), "{state}: {refused}");
    }
}
