//! The public conformance cases of levels 0 to 4 and of federation, run against a demo region and through the program.
//!
//! Every case runs six times, each time on fresh regions: in both dialects, against one region directly, through a sidecar in
//! front of three, and through one that keeps the queues in shards. Neither must make a difference. `docs/conformance.md` is the record; this test keeps it true.

#![allow(unreachable_pub, reason = "modules of one test binary")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod client;
mod federation;
mod hurried;
mod json_path;
mod matcher;
mod reasons;
mod report;
mod stage;
mod steps;
mod suite;
mod template;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use report::{Outcomes, Report};
use stage::{Passage, Stage, Way};
use suite::{Case, Form};

/// How many cases run at once: each has up to three regions and a sidecar, with threads of their own.
const AT_ONCE: usize = 8;

/// How much of the cases must pass directly in the default dialect, in percent.
const PASS_PERCENT: usize = 95;

/// Why a case does not pass: the step, and what of it did not hold, without anything that differs from run to run.
type Broken = String;

/// Runs a case; the second value: whether jobs of it were in shards at the end.
async fn run(case: &Case, way: Way) -> (Result<(), Broken>, bool) {
    let stage = Stage::set(way, case).await;
    let outcome = match case.form {
        Form::Steps => steps::run(&case.document, &stage).await,
        Form::Federation => federation::run(&case.document, stage.client()).await,
    };
    (outcome, stage.has_jobs_in_shards())
}

async fn run_all(cases: Vec<Case>) -> Vec<Outcomes> {
    let cases: Vec<Arc<Case>> = cases.into_iter().map(Arc::new).collect();
    let order = (0..cases.len()).flat_map(|place| Way::ALL.into_iter().map(move |way| (place, way)));
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (place, way) in order {
        let (case, permits) = (Arc::clone(&cases[place]), Arc::clone(&permits));
        running.spawn(async move {
            let _permit = permits.acquire_owned().await.unwrap();
            (place, way, run(&case, way).await)
        });
    }
    let mut results: Vec<Outcomes> = cases.iter().map(|case| Outcomes::of(&case.name)).collect();
    while let Some(done) = running.join_next().await {
        let (place, way, (outcome, in_shards)) = done.unwrap();
        assert!(!in_shards || way.passage == Passage::Shards, "{} {way:?}", cases[place].name);
        results[place].set(way, outcome, in_shards);
    }
    results
}

#[tokio::test]
async fn every_case_behaves_through_the_sidecar_as_it_does_at_a_region() {
    let Some(cases) = suite::load() else {
        suite::say_skipped();
        return;
    };
    let report = Report(run_all(cases).await);
    assert!(report.differences().is_empty(), "the sidecar makes a difference:\n{}", report.differences().join("\n"));
    let (passed, all) = report.passed_directly();
    let sharded = report.in_shards();
    assert!(sharded * 2 > all, "only {sharded} of {all} cases had jobs in shards");
    assert!(
        passed * 100 >= all * PASS_PERCENT,
        "only {passed} of {all} cases pass directly:\n{}",
        report.failures().join("\n")
    );
    let unexplained = report.unexplained();
    assert!(unexplained.is_empty(), "mend tests/conformance/reasons.rs:\n{}", unexplained.join("\n"));
    report.keep();
}
