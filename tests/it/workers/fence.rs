//! Acknowledgements that come when the lease is over: another worker may have the job by now.

use std::time::Duration;

use http::StatusCode;
use ojs_testbed::{Dialect, Fault, FaultAnswer, JobState, When};
use serde_json::json;

use super::{ACK, BEAT, FETCH, NACK, fetch, queued};
use crate::support::{Client, Federation, Process, Setup, Stage, eventually};

const LOOK_UPS: &str = "/ojs/v1/jobs/";

/// Regions of a dialect: that of servers that count attempts at NACK hands a job out twice with the same `attempt`.
fn speaking(dialect: Dialect) -> Setup {
    Setup::default().demo(move |options| options.dialect = dialect)
}

fn steered(dialect: Dialect) -> Setup {
    speaking(dialect).steered().steered_leases()
}

fn claim(worker: &str, visibility_ms: Option<u64>) -> String {
    claim_of(&["a"], worker, visibility_ms)
}

fn claim_of(queues: &[&str], worker: &str, visibility_ms: Option<u64>) -> String {
    let mut body = json!({ "queues": queues, "count": 1, "worker_id": worker });
    if let Some(visibility_ms) = visibility_ms {
        body["visibility_timeout_ms"] = visibility_ms.into();
    }
    body.to_string()
}

fn word(path: &str, id: &str, worker: Option<&str>) -> String {
    let mut body = json!({ "job_id": id });
    if path == NACK {
        body["error"] = json!({ "code": "x", "message": "y" });
    }
    if let Some(worker) = worker {
        body["worker_id"] = worker.into();
    }
    body.to_string()
}

/// Has worker `w1` claim a job for a second.
async fn leased(federation: &Federation, client: Client) -> String {
    federation.client.enqueue(queued("a", "x")).await.job_id();
    fetch(client, claim("w1", Some(1_000))).await.remove(0)
}

