//! The end of the process at every point at which its journal waits for the disk, and a disk that refuses from each of them on.
//!
//! `strace` brings both about in the program as it is.

use std::io::Write as _;
use std::process::Command;

use http::Request;

use super::quiet;
use crate::support::{Answer, Process, eventually, job};

const LOG: [&str; 2] = ["--set", "log.level=info"];
/// Keyed calls in a row; each waits for the disk more than once.
const CALLS: usize = 3;

/// Whether this machine lets us look into a process that we start.
fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-D", "-qq", "-o", "/dev/null", "true"]).status();
    let can = traced.is_ok_and(|status| status.success());
    if !can {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: strace is missing or may not trace; apt-get install strace runs this test"
        );
    }
    can
}

async fn call(sidecar: &Process, number: usize) -> Option<Answer> {
    let request = Request::post("/ojs/v1/jobs").header("idempotency-key", format!("key-{number}"));
    sidecar.client.try_send(request, job(&format!("call-{number}"))).await.ok()
}

/// What happens to every sync of the journal's thread from a turn on.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Killed,
    Refused,
}

/// Runs into the trouble at this turn, and holds that the next process keeps what clients were promised; false when there was none.
async fn strike(trouble: Trouble, turn: usize) -> bool {
    let stage = quiet().stage().await;
    let journal = format!("journal.path={}", stage.files.path().join("journal").display());
    let arguments = [LOG[0], LOG[1], "--set", &journal];
    let inject = match trouble {
        Trouble::Killed => format!("inject=fsync,fdatasync:signal=KILL:when={turn}"),
        Trouble::Refused => format!("inject=fsync,fdatasync:error=EIO:when={turn}+"),
    };
    let under = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject];
    let mut promised = Vec::new();
    if let Ok(sidecar) = Process::try_begin_under(&under, &stage.config, &arguments).await {
        for number in 0..CALLS {
            let Some(answer) = call(&sidecar, number).await else { break };
            assert_eq!(answer.status, 201, "{trouble:?} {turn} {answer:?} {:#?}", sidecar.log());
            if answer.header("ojs-federation-durable").is_none() {
                promised.push((number, answer.job_id()));
            }
        }
    }
    let next = Process::run(&stage.config, &arguments).await;
    for (number, id) in &promised {
        let answer = call(&next, *number).await.unwrap();
        assert_eq!((answer.status.as_u16(), &answer.job_id()), (201, id), "{trouble:?} {turn} {answer:?}");
    }
    for number in 0..CALLS {
        eventually("the call is taken", async || call(&next, number).await.unwrap().status == 201).await;
    }
    let stored: Vec<(String, u32)> = stage
        .regions
        .iter()
        .flat_map(|it| it.jobs().iter().map(|job| (job.id.clone(), job.stored)).collect::<Vec<_>>())
        .collect();
    assert!(stored.iter().all(|(_, times)| *times == 1), "{trouble:?} {turn} {stored:?}");
    // Where the disk refused and the client was told, another process knows nothing of the call.
    let expected = if matches!(trouble, Trouble::Killed) { CALLS } else { stored.len() };
    assert_eq!(stored.len(), expected, "{trouble:?} {turn} {promised:?} {stored:?}");
    promised.len() < CALLS
}

#[tokio::test]
async fn a_process_that_ends_wherever_its_journal_waits_for_the_disk_breaks_no_promise() {
    if !can_trace() {
        return;
    }
    for trouble in [Trouble::Killed, Trouble::Refused] {
        let mut turn = 1;
        while strike(trouble, turn).await {
            turn += 1;
        }
        assert!(turn > CALLS, "{trouble:?}: only {turn} turns");
    }
}
