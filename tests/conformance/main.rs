//! The public conformance cases of levels 0 to 4 and of federation, run against a demo region and through the program.
//!
//! Every case runs four times, each time on fresh regions: in both dialects, against one region directly and through a sidecar
//! in front of three. The sidecar must make no difference. `docs/conformance.md` is the record; this test keeps it true.

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

use report::{Report, Result4};
use stage::{Stage, Way};
use suite::{Case, Form};

/// How many cases run at once: each has up to three regions and a sidecar, with threads of their own.
const AT_ONCE: usize = 8;

/// How much of the cases must pass directly in the default dialect, in percent.
const PASS_PERCENT: usize = 95;

/// Why a case does not pass: the step, and what of it did not hold, without anything that differs from run to run.
type Broken = String;

async fn run(case: &Case, way: Way) -> Result<(), Broken> {
    let stage = Stage::set(way).await;
    match case.form {
        Form::Steps => steps::run(&case.document, &stage).await,
        Form::Federation => federation::run(&case.document, stage.client()).await,
    }
}

async fn run_all(cases: Vec<Case>) -> Vec<Result4> {
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
    let mut results: Vec<Result4> = cases.iter().map(|case| Result4::of(&case.name)).collect();
    while let Some(done) = running.join_next().await {
        let (place, way, outcome) = done.unwrap();
        results[place].set(way, outcome);
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
    assert!(
        passed * 100 >= all * PASS_PERCENT,
        "only {passed} of {all} cases pass directly:\n{}",
        report.failures().join("\n")
    );
    let unexplained = report.unexplained();
    assert!(unexplained.is_empty(), "mend tests/conformance/reasons.rs:\n{}", unexplained.join("\n"));
    report.keep();
}
