//! `POST /ojs/v1/jobs` end to end.

use crate::support::Federation;

#[tokio::test]
async fn an_ordinary_job_lands_in_the_local_region_stamped() {
    let federation = Federation::start().await;
    let answer = federation.client.enqueue(r#"{"type":"email.send","args":["a"]}"#).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("ojs-federation-region"), Some("us-east-1"));
    assert_eq!(answer.header("ojs-federation-strategy"), Some("affinity"));
    assert_eq!(answer.header("ojs-federation-attempts"), Some("1"));
    let jobs = federation.regions[0].jobs();
    let job = jobs.job(&answer.job_id()).unwrap();
    let meta: serde_json::Value = serde_json::from_str(job.meta.as_ref().unwrap()).unwrap();
    assert_eq!(meta["ojs.federation.federation_id"].as_str(), answer.header("ojs-federation-id"));
}
