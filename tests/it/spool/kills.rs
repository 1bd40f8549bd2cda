//! kill -9 at every step: each job that was answered 202 is in its region once, in the order of its queue.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use ojs_testbed::{Fault, Gate, When};

use super::{Files, arguments, eventually, held, job, pinned, resume, run, setup, stop, stored_once};

#[tokio::test]
async fn jobs_outlive_the_process_and_drain_in_order() {
    let files = Files::new();
    let stage = setup(&files, "").stage().await;
    stop(&stage.regions).await;
    let first = run(&stage).await;
    for number in 0..5 {
        held(&first.client, job(&number.to_string())).await;
    }
    // kill -9.
    drop(first);
    let second = run(&stage).await;
    held(&second.client, job("5")).await;
    stage.regions[0].resume().await.unwrap();
    eventually("all are there", async || stage.regions[0].jobs().len() == 6).await;
    let expected: Vec<String> = (0..6).map(|number| format!(r#"["{number}"]"#)).collect();
    assert_eq!(arguments(&stage.regions[0]), expected);
    assert!(stored_once(&stage.regions, 6));
}

#[tokio::test]
async fn a_process_that_is_killed_while_a_job_is_on_its_way_looks_it_up_and_never_sends_it_twice() {
    for stored in [false, true] {
        let files = Files::new();
        let stage = setup(&files, "").stage().await;
        stop(&stage.regions).await;
        let first = run(&stage).await;
        held(&first.client, pinned("us-east-1", "a")).await;
        held(&first.client, pinned("us-east-1", "b")).await;
        // The region has the whole job; the process dies before its answer, or before the row is removed.
        let gate = Gate::new();
        let fault = if stored { Fault::CutMidResponse { after_bytes: 1 } } else { Fault::Hold { gate: gate.clone() } };
        stage.regions[0].faults().add(When::enqueue().next(1), fault);
        if stored {
            stage.regions[0].faults().add(When::lookup(), Fault::HangAfterBody { store: false });
        }
        resume(&stage.regions).await;
        let record = stage.regions[0].record();
        record.wait_for(|record| record.requests_to("/ojs/v1/jobs").iter().any(|it| it.complete)).await;
        drop(first);
        if stored {
            eventually("it is stored", async || stage.regions[0].jobs().len() == 1).await;
        }
        stage.regions[0].faults().clear();
        let _second = run(&stage).await;
        if !stored {
            gate.open();
        }
        eventually("both are there", async || stage.regions[0].jobs().len() == 2).await;
        assert!(stored_once(&stage.regions, 2), "stored before the kill: {stored}");
        assert_eq!(arguments(&stage.regions[0]), [r#"["a"]"#, r#"["b"]"#]);
        assert!(stage.regions[1].jobs().is_empty());
    }
}

#[tokio::test]
async fn kills_at_any_moment_of_a_drain_lose_and_double_nothing() {
    let files = Files::new();
    let stage = setup(&files, "").stage().await;
    stop(&stage.regions).await;
    let mut process = run(&stage).await;
    let count = 60;
    for number in 0..count {
        let queue = number % 3;
        let body = format!(
            r#"{{"type":"email.send","queue":"q{queue}","args":["{queue}-{number:03}"],"meta":{{"ojs.federation.region":"us-east-1"}}}}"#
        );
        held(&process.client, body).await;
    }
    stage.regions[0].resume().await.unwrap();
    let done = AtomicBool::new(false);
    let mut seen = 0;
    while !done.load(SeqCst) {
        let target = (seen + 7).min(count);
        eventually("some more are there", async || stage.regions[0].jobs().len() >= target).await;
        seen = stage.regions[0].jobs().len();
        done.store(seen >= count, SeqCst);
        // kill -9, somewhere between a send and the removal of its row.
        drop(process);
        process = run(&stage).await;
    }
    eventually("no row is left", async || super::shown(&process.admin).await["waiting"] == 0).await;
    assert!(stored_once(&stage.regions, count));
    for queue in 0..3 {
        let prefix = format!(r#"["{queue}-"#);
        let of_queue: Vec<String> =
            arguments(&stage.regions[0]).into_iter().filter(|args| args.starts_with(&prefix)).collect();
        assert!(of_queue.is_sorted() && of_queue.len() == count / 3, "{of_queue:?}");
    }
}
