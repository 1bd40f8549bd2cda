use http::{Method, Request};
use http_body_util::Full;

use super::client::{Client, plain};
use crate::JobState;

const ONE: &str = "019461a8-0000-7000-8000-000000000001";
const ODD: &str = "[ 123456789012345678901234567890 , 1E400,-0.0, \"\\u00e9\\/\", {\"b\":1,\"a\":2, \"b\":3} ]";

#[tokio::test]
async fn args_meta_and_unknown_members_come_back_byte_for_byte() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let source = format!(
        r#" {{"zzz" : {ODD},"type":"a.b","id":"019461a8-0000-7000-8000-000000000001","args":{ODD} , "meta":{{"n":1E400 , "a":0}},"options":{{"tags":[ "x"]}}}} "#
    );
    let answer = client.post("/ojs/v1/jobs", &source).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.headers["location"], "/ojs/v1/jobs/019461a8-0000-7000-8000-000000000001");
    assert_eq!(answer.headers["content-type"], "application/openjobspec+json");
    assert_eq!(answer.headers["ojs-version"], "1.0");
    for part in [format!(r#""zzz":{ODD}"#), format!(r#""args":{ODD}"#), r#""meta":{"n":1E400 , "a":0}"#.to_owned()] {
        assert!(answer.text().contains(&part), "{part} in {}", answer.text());
    }
    assert!(answer.text().contains(r#""tags":[ "x"]"#));
    assert_eq!(client.get("/ojs/v1/jobs/019461a8-0000-7000-8000-000000000001").await.body, answer.body);
    let jobs = region.jobs();
    assert_eq!((jobs[0].args.as_str(), &jobs[0].envelope[..]), (ODD, source.as_bytes()));
}

#[tokio::test]
async fn a_job_goes_from_enqueue_over_fetch_to_ack_and_nack() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let batch = r#"{"jobs":[{"type":"a","args":[1],"id":"019461a8-0000-7000-8000-000000000001"},{"type":"a","args":[2],"id":"019461a8-0000-7000-8000-000000000002"}]}"#;
    let answer = client.post("/ojs/v1/jobs/batch", batch).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["count"]), (201, &2.into()));
    let fetched =
        client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"count":5,"worker_id":"w"}"#).await.json();
    assert_eq!((&fetched["jobs"][0]["id"], &fetched["jobs"][1]["attempt"]), (&ONE.into(), &1.into()));
    assert_eq!(fetched["job"], fetched["jobs"][0]);
    let beat = r#"{"worker_id":"w","active_jobs":["019461a8-0000-7000-8000-000000000001","gone"]}"#;
    assert_eq!(client.post("/ojs/v1/workers/heartbeat", beat).await.json()["jobs_extended"], serde_json::json!([ONE]));
    let acked = client
        .post("/ojs/v1/workers/ack", r#"{"job_id":"019461a8-0000-7000-8000-000000000001","result":{"n": 1E400}}"#)
        .await;
    assert!(acked.text().contains(r#""state":"completed""#) && acked.text().contains(r#""result":{"n": 1E400}"#));
    assert_eq!(
        client.post("/ojs/v1/workers/ack", r#"{"job_id":"019461a8-0000-7000-8000-000000000001"}"#).await.status,
        409
    );
    let nacked = client
        .post(
            "/ojs/v1/workers/nack",
            r#"{"job_id":"019461a8-0000-7000-8000-000000000002","error":{"message":"m","retryable":false}}"#,
        )
        .await;
    assert_eq!((&nacked.json()["state"], &nacked.json()["attempt"]), (&"discarded".into(), &1.into()));
    assert_eq!(client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await.text(), r#"{"jobs":[]}"#);
    let cancelled = client.send(Method::DELETE, "/ojs/v1/jobs/019461a8-0000-7000-8000-000000000002", "").await.unwrap();
    assert_eq!((cancelled.status.as_u16(), &cancelled.json()["error"]["code"]), (409, &"conflict".into()));
    assert_eq!(region.jobs().job(ONE).unwrap().state, JobState::Completed);
}

#[tokio::test]
async fn queues_report_what_waits_and_stop_handing_out_while_paused() {
    let region = plain().await;
    region.fill("mail", 3);
    let mut client = Client::plain(&region).await;
    let fetch = r#"{"queues":["mail"],"count":1}"#;
    assert_eq!(client.post("/ojs/v1/queues/mail/pause", "").await.json()["status"], "paused");
    assert_eq!(client.post("/ojs/v1/workers/fetch", fetch).await.text(), r#"{"jobs":[]}"#);
    assert_eq!(client.post("/ojs/v1/queues/mail/resume", "").await.json()["status"], "active");
    client.post("/ojs/v1/workers/fetch", fetch).await;
    let stats = client.get("/ojs/v1/queues/mail/stats").await.json();
    assert_eq!(
        (&stats["queue"], &stats["stats"]["available"], &stats["stats"]["active"]),
        (&"mail".into(), &2.into(), &1.into())
    );
    let totals = client.get("/ojs/v1/admin/stats").await.json();
    assert_eq!((&totals["depth"], &totals["available"]), (&3.into(), &2.into()));
    let queues = client.get("/ojs/v1/queues").await.json();
    assert_eq!((&queues["queues"][0]["name"], &queues["pagination"]["total"]), (&"mail".into(), &1.into()));
}

#[tokio::test]
async fn what_cannot_be_served_is_answered_by_an_error_document() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    for (body, code) in [
        ("", "invalid_payload"),
        ("[]", "invalid_payload"),
        ("{\"type\":\"a\",\"args\":[}", "invalid_payload"),
        (r#"{"args":[]}"#, "invalid_request"),
        (r#"{"type":"","args":[]}"#, "invalid_request"),
        (r#"{"type":"a"}"#, "invalid_request"),
        (r#"{"type":"a","args":{}}"#, "invalid_request"),
        (r#"{"type":"a","args":[],"id":""}"#, "invalid_request"),
        (r#"{"type":"a","args":[],"options":{"priority":101}}"#, "invalid_request"),
        (r#"{"type":"a","args":[],"options":{"delay_until":"soon"}}"#, "invalid_request"),
        (r#"{"type":"A","args":[]}"#, "invalid_request"),
        (r#"{"type":"a","args":[],"id":"550e8400-e29b-41d4-a716-446655440000"}"#, "invalid_request"),
        (r#"{"type":"a","args":[],"options":{"queue":"Q"}}"#, "invalid_request"),
    ] {
        let request = Request::post("/ojs/v1/jobs").header("host", "a").header("x-request-id", "mine");
        let answer = client.call(request.body(Full::from(body)).unwrap()).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.json()["error"]["code"].as_str()), (400, Some(code)), "{body}");
        assert_eq!(
            (&answer.headers["x-request-id"], &answer.json()["error"]["request_id"]),
            (&"mine".parse().unwrap(), &"mine".into())
        );
    }
    let batch = r#"{"jobs":[{"type":"a","args":[]},{"type":"a"}]}"#;
    assert_eq!(client.post("/ojs/v1/jobs/batch", batch).await.status, 400);
    let policy = r#"{"type":"a","args":[],"options":{"retry":{"max_attempts":-1}}}"#;
    let refused = client.post("/ojs/v1/jobs", policy).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]["type"]), (422, &"validation_error".into()));
    for (method, path, status) in [(Method::GET, "/ojs/v1/nothing", 404), (Method::POST, "/ojs/v1/health", 405)] {
        let answer = client.send(method, path, "").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.json()["error"]["retryable"].as_bool()), (status, Some(false)));
        assert!(answer.json()["error"]["hint"].is_string() && answer.json()["error"]["docs_url"].is_string());
    }
    let typed = Request::post("/ojs/v1/jobs").header("host", "a").header("content-type", "text/plain");
    assert_eq!(client.call(typed.body(Full::from(r#"{"type":"a","args":[]}"#)).unwrap()).await.unwrap().status, 400);
    assert!(region.jobs().is_empty());
}

#[tokio::test]
async fn definitions_are_kept_as_they_were_submitted() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let cron = r#"{"name":"n" ,"cron":"* * * * *","type":"a","args":[ 1E400 ]}"#;
    let answer = client.post("/ojs/v1/cron", cron).await;
    assert_eq!(answer.status, 201);
    assert!(answer.text().starts_with(r#"{"cron_job":{"name":"n","cron":"#) && answer.text().contains("[ 1E400 ]"));
    let workflow = r#"{"type":"chain" ,"steps":[{"type":"a","args":[ 1E400 ]}]}"#;
    assert_eq!(client.post("/ojs/v1/workflows", workflow).await.status, 201);
    assert_eq!(client.post("/ojs/v1/workflows", r#"{"type":"chain","steps":[]}"#).await.status, 400);
    let kinds: Vec<_> = region.definitions().iter().map(|definition| definition.kind).collect();
    assert_eq!(kinds, ["cron", "workflows"]);
    let sources: Vec<_> = region.definitions().into_iter().map(|definition| definition.source).collect();
    assert_eq!(sources, [cron, workflow]);
}

#[tokio::test]
async fn the_events_of_a_job_end_with_its_final_state() {
    let region = plain().await;
    let (mut client, mut reader) = (Client::plain(&region).await, Client::plain(&region).await);
    client.post("/ojs/v1/jobs", r#"{"type":"a","args":[],"id":"019461a8-0000-7000-8000-000000000001"}"#).await;
    let (events, ()) = tokio::join!(reader.get("/ojs/v1/jobs/019461a8-0000-7000-8000-000000000001/events"), async {
        region
            .record()
            .wait_for(|record| {
                !record.requests_to("/ojs/v1/jobs/019461a8-0000-7000-8000-000000000001/events").is_empty()
            })
            .await;
        client.send(Method::DELETE, "/ojs/v1/jobs/019461a8-0000-7000-8000-000000000001", "").await.unwrap();
    });
    assert!(events.text().starts_with("retry: 3000\n\nid: evt_1\n"), "{}", events.text());
    assert!(events.text().ends_with(
        "event: job.cancelled\ndata: {\"job_id\":\"019461a8-0000-7000-8000-000000000001\",\"state\":\"cancelled\"}\n\n"
    ));
    assert_eq!(client.get("/ojs/v1/jobs/none/events").await.status, 404);
}

#[tokio::test]
async fn large_bodies_stream_in_both_directions() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    for chunked in ["false", "true"] {
        let answer = client.get(&format!("/ojs/v1/debug/stream?bytes=1000001&chunked={chunked}")).await;
        assert_eq!(answer.body.len(), 1_000_001);
        assert_eq!(answer.headers.contains_key("content-length"), chunked == "false");
    }
    let large = "y".repeat(3 << 20);
    assert_eq!(client.post("/ojs/v1/debug/echo", &large).await.body, large);
    assert!(region.record().requests_to("/ojs/v1/debug/echo")[0].complete);
}

#[tokio::test]
async fn health_and_manifest_are_readable_for_clients_of_both_dialects() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let health = client.get("/ojs/v1/health").await.json();
    assert_eq!((&health["status"], &health["backend"]["type"]), (&"ok".into(), &"memory".into()));
    let manifest = client.get("/ojs/manifest").await.json();
    assert_eq!((&manifest["ojs_version"], &manifest["specversion"]), (&"1.0".into(), &"1.0".into()));
    assert_eq!(manifest["extensions"], serde_json::json!([]));
}

#[tokio::test]
async fn odd_spellings_of_a_path_still_reach_the_operation() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    for path in ["/ojs//v1/jobs", "/ojs/v1/./jobs/", "/ojs/v1/x/../jobs", "/ojs/v1/%6aobs", "/ojs/v1/%2e%2e/v1/jobs"] {
        assert_eq!(client.post(path, r#"{"type":"a","args":[]}"#).await.status, 201, "{path}");
    }
}