#[tokio::test]
async fn a_late_acknowledgement_is_refused_when_the_next_worker_has_the_job() {
    for dialect in Dialect::ALL {
        for path in [ACK, NACK] {
            // The next worker is beside the same sidecar, or another one; only SDKs beside another one may leave out their name.
            for (same, worker) in [(true, Some("w1")), (false, Some("w1")), (false, None)] {
                let federation = steered(dialect).start().await;
                let other = federation.beside(0).await;
                let id = leased(&federation, federation.client).await;
                federation.advance(Duration::from_secs(2));
                let next = if same { federation.client } else { other.client };
                assert_eq!(fetch(next, claim("w2", None)).await, std::slice::from_ref(&id));
                for _ in 0..2 {
                    let answer = federation.client.post(path, word(path, &id, worker)).await;
                    answer.check_error(409, "conflict", "lease_lost");
                    assert_eq!(answer.region(), "us-east-1");
                }
                assert_eq!((federation.calls(path), federation.calls(LOOK_UPS)), (vec![0; 3], vec![2, 0, 0]));
                assert_eq!(federation.state(0, &id), JobState::Active);
                let answer = next.post(ACK, word(ACK, &id, Some("w2"))).await;
                assert_eq!(answer.status, 200, "{dialect:?} {path} {same} {worker:?} {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_job_that_was_given_back_is_not_acknowledged_for_its_next_worker() {
    let federation = steered(Dialect::Reference).start().await;
    let other = federation.beside(0).await;
    let id = leased(&federation, federation.client).await;
    assert_eq!(federation.client.post(NACK, word(NACK, &id, None)).await.status, 200);
    federation.advance(Duration::from_secs(60));
    assert_eq!(fetch(other.client, claim("w2", None)).await, std::slice::from_ref(&id));
    federation.client.post(ACK, word(ACK, &id, None)).await.check_error(409, "conflict", "lease_lost");
    assert_eq!(other.client.post(ACK, word(ACK, &id, None)).await.status, 200);
    // Completed, the job has no next worker, and what comes twice is the region's to judge.
    let answer = other.client.post(ACK, word(ACK, &id, None)).await;
    assert_eq!((answer.status.as_u16(), federation.calls(ACK)), (409, vec![2, 0, 0]), "{answer:?}");
}

#[tokio::test]
async fn within_the_lease_nobody_is_asked_and_behind_it_the_region_once() {
    // The regions' own time stands still for the sidecar's: to them every lease holds.
    for (visibility_ms, within, behind) in [(None, 26, 31), (Some(60_000), 53, 61), (Some(2_000), 1, 3)] {
        let federation = Setup::default().steered().start().await;
        for (seconds, asked) in [(within, 0), (behind, 1)] {
            federation.client.enqueue(queued("a", "x")).await;
            let id = fetch(federation.client, claim("w1", visibility_ms)).await.remove(0);
            federation.advance(Duration::from_secs(seconds));
            let answer = federation.client.post(ACK, word(ACK, &id, None)).await;
            assert_eq!(answer.status, 200, "{visibility_ms:?} {seconds} {answer:?}");
            assert_eq!(federation.calls(LOOK_UPS), [asked, 0, 0], "{visibility_ms:?} {seconds}");
        }
        assert_eq!(federation.calls(ACK), [2, 0, 0]);
    }
}

#[tokio::test]
async fn heartbeats_extend_the_lease_only_as_long_as_it_holds() {
    let federation = steered(Dialect::Reference).start().await;
    let other = federation.beside(0).await;
    let beat = |id: &str| json!({ "worker_id": "w1", "active_jobs": [id], "visibility_timeout_ms": 5_000 }).to_string();
    let id = leased(&federation, federation.client).await;
    for _ in 0..3 {
        assert_eq!(federation.client.post(BEAT, beat(&id)).await.status, 200);
        federation.advance(Duration::from_secs(4));
    }
    let answer = federation.client.post(ACK, word(ACK, &id, None)).await;
    assert_eq!((answer.status.as_u16(), federation.calls(LOOK_UPS)), (200, vec![0; 3]), "{answer:?}");
    let id = leased(&federation, federation.client).await;
    federation.advance(Duration::from_secs(2));
    assert_eq!(fetch(other.client, claim("w2", None)).await, std::slice::from_ref(&id));
    // The region extends the lease of the other worker by this.
    let answer = federation.client.post(BEAT, beat(&id)).await;
    assert_eq!(answer.json()["jobs_extended"], json!([id]), "{answer:?}");
    federation.client.post(ACK, word(ACK, &id, None)).await.check_error(409, "conflict", "lease_lost");
}

#[tokio::test]
async fn a_region_that_cannot_tell_gets_no_late_acknowledgement_and_one_that_may_not_decides() {
    let federation =
        Setup::default().yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }").steered().start().await;
    let id = leased(&federation, federation.client).await;
    federation.advance(Duration::from_secs(2));
    let say = |status: StatusCode, code: &str| {
        let answer = FaultAnswer::error_document(status, code);
        federation.regions[0].faults().clear();
        let look_ups = When::path(LOOK_UPS).method(http::Method::GET);
        federation.regions[0].faults().add(look_ups, Fault::Answer { answer, store: false });
    };
    for (status, code) in [(503, "backend_error"), (500, "internal_error"), (429, "rate_limited")] {
        say(StatusCode::from_u16(status).unwrap(), code);
        let answer = federation.client.post(ACK, word(ACK, &id, None)).await;
        answer.check_error(503, "backend_error", "owner_unavailable");
    }
    say(StatusCode::NOT_FOUND, "not_found");
    let answer = federation.client.post(ACK, word(ACK, &id, None)).await;
    assert_eq!((answer.status.as_u16(), federation.calls(ACK)), (404, vec![0; 3]), "{answer:?}");
    say(StatusCode::FORBIDDEN, "forbidden");
    let answer = federation.client.post(ACK, word(ACK, &id, None)).await;
    assert_eq!((answer.status.as_u16(), federation.calls(ACK)), (200, vec![1, 0, 0]), "{answer:?}");
}

#[tokio::test]
async fn the_last_attempt_ends_a_job_wherever_its_region_counts_attempts() {
    for dialect in Dialect::ALL {
        let federation = steered(dialect).start().await;
        let job = queued("a", "x").replace(r#""queue":"a""#, r#""queue":"a","retry":{"max_attempts":2}"#);
        let id = federation.client.enqueue(job).await.job_id();
        for last in [false, true] {
            assert_eq!(fetch(federation.client, claim("w1", None)).await, std::slice::from_ref(&id), "{dialect:?}");
            let answer = federation.client.post(NACK, word(NACK, &id, None)).await;
            let state = if last { "discarded" } else { "retryable" };
            assert_eq!(
                (answer.status.as_u16(), &answer.json()["state"]),
                (200, &state.into()),
                "{dialect:?} {answer:?}"
            );
            federation.advance(Duration::from_secs(600));
        }
        assert_eq!(federation.calls(NACK), [2, 0, 0]);
    }
}

/// A folder's journal holds these bytes.
pub(super) fn is_on_disk(stage: &Stage, needle: &str) -> bool {
    let mut files = std::fs::read_dir(stage.files.path()).unwrap().map(|file| file.unwrap().path());
    files.any(|path| {
        let is_journal = path.file_name().unwrap().to_str().unwrap().starts_with("journal");
        is_journal && std::fs::read(&path).is_ok_and(|it| memchr::memmem::find(&it, needle.as_bytes()).is_some())
    })
}

#[tokio::test]
async fn a_late_acknowledgement_is_refused_by_the_next_process_too() {
    for dialect in Dialect::ALL {
        let stage = speaking(dialect).stage().await;
        let journal = format!("journal.path={}", stage.files.path().join("journal").display());
        let start = async |journal| Process::run(&stage.config, &["--set", "log.level=info", "--set", journal]).await;
        let run = async || start(&journal).await;
        let (first, other) = (run().await, start("journal.path=off").await);
        let mut ids = Vec::new();
        for (queue, worker) in [("b", "worker-one"), ("c", "worker-two")] {
            first.client.enqueue(queued(queue, "x")).await;
            ids.extend(fetch(first.client, claim_of(&[queue], worker, Some(20))).await);
            eventually("the lease is on disk", async || is_on_disk(&stage, worker)).await;
        }
        // kill -9.
        drop(first);
        let second = run().await;
        let mut taken = Vec::new();
        eventually("the leases are over, and others have the jobs", async || {
            taken.extend(fetch(other.client, claim_of(&["b", "c"], "other", None)).await);
            taken.len() == 2
        })
        .await;
        for (id, worker) in ids.iter().zip([None, Some("worker-two")]) {
            second.client.post(ACK, word(ACK, id, worker)).await.check_error(409, "conflict", "lease_lost");
            let answer = other.client.post(ACK, word(ACK, id, None)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        // A lease that still holds outlives the process, and its job is asked about once.
        second.client.enqueue(queued("a", "x")).await;
        let id = fetch(second.client, claim("worker-three", None)).await.remove(0);
        eventually("the lease is on disk", async || is_on_disk(&stage, "worker-three")).await;
        drop(second);
        let third = run().await;
        let record = stage.regions[0].record();
        let before = record.requests_to(LOOK_UPS).len();
        assert_eq!(third.client.post(ACK, word(ACK, &id, None)).await.status, 200);
        assert_eq!(record.requests_to(LOOK_UPS).len(), before + 1);
        let all = stage.regions.iter().map(|region| region.record().requests_to(LOOK_UPS).len());
        assert_eq!(all.skip(1).sum::<usize>(), 0, "no other region is asked for a job whose lease is known");
    }
}

#[tokio::test]
async fn a_fetch_is_not_held_up_by_a_journal_that_cannot_be_written() {
    let federation = steered(Dialect::Reference).yaml("journal: { path: /proc/no/journal }").start().await;
    let other = federation.beside(0).await;
    let id = leased(&federation, federation.client).await;
    federation.advance(Duration::from_secs(2));
    assert_eq!(fetch(other.client, claim("w2", None)).await, std::slice::from_ref(&id));
    federation.client.post(ACK, word(ACK, &id, None)).await.check_error(409, "conflict", "lease_lost");
    assert_eq!(federation.calls(FETCH)[0], 2);
}
