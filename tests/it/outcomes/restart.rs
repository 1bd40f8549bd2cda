//! The journal's file over the end of the process, and every way in which it cannot be used.

use std::io::Write as _;
use std::path::Path;

use http::Request;
use ojs_testbed::{Fault, FaultAnswer, Gate, When};

use super::{OWN, newest_in, outcomes};
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
    assert_eq!(shown["outcomes"][0]["state"], "unknown");
    gate.open();
    assert_eq!(newest_in(&second.client, "stored").await["job_id"], id);
    assert_eq!(stage.regions[0].jobs().iter().map(|job| job.stored).collect::<Vec<_>>(), [1]);
    assert!(stage.regions[1].jobs().is_empty());
    drop(second);
    // Killed before that was on disk, it is found out again; behind that, it is no outcome of the next process.
    let third = run(&stage.config).await;
    eventually("no outcome is unknown", async || {
        let shown = outcomes(&third.client).await;
        shown["durable"] == true && shown["outcomes"].as_array().unwrap().iter().all(|it| it["state"] == "stored")
    })
    .await;
    assert_eq!(stage.regions[0].jobs().iter().map(|job| job.stored).collect::<Vec<_>>(), [1]);
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
        |record: &ojs_testbed::Record| record.requests_to("/ojs/v1/jobs").iter().filter(|it| it.complete).count();
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

#[tokio::test]
async fn what_is_known_of_earlier_calls_does_not_speak_for_one_that_breaks_off() {
    for refused in [true, false] {
        let stage = stage("{dir}/journal").await;
        let keyed = || Request::post("/ojs/v1/jobs").header("idempotency-key", "k");
        let [here, there] = [0, 1].map(|place| stage.regions[place].faults());
        let answer = |status, code| Fault::Answer { answer: FaultAnswer::error_document(status, code), store: false };
        let first = run(&stage.config).await;
        here.add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
        if refused {
            // Absent in the first region, and refused by the second one.
            there.add(When::enqueue().next(1), answer(http::StatusCode::TOO_MANY_REQUESTS, "rate_limited"));
        } else {
            // Unknown, and found to be absent when it is repeated.
            here.add(When::path("/ojs/v1/jobs/"), answer(http::StatusCode::INTERNAL_SERVER_ERROR, "internal_error"));
        }
        let ended = first.client.send(keyed(), own("")).await;
        assert_eq!(ended.status, if refused { 429 } else { 500 }, "{ended:?}");
        // Repeated, it is on its way into the second region when the process is killed.
        let (gate, before) = (Gate::new(), received(stage.regions[1].record()));
        here.clear();
        here.add(When::enqueue().next(1), answer(http::StatusCode::SERVICE_UNAVAILABLE, "backend_error"));
        there.add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
        let client = first.client;
        let broken = tokio::spawn(async move { client.try_send(keyed(), own("")).await.is_err() });
        stage.regions[1].record().wait_for(|record| received(record) == before + 1).await;
        drop(first);
        assert!(broken.await.unwrap());
        gate.open();
        eventually("it is stored there", async || times(&stage, 1) == 1).await;
        let second = run(&stage.config).await;
        let again = second.client.send(keyed(), own("")).await;
        let replayed = again.header("ojs-federation-replayed");
        assert_eq!((again.status.as_u16(), replayed), (201, Some("true")), "{again:?}");
        assert_eq!((times(&stage, 0), times(&stage, 1)), (0, 1));
    }
}

