//! What a client is told while nothing can be kept, and what a disk that cannot be written still holds.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use http::Request;

use super::{OWN, is_replay, keyed, outcomes, quiet};
use crate::support::{Answer, Federation, Process, Setup, Stage, eventually, job};

const DURABLE: &str = "ojs-federation-durable";

fn own() -> String {
    format!(r#"{{"id":"{OWN}","type":"email.send","args":["own"]}}"#)
}

async fn with(journal: &str) -> Federation {
    quiet().yaml(&format!("journal: {journal}")).start().await
}

/// A call with a key, one with an id of its own, and one with neither.
async fn calls(federation: &Federation) -> [Answer; 3] {
    let client = &federation.client;
    [keyed(*client, "k", job("a")).await, client.enqueue(own()).await, client.enqueue(job("b")).await]
}

#[tokio::test]
async fn calls_that_may_be_repeated_are_refused_while_a_required_journal_cannot_be_written() {
    // Nobody can make a file here, whoever runs the test.
    let federation = with("{ path: /proc/journal, required: true }").await;
    let [by_key, by_id, nameless] = calls(&federation).await;
    for refused in [by_key, by_id] {
        refused.check_error(503, "backend_error", "journal_unavailable");
        refused.check_retry_after(1);
    }
    assert_eq!((nameless.status.as_u16(), nameless.header(DURABLE)), (201, None), "{nameless:?}");
    let jobs: usize = federation.regions.iter().map(|region| region.jobs().len()).sum();
    assert_eq!(jobs, 1, "nothing else was sent");
    assert_eq!(outcomes(&federation.client).await["outcomes"].as_array().unwrap().len(), 0, "and nothing is left");
    assert_eq!(federation.metric(r#"refusals_total{reason="journal_unavailable",region="none"}"#).await, 2.0);
}

#[tokio::test]
async fn calls_that_may_be_repeated_are_told_what_a_restart_forgets() {
    for (journal, expected) in [
        ("{ path: /proc/journal }", [Some("false"), Some("false"), None]),
        // Whoever sends a key counts on its being kept; an id is the region's to judge.
        ("{}", [Some("false"), None, None]),
    ] {
        let federation = with(journal).await;
        for is_again in [false, true] {
            let answers = calls(&federation).await;
            assert_eq!(answers.each_ref().map(|answer| answer.header(DURABLE)), expected, "{journal}");
            assert_eq!(is_replay(&answers[0]), is_again, "{journal}");
        }
    }
}

#[tokio::test]
async fn calls_whose_record_is_on_disk_say_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("journal");
    let federation = with(&format!("{{ path: {journal:?}, required: true }}")).await;
    for _ in 0..2 {
        let answers = calls(&federation).await;
        assert!(answers.iter().all(|answer| answer.status == 201 && answer.header(DURABLE).is_none()), "{answers:?}");
    }
    use std::os::unix::fs::PermissionsExt as _;
    for file in std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
}

#[tokio::test]
async fn a_key_outlives_a_wall_clock_that_jumps() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("journal");
    let federation = quiet().steered().yaml(&format!("journal: {{ path: {journal:?} }}")).start().await;
    let first = keyed(federation.client, "k", job("a")).await;
    let hour = 3_600_000;
    for by in [hour, 25 * hour, -25 * hour] {
        federation.jump(by);
        // The background looks for what is old.
        federation.advance(Duration::from_secs(61));
        let again = keyed(federation.client, "k", job("a")).await;
        assert_eq!((again.status.as_u16(), is_replay(&again), again.job_id()), (201, true, first.job_id()), "{by}");
    }
}

const LOG: &str = "log.level=info";

async fn stage() -> Stage {
    Setup::default().regions(2).stage().await
}

async fn run(under: &[&str], stage: &Stage, journal: &Path) -> Process {
    let journal = format!("journal.path={}", journal.display());
    Process::run_under(under, &stage.config, &["--set", &journal, "--set", LOG]).await
}

async fn by_key(process: &Process, key: &str) -> Answer {
    process.client.send(Request::post("/ojs/v1/jobs").header("idempotency-key", key), job(key)).await
}

/// Keys that are on disk when their process is killed are recognised by one that can only read them, under `script`, and by the next one
/// that can write again.
async fn check_still_read(script: impl Fn(&Path) -> String, words: &str) {
    let stage = stage().await;
    let folder = stage.files.path().join("disk");
    std::fs::create_dir(&folder).unwrap();
    let script = script(&folder);
    let arguments = ["-Urm", "sh", "-c", &script.replace("exec", "true")];
    if !std::process::Command::new("unshare").args(arguments).status().is_ok_and(|it| it.success()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no user namespaces here, so that no disk can be mounted");
        return;
    }
    let journal = folder.join("journal");
    let first = run(&[], &stage, &journal).await;
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        ids.push(by_key(&first, key).await.job_id());
    }
    // kill -9: most of it is in the log only.
    drop(first);
    let second = run(&["unshare", "-Urm", "sh", "-c", &script], &stage, &journal).await;
    second.wait_for_line(words).await;
    second.wait_for_line("what it holds is known").await;
    for (key, id) in ["a", "b", "c"].iter().zip(&ids) {
        let again = by_key(&second, key).await;
        assert_eq!((again.status.as_u16(), is_replay(&again), &again.job_id()), (201, true, id), "{again:?}");
        assert_eq!(again.header(DURABLE), Some("false"));
    }
    assert_eq!(
        (by_key(&second, "d").await.header(DURABLE), &outcomes(&second.client).await["durable"]),
        (Some("false"), &false.into())
    );
    drop(second);
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == "journal" || name == "journal-wal"), "nothing was moved: {names:?}");
    let third = run(&[], &stage, &journal).await;
    eventually("the journal is in its file", async || outcomes(&third.client).await["durable"] == true).await;
    for (key, id) in ["a", "b", "c"].iter().zip(&ids) {
        let again = by_key(&third, key).await;
        assert_eq!((is_replay(&again), &again.job_id(), again.header(DURABLE)), (true, id, None), "{again:?}");
    }
}

#[tokio::test]
async fn a_journal_on_a_disk_that_has_become_read_only_is_still_read() {
    let read_only = |disk: &Path| {
        let disk = disk.display();
        format!("mount --bind '{disk}' '{disk}' && mount -o remount,bind,ro '{disk}' && exec \"$0\" \"$@\"")
    };
    check_still_read(read_only, "durable=false").await;
}

#[tokio::test]
async fn a_journal_on_a_disk_that_is_full_at_the_start_is_still_read() {
    let full = |disk: &Path| {
        let disk = disk.display();
        // A copy on a disk of its own, of which nothing is left.
        format!(
            "cp -a '{disk}/.' '{disk}.copy' && mount -t tmpfs -o size=1m none '{disk}' && cp '{disk}.copy'/* '{disk}' ; \
             dd if=/dev/zero of='{disk}/fill' bs=4k 2>&1 | grep -q . && exec \"$0\" \"$@\""
        )
    };
    check_still_read(full, "reason=\"disk_full\"").await;
}
