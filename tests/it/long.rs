//! Documents that are too long to be read between two calls: they mean what short ones mean, and hold up nobody.

use serde_json::{Value, json};

use crate::support::{Federation, Setup};

const LONG: usize = 300 * 1024;

/// A job with a long argument.
fn long(kind: &str, pin: Option<&str>) -> Value {
    let mut job = json!({ "type": kind, "args": ["y".repeat(LONG)] });
    if let Some(pin) = pin {
        job["meta"] = json!({ "ojs.federation.region": pin });
    }
    job
}

async fn federation() -> Federation {
    Setup::default().by_the_documents().start().await
}

#[tokio::test]
async fn a_long_job_goes_where_it_is_pinned_with_its_bytes_and_its_stamp() {
    let federation = federation().await;
    let job = long("t.pinned", Some("eu-west-1"));
    let answer = federation.client.enqueue(job.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{:?}", answer.status);
    assert_eq!(federation.seen("t.pinned"), [1]);
    let received = federation.regions[1].record().requests_to("/ojs/v1/jobs").pop().unwrap().body;
    let received: Value = serde_json::from_slice(&received).unwrap();
    assert_eq!(received["args"], job["args"]);
    assert_eq!(received["id"], answer.job_id().as_str());
    assert_eq!(received["meta"]["ojs.federation.federation_id"], answer.header("ojs-federation-id").unwrap());
}

#[tokio::test]
async fn a_long_job_is_refused_as_a_short_one_is() {
    let federation = federation().await;
    for (tail, reason) in [
        (r#","meta":{"ojs.federation.region":"nowhere"}}"#, "region_unknown"),
        (r#","meta":{"ojs.federation.region":"eu-west-1"},"meta":{}}"#, "ambiguous_member"),
        (r#","meta":"#, "malformed_json"),
    ] {
        let job = format!(r#"{{"type":"t.bad","args":["{}"]{tail}"#, "y".repeat(LONG));
        let answer = federation.client.enqueue(job).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (400, reason), "{tail}");
    }
    assert_eq!(federation.seen("t.bad"), [0_usize; 0]);
}

#[tokio::test]
async fn a_long_batch_is_split_and_long_lists_are_united_and_redacted() {
    let federation = federation().await;
    let batch = json!({ "jobs": [long("t.there", Some("eu-west-1")), long("t.here", Some("us-east-1"))] });
    let answer = federation.client.post("/ojs/v1/jobs/batch", batch.to_string()).await;
    assert_eq!(answer.status, 201);
    assert_eq!((federation.seen("t.there"), federation.seen("t.here")), (vec![1], vec![0]));
    for target in ["/ojs/v1/jobs", "/ojs/v1/jobs?region=eu-west-1"] {
        let list = federation.client.get(target).await.json();
        let jobs = list["jobs"].as_array().unwrap();
        let args = |kind: &str| jobs.iter().find(|job| job["type"] == kind).map(|job| job["args"].clone());
        assert_eq!(args("t.there"), Some(json!([])), "{target}: it is not for us to see");
        assert!(target.contains("region") || args("t.here") == Some(batch["jobs"][1]["args"].clone()), "{target}");
    }
}