fn own(pin: &str) -> String {
    let meta = if pin.is_empty() { String::new() } else { format!(r#","meta":{{"ojs.federation.region":"{pin}"}}"#) };
    format!(r#"{{"id":"{OWN}","type":"email.send","args":["own"]{meta}}}"#)
}

/// How many enqueues a region has received whole.
fn received(record: &ojs_testbed::Record) -> usize {
    let whole = |it: &&ojs_testbed::Recorded| it.complete && it.method == http::Method::POST;
    record.requests_to("/ojs/v1/jobs").iter().filter(whole).count()
}

fn times(stage: &Stage, place: usize) -> u32 {
    stage.regions[place].jobs().job(OWN).map_or(0, |job| job.stored)
}

#[tokio::test]
async fn a_job_that_was_on_its_way_when_the_process_died_is_asked_for_where_it_was_going() {
    for stored in [false, true] {
        let stage = stage("{dir}/journal").await;
        let first = run(&stage.config).await;
        let gate = Gate::new();
        stage.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
        stage.regions[1].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
        let client = first.client;
        let broken =
            tokio::spawn(async move { client.try_send(Request::post("/ojs/v1/jobs"), own("")).await.is_err() });
        stage.regions[1].record().wait_for(|record| received(record) == 1).await;
        drop(first);
        assert!(broken.await.unwrap());
        if stored {
            gate.open();
            eventually("the job is stored", async || times(&stage, 1) == 1).await;
        }
        let second = run(&stage.config).await;
        let again = second.client.enqueue(own("")).await;
        let is_replay = again.header("ojs-federation-replayed") == Some("true");
        assert_eq!((again.status.as_u16(), is_replay), (201, stored), "{again:?}");
        assert_eq!([times(&stage, 0), times(&stage, 1)], if stored { [0, 1] } else { [1, 0] });
    }
}

#[tokio::test]
async fn a_call_that_broke_off_is_asked_for_only_where_it_may_be_and_what_is_no_word_of_a_region_proves_nothing() {
    let stage = stage("{dir}/journal").await;
    let keyed = || Request::post("/ojs/v1/jobs").header("idempotency-key", "k");
    let first = run(&stage.config).await;
    stage.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: Gate::new() });
    let client = first.client;
    let broken = tokio::spawn(async move { client.try_send(keyed(), own("us-east-1")).await.is_err() });
    stage.regions[0].record().wait_for(|record| received(record) == 1).await;
    drop(first);
    assert!(broken.await.unwrap());
    let second = run(&stage.config).await;
    for answer in [
        FaultAnswer::error_document(http::StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
        FaultAnswer::error_document(http::StatusCode::FORBIDDEN, "forbidden"),
        FaultAnswer::balancer(http::StatusCode::NOT_FOUND),
    ] {
        let asked = When::path("/ojs/v1/jobs/").method(http::Method::GET);
        stage.regions[0].faults().add(asked, Fault::Answer { answer, store: false });
        let again = second.client.send(keyed(), own("us-east-1")).await;
        // With its key it may be repeated: nothing was sent this time.
        assert_eq!((again.status.as_u16(), again.reason().as_str()), (503, "owner_unavailable"), "{again:?}");
        stage.regions[0].faults().clear();
    }
    let again = second.client.send(keyed(), own("us-east-1")).await;
    assert_eq!((again.status.as_u16(), again.header("ojs-federation-replayed")), (201, None), "{again:?}");
    assert_eq!((times(&stage, 0), received(stage.regions[0].record())), (1, 2));
    assert!(!stage.regions[1].record().contains(OWN.as_bytes()), "nothing of a pinned job is seen elsewhere");
}

#[tokio::test]
async fn a_journal_of_an_older_version_is_moved_aside_and_routing_goes_on() {
    let stage = stage("{dir}/journal").await;
    let older = "CREATE TABLE unknown (a); PRAGMA application_id=1330271046; PRAGMA user_version=1";
    rusqlite::Connection::open(stage.files.path().join("journal")).unwrap().execute_batch(older).unwrap();
    let sidecar = run(&stage.config).await;
    sidecar.wait_for_line("reason=\"older\"").await;
    assert_eq!(sidecar.client.enqueue(job("a")).await.status, 201);
    assert_eq!(outcomes(&sidecar.client).await["durable"], true);
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

#[tokio::test]
async fn of_two_copies_that_a_killed_process_has_left_the_one_that_waits_is_cancelled() {
    let stage = stage("{dir}/journal").await;
    let [here, there] = [&stage.regions[0], &stage.regions[1]];
    let gate = Gate::new();
    here.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let first = run(&stage.config).await;
    let client = first.client;
    let call = tokio::spawn(async move { client.enqueue(job("a")).await });
    let sent = |record: &ojs_testbed::Record| record.requests_to("/ojs/v1/jobs").iter().any(|it| it.complete);
    here.record().wait_for(sent).await;
    here.cut_connections().await;
    let answer = call.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
    drop(first);
    gate.open();
    eventually("the late write", async || !here.jobs().is_empty()).await;
    // A worker takes the late copy, and the other one still waits.
    let journal = format!("journal.path={}/another", stage.files.path().to_str().unwrap());
    let worker = Process::run(&stage.config, &["--set", &journal, "--set", LOG]).await;
    let fetched = worker.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"count":1}"#).await;
    assert_eq!(fetched.json()["jobs"][0]["id"], here.jobs()[0].id, "{fetched:?}");
    drop(worker);
    let second = run(&stage.config).await;
    assert_eq!(newest_in(&second.client, "stored").await["cancelled_in"], "eu-west-1");
    assert_eq!((here.jobs()[0].state.as_str(), there.jobs()[0].state.as_str()), ("active", "cancelled"));
}

/// A process is killed while a job with the client's own id, and without a key, is on its way into the local region; the gate stores it.
async fn killed_on_its_way(stage: &Stage) -> Gate {
    let gate = Gate::new();
    stage.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let first = run(&stage.config).await;
    let client = first.client;
    let broken = tokio::spawn(async move { client.try_send(Request::post("/ojs/v1/jobs"), own("")).await.is_err() });
    stage.regions[0].record().wait_for(|record| received(record) == 1).await;
    drop(first);
    assert!(broken.await.unwrap());
    gate
}

#[tokio::test]
async fn an_id_that_is_repeated_after_a_kill_goes_nowhere_else_while_its_region_is_down() {
    let stage = stage("{dir}/journal").await;
    let gate = killed_on_its_way(&stage).await;
    stage.regions[0].stop().await;
    let second = run(&stage.config).await;
    let again = second.client.enqueue(own("")).await;
    assert_eq!((again.status.as_u16(), again.reason().as_str()), (503, "owner_unavailable"), "{again:?}");
    assert_eq!(again.json()["error"]["details"]["region"], "us-east-1");
    assert_eq!(outcomes(&second.client).await["outcomes"][0]["job_id"], OWN);
    gate.open();
    eventually("the first write lands", async || times(&stage, 0) == 1).await;
    stage.regions[0].resume().await.unwrap();
    let mut again = second.client.enqueue(own("")).await;
    eventually("its region is asked", async || {
        again = second.client.enqueue(own("")).await;
        again.status == 201
    })
    .await;
    assert_eq!((again.header("ojs-federation-replayed"), again.region()), (Some("true"), "us-east-1"), "{again:?}");
    assert_eq!([times(&stage, 0), times(&stage, 1)], [1, 0]);
    assert!(!stage.regions[1].record().contains(OWN.as_bytes()), "nothing of it was sent elsewhere");
}

#[tokio::test]
async fn an_id_that_is_repeated_elsewhere_after_a_kill_is_there_once_when_the_first_write_lands() {
    let stage = stage("{dir}/journal").await;
    let [here, there] = [&stage.regions[0], &stage.regions[1]];
    let gate = killed_on_its_way(&stage).await;
    // Its region has nothing of it yet, and takes no job now.
    let busy = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    here.faults().add(When::enqueue(), Fault::Answer { answer: busy, store: false });
    let second = run(&stage.config).await;
    let again = second.client.enqueue(own("")).await;
    let replayed = again.header("ojs-federation-replayed");
    assert_eq!((again.status.as_u16(), again.region(), replayed), (201, "eu-west-1", None), "{again:?}");
    assert_eq!(newest_in(&second.client, "watched").await["job_id"], OWN);
    // Killed, so that the next one asks at once.
    drop(second);
    gate.open();
    eventually("the first write lands", async || times(&stage, 0) == 1).await;
    let third = run(&stage.config).await;
    let shown = newest_in(&third.client, "stored").await;
    assert_eq!((&shown["region"], &shown["cancelled_in"]), (&"eu-west-1".into(), &"us-east-1".into()), "{shown}");
    assert_eq!((here.jobs()[0].state.as_str(), there.jobs()[0].state.as_str()), ("cancelled", "available"));
    assert_eq!([times(&stage, 0), times(&stage, 1)], [1, 1]);
}
