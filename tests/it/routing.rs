//! Which region a job lands in: the strategies, their sources and precedence, rules and drained regions.

mod rules;
mod strategies;
mod tenants;

use crate::support::{Answer, Federation, IDS};

/// A job with these members of `meta`.
fn job(meta: &str) -> String {
    format!(r#"{{"type":"email.send","args":[1],"meta":{{{meta}}}}}"#)
}

/// A job of this queue that asks for a strategy.
fn asking(strategy: &str, queue: &str) -> String {
    format!(
        r#"{{"type":"t","args":[],"meta":{{"ojs.federation.region_affinity":"{strategy}"}},"options":{{"queue":"{queue}"}}}}"#
    )
}

/// Enqueues, and checks that the region which the answer names stored the job.
async fn land(federation: &Federation, body: &str) -> Answer {
    let answer = federation.client.enqueue(body.to_owned()).await;
    assert_eq!(answer.status, 201, "{body}: {answer:?}");
    let place = IDS.iter().position(|id| *id == answer.region()).unwrap();
    let stored: Vec<bool> =
        federation.regions.iter().map(|region| region.jobs().job(&answer.job_id()).is_some()).collect();
    let expected: Vec<bool> = (0..federation.regions.len()).map(|at| at == place).collect();
    assert_eq!(stored, expected, "{body}: {answer:?}");
    answer
}

/// Enqueues a job and checks where it landed and by which strategy.
#[track_caller]
fn check(answer: &Answer, region: &str, strategy: &str) {
    assert_eq!((answer.region(), answer.header("ojs-federation-strategy")), (region, Some(strategy)), "{answer:?}");
}
