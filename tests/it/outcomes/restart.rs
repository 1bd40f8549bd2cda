//! The journal's file over the end of the process, and every way in which it cannot be used.

use std::io::Write as _;
use std::path::Path;

use http::Request;
use ojs_sidecar::demo::{Fault, FaultAnswer, Gate, When};

use super::{newest_in, outcomes};
use crate::support::{Process, Setup, Stage, eventually, job};

const LOG: &str = "log.level=info";

async fn stage(journal: &str) -> Stage {
    stage_within(journal, "1s").await
}

async fn stage_within(journal: &str, call_timeout: &str) -> Stage {
    let stage = Setup::default()
        .regions(2)
        .yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
        .yaml("failover: { late_write_grace: 50ms }")
        .yaml(&format!("limits: {{ call_timeout: {call_timeout} }}"))
        .yaml(&format!("journal: {{ path: {journal:?} }}"))
        .stage()
        .await;
    // Where the folder of the test is known only now.
    let text = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, text.replace("{dir}", stage.files.path().to_str().unwrap())).unwrap();
    stage
}

async fn run(config: &Path) -> Process {
    Process::run(config, &["--set", LOG]).await
}

#[tokio::test]
async fn a_killed_process_leaves_its_unknown_jobs_to_the_next_one_which_clears_them_up() {
    let stage = stage("{dir}/journal").await;
    let gate = Gate::new();
    stage.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let first = run(&stage.config).await;
    let answer = first.client.enqueue(job("a")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    let id = answer.json()["error"]["details"]["job_id"].clone();
    // kill -9.
    drop(first);
    let second = run(&stage.config).await;
    let shown = outcomes(&second.client).await;
    assert_eq!((&shown["durable"], &shown["outcomes"][0]["job_id"]), (&true.into(), &id), "{shown}");
    assert_eq!(shown["outcomes"][0]["state"], "pending");
    gate.open();
    assert_eq!(newest_in(&second.client, "landed").await["job_id"], id);
    assert_eq!(stage.regions[0].jobs().iter().map(|job| job.stored).collect::<Vec<_>>(), [1]);
    assert!(stage.regions[1].jobs().is_empty());
    drop(second);
    assert_eq!(outcomes(&run(&stage.config).await.client).await["outcomes"][0]["state"], "landed");
    for file in std::fs::read_dir(stage.files.path()).unwrap() {
        let path = file.unwrap().path();
        let is_journal = path.file_name().unwrap().to_str().unwrap().starts_with("journal");
        let bytes = if is_journal { std::fs::read(&path).unwrap() } else { Vec::new() };
        assert!(memchr::memmem::find(&bytes, b"email.send").is_none(), "nothing of a job is in the journal");
    }
}

#[tokio::test]
async fn a_key_outlives_the_process_also_one_whose_call_did_not_end() {
    let stage = stage("{dir}/journal").await;
    let keyed = |key: &str| Request::post("/ojs/v1/jobs").header("idempotency-key", key);
    let first = run(&stage.config).await;
    let done = first.client.send(keyed("done"), job("a")).await;
    let gate = Gate::new();
    stage.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let client = first.client;
    let broken = tokio::spawn(async move { client.try_send(keyed("broken"), job("b")).await.is_err() });
    let record = stage.regions[0].record();
    let sent =
        |record: &ojs_sidecar::demo::Record| record.requests_to("/ojs/v1/jobs").iter().filter(|it| it.complete).count();
    record.wait_for(|record| sent(record) == 2).await;
    drop(first);
    assert!(broken.await.unwrap());
    gate.open();
    eventually("the second job is stored", async || stage.regions[0].jobs().len() == 2).await;
    stage.regions[0].faults().clear();
    let second = run(&stage.config).await;
    let again = second.client.send(keyed("done"), job("a")).await;
    assert_eq!((again.status.as_u16(), again.job_id()), (201, done.job_id()), "{again:?}");
    let again = second.client.send(keyed("broken"), job("b")).await;
    assert_eq!((again.status.as_u16(), again.header("ojs-federation-replayed")), (201, Some("true")), "{again:?}");
    assert_eq!(second.client.send(keyed("done"), job("c")).await.status, 409);
    let stored: Vec<u32> = stage.regions[0].jobs().iter().map(|job| job.stored).collect();
    assert_eq!(stored, [1, 1]);
}

/// How many enqueues a region has read to their end.
fn read(stage: &Stage, place: usize) -> usize {
    let requests = stage.regions[place].record().requests_to("/ojs/v1/jobs");
    requests.iter().filter(|it| it.method == http::Method::POST && it.complete).count()
}

#[tokio::test]
async fn a_local_region_that_says_neither_yes_nor_no_is_not_taken_for_the_one_that_has_a_keys_job() {
    let stage = stage_within("{dir}/journal", "20s").await;
    let faults = stage.regions[0].faults();
    faults.add(When::enqueue(), Fault::HangAfterBody { store: false });
    let keyed = || Request::post("/ojs/v1/jobs").header("idempotency-key", "k");
    let first = run(&stage.config).await;
    let client = first.client;
    let broken = tokio::spawn(async move { client.try_send(keyed(), job("a")).await.is_err() });
    eventually("the job is sent", async || read(&stage, 0) == 1).await;
    drop(first);
    assert!(broken.await.unwrap());
    faults.clear();
    let answer = FaultAnswer::error_document(http::StatusCode::INTERNAL_SERVER_ERROR, "internal_error");
    faults.add(When::path("/ojs/v1/jobs/").method(http::Method::GET), Fault::Answer { answer, store: false });
    let second = run(&stage.config).await;
    for _ in 0..2 {
        let again = second.client.send(keyed(), job("a")).await;
        assert_eq!((again.status.as_u16(), again.reason().as_str()), (503, "owner_unavailable"), "{again:?}");
    }
    faults.clear();
    let again = second.client.send(keyed(), job("a")).await;
    assert_eq!(again.status, 201, "{again:?}");
    let jobs = stage.regions[0].jobs();
    assert_eq!(jobs.iter().map(|job| (job.id.clone(), job.stored)).collect::<Vec<_>>(), [(again.job_id(), 1)]);
}

#[tokio::test]
async fn a_place_that_a_job_was_only_about_to_go_to_is_not_taken_for_the_one_that_has_it() {
    let stage = stage_within("{dir}/journal", "20s").await;
    stage.regions[0].faults().add(When::enqueue(), Fault::CutAfterRequest { store: false });
    stage.regions[1].faults().add(When::enqueue(), Fault::HangAfterBody { store: false });
    let body = r#"{"id":"01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f","type":"email.send","args":["own"]}"#;
    let first = run(&stage.config).await;
    let client = first.client;
    let broken = tokio::spawn(async move { client.try_send(Request::post("/ojs/v1/jobs"), body).await.is_err() });
    eventually("the job has gone on", async || (read(&stage, 0), read(&stage, 1)) == (1, 1)).await;
    drop(first);
    assert!(broken.await.unwrap());
    stage.regions.iter().for_each(|region| region.faults().clear());
    let second = run(&stage.config).await;
    assert_eq!(outcomes(&second.client).await["outcomes"][0]["elsewhere"]["region"], "eu-west-1");
    let again = second.client.enqueue(body).await;
    assert_eq!(again.status, 201, "{again:?}");
    let stored: Vec<u32> = stage
        .regions
        .iter()
        .flat_map(|region| region.jobs().iter().map(|job| job.stored).collect::<Vec<_>>())
        .collect();
    assert_eq!(stored, [1], "what is answered with 201 is stored");
}

/// Routing goes on, the log says why in one word, and what is unknown is in memory.
async fn check_in_memory(stage: &Stage, sidecar: &Process, reason: &str) {
    sidecar.wait_for_line(&format!("reason=\"{reason}\"")).await;
    assert_eq!(sidecar.client.enqueue(job("a")).await.status, 201, "{reason}");
    stage.regions[0].faults().add(When::path("/ojs/v1/jobs"), Fault::CutAfterRequest { store: false });
    assert_eq!(sidecar.client.enqueue(job("a")).await.status, 500, "{reason}");
    stage.regions[0].faults().clear();
    let shown = outcomes(&sidecar.client).await;
    assert_eq!(shown["durable"], false, "{reason}");
    assert_eq!(shown["outcomes"].as_array().unwrap().len(), 1, "{reason}: {shown}");
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_never_stops_routing() {
    // Nobody can make a file here, whoever runs the test.
    let stage = stage("/proc/journal").await;
    check_in_memory(&stage, &run(&stage.config).await, "cannot_open").await;
}

#[tokio::test]
async fn a_journal_that_another_process_holds_never_stops_routing() {
    let stage = stage("{dir}/journal").await;
    let first = run(&stage.config).await;
    check_in_memory(&stage, &run(&stage.config).await, "held_by_another_process").await;
    assert_eq!(outcomes(&first.client).await["durable"], true);
}

#[tokio::test]
async fn a_journal_that_is_corrupt_is_moved_aside_and_routing_goes_on() {
    let stage = stage("{dir}/journal").await;
    std::fs::write(stage.files.path().join("journal"), "this is no journal, and never was one").unwrap();
    let sidecar = run(&stage.config).await;
    sidecar.wait_for_line("moved aside").await;
    assert_eq!(sidecar.client.enqueue(job("a")).await.status, 201);
    assert_eq!(outcomes(&sidecar.client).await["durable"], true);
}

/// On a disk of a few pages, in a mount namespace of its own.
#[tokio::test]
async fn a_disk_that_is_full_never_stops_routing() {
    let stage = stage("{dir}/disk/journal").await;
    let disk = stage.files.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o size=16k none '{}'", disk.display());
    if !std::process::Command::new("unshare").args(["-Urm", "sh", "-c", &mount]).status().is_ok_and(|it| it.success()) {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: no user namespaces here, so that no disk can be made that is full");
        return;
    }
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    let sidecar = Process::run_under(&["unshare", "-Urm", "sh", "-c", &script], &stage.config, &["--set", LOG]).await;
    check_in_memory(&stage, &sidecar, "disk_full").await;
}
