//! Jobs that cannot be run again or cancelled, and why.

use http::Method;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::{Bed, id, job, order, why};
use crate::hub::stage::post;

fn message(document: &Value) -> &str {
    document["error"]["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_job_that_no_region_or_several_have_is_left_alone_and_the_answer_names_them() {
    let (bed, _hub) = Bed::new().await;
    for place in [0, 2] {
        bed.stage.regions[place].put(&job(1, &format!("[{place}]"), "null"), 1);
    }
    for verb in ["cancel", "replay"] {
        let (code, absent) = order(&bed, verb, 9, json!({})).await;
        assert_eq!((code, &absent["error"]["code"]), (404, &"not_found".into()), "{absent}");
        let (code, several) = order(&bed, verb, 1, json!({})).await;
        assert_eq!((code, &several["error"]["code"]), (409, &"ambiguous".into()), "{several}");
        assert!(
            message(&several).contains("us-east-1, ap-south-1") && message(&several).contains("?region="),
            "{several}"
        );
        for (query, words) in
            [("region=mars", "`region`: mars"), ("region=", "`region`"), ("to=us-east-1", "`region=ID`")]
        {
            let path = format!("/api/jobs/{}/{verb}?{query}", id(1));
            let (code, refused) = post(&bed.hubs, "ann", &path, &why(json!({}))).await;
            assert!(code == 400 && message(&refused).contains(words), "{query}: {refused}");
        }
        let path = format!("/api/jobs/{}/{verb}?region=eu-west-1", id(1));
        assert_eq!(post(&bed.hubs, "ann", &path, &why(json!({}))).await.0, 404, "the picked region does not have it");
    }
    assert_eq!((bed.counts(&Method::POST), bed.counts(&Method::DELETE)), ([0; 3], [0; 3]));
    let path = format!("/api/jobs/{}/replay?region=ap-south-1", id(1));
    let (code, done) = post(&bed.hubs, "ann", &path, &why(json!({}))).await;
    assert_eq!((code, &done["job"]["region"]), (200, &"ap-south-1".into()), "{done}");
    assert_eq!(bed.counts(&Method::POST), [0, 0, 1]);
}

#[tokio::test]
async fn a_region_that_is_away_is_named_and_another_one_can_be_picked() {
    let (bed, _hub) = Bed::new().await;
    bed.stage.regions[0].put(&job(1, "[1]", "null"), 1);
    bed.stage.regions[1].stop().await;
    for verb in ["cancel", "replay"] {
        let (code, silent) = order(&bed, verb, 1, json!({})).await;
        assert_eq!((code, &silent["error"]["code"]), (503, &"region_unavailable".into()), "{silent}");
        assert!(message(&silent).starts_with("eu-west-1 does not say"), "{silent}");
    }
    let path = format!("/api/jobs/{}/replay?region=us-east-1", id(1));
    assert_eq!(post(&bed.hubs, "ann", &path, &why(json!({}))).await.0, 200);
    assert_eq!(bed.counts(&Method::POST), [1, 0, 0]);
}

#[tokio::test]
async fn a_job_whose_arguments_were_deleted_or_are_unclear_is_not_run_again() {
    let (bed, _hub) = Bed::new().await;
    let faults = bed.stage.regions[0].faults();
    let pin = |region: &str| format!(r#""meta":{{"ojs.federation.region":"{region}"}}"#);
    for (members, code, word) in [
        (r#""type":"a""#.to_owned(), 410, "arguments_gone"),
        (r#""type":"a","args":null"#.to_owned(), 410, "arguments_gone"),
        (r#""type":"a","args":[1],"args":[2]"#.to_owned(), 409, "unclear"),
        (format!(r#""type":"a","args":[1],{}"#, pin("eu-west-1")), 409, "pinned_elsewhere"),
        (r#""type":"a","args":[1],"options":{"metadata":{"tenant_id":"t"}}"#.to_owned(), 409, "unclear"),
        // A tombstone stands in for a job that is not there.
        (r#""type":"ojs.federation.fence","args":[]"#.to_owned(), 404, "not_found"),
    ] {
        let body = format!(r#"{{"job":{{"id":"{}","state":"completed",{members}}}}}"#, id(1));
        let answer = FaultAnswer { body: body.into(), ..FaultAnswer::page() };
        faults.add(When::lookup(), Fault::Answer { answer, store: false });
        let (found, refused) = order(&bed, "replay", 1, json!({})).await;
        assert_eq!((found, &refused["error"]["code"]), (code, &word.into()), "{members}: {refused}");
        faults.clear();
    }
    assert_eq!(bed.counts(&Method::POST), [0; 3]);
}

#[tokio::test]
async fn wrong_orders_name_their_members() {
    let (bed, _hub) = Bed::new().await;
    let whole = why(json!({}));
    for verb in ["cancel", "replay"] {
        for member in ["reason", "ticket", "author"] {
            let mut body = whole.clone();
            body.as_object_mut().unwrap().remove(member);
            let (code, refused) = post(&bed.hubs, "ann", &format!("/api/jobs/x/{verb}"), &body).await;
            assert!(code == 400 && message(&refused).contains(&format!("`{member}`")), "{refused}");
        }
        let (code, refused) = order(&bed, verb, 1, json!({ "payload": 1 })).await;
        assert!(code == 400 && message(&refused).contains("`payload`"), "{refused}");
        let (code, refused) = post(&bed.hubs, "ann", &format!("/api/jobs//{verb}"), &whole).await;
        assert!(code == 400 && message(&refused).contains("`id` in the path"), "{refused}");
    }
    let bulk = json!({ "jobs": ["x"], "backfill_reason": "r", "backfill_ticket": "T-1", "author": "ana" });
    for member in ["jobs", "backfill_reason", "backfill_ticket", "author"] {
        let mut body = bulk.clone();
        body.as_object_mut().unwrap().remove(member);
        let (code, refused) = post(&bed.hubs, "bea", "/api/replays", &body).await;
        assert!(code == 400 && message(&refused).contains(&format!("`{member}`")), "{refused}");
    }
    let (code, refused) = post(&bed.hubs, "ann", "/api/replays", &bulk).await;
    assert!(code == 403 && message(&refused).contains("needs the scope backfill"), "{refused}");
    for verb in ["cancel", "replay"] {
        let (code, refused) = post(&bed.hubs, "bea", &format!("/api/jobs/x/{verb}"), &whole).await;
        assert!(code == 403 && message(&refused).contains("needs the scope operate"), "{refused}");
    }
}

#[tokio::test]
async fn an_answer_under_another_id_is_noted_and_one_with_the_first_job_is_no_new_one() {
    let (bed, _hub) = Bed::new().await;
    bed.stage.regions[0].put(&job(1, "[1]", "null"), 1);
    let answered = async |other: &str| {
        let answer = FaultAnswer::other_job(other);
        bed.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
        order(&bed, "replay", 1, json!({})).await
    };
    let (code, first) = answered(&id(1)).await;
    assert_eq!((code, &first["error"]["code"]), (409, &"deduplicated".into()), "{first}");
    let (code, other) = answered("elsewhere").await;
    let shown = &other["job"];
    assert_eq!((code, &shown["step"], &shown["new_id"]), (200, &"replayed".into(), &"elsewhere".into()), "{other}");
    assert_eq!(shown["note"], "stored under another id", "{other}");
}
