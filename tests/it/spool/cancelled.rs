//! Cancelling a spooled job: done only where nothing of it has left.

use http::Method;
use ojs_testbed::{Fault, Gate, When};

use super::{Files, eventually, held, job, launched, pinned, resume, setup, shown, stop, stored_once};

#[tokio::test]
async fn a_cancelled_job_is_never_sent_and_one_on_its_way_is_not_said_to_be_cancelled() {
    let files = Files::new();
    let federation = launched(setup(&files, "")).await;
    stop(&federation.regions).await;
    let path = |id: &str| format!("/ojs/v1/jobs/{id}");
    let gone = held(&federation.client, job("gone")).await.job_id();
    let sent = held(&federation.client, pinned("us-east-1", "sent")).await.job_id();
    let cancelled = federation.client.call(Method::DELETE, &path(&gone), "").await;
    assert_eq!((cancelled.status.as_u16(), &cancelled.json()["job"]["state"]), (200, &"cancelled".into()));
    assert_eq!(shown(&federation.admin).await["waiting"], 1);
    let gate = Gate::new();
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    resume(&federation.regions).await;
    let record = federation.regions[0].record();
    record.wait_for(|record| record.requests_to("/ojs/v1/jobs").iter().any(|it| it.complete)).await;
    let refused = federation.client.call(Method::DELETE, &path(&sent), "").await;
    assert_eq!(refused.check_error(503, "backend_error", "spool_busy")["details"]["why"], "on_its_way");
    gate.open();
    eventually("it is there, and can be cancelled", async || {
        federation.client.call(Method::DELETE, &path(&sent), "").await.status == 200
    })
    .await;
    assert!(stored_once(&federation.regions, 1), "the first was never sent");
    assert!(federation.seen("gone").is_empty());
}
