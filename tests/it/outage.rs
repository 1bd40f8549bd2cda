//! A region dies under load: nobody fails who need not, and nothing is stored twice.

use std::collections::HashSet;

use ojs_testbed::{Fault, Gate, When};
use tokio::task::JoinSet;

use crate::support::{Answer, Federation, Setup, eventually, job};

const CALLS: usize = 64;

fn quiet(http2: bool) -> Setup {
    let setup = Setup::default().steered();
    if http2 { setup.http2() } else { setup }
}

/// So many calls at once; `name` tells them from others.
fn calls(federation: &Federation, name: &'static str) -> JoinSet<Answer> {
    let client = federation.client;
    (0..CALLS).map(|call| async move { client.enqueue(job(&format!("{name}-{call}"))).await }).collect()
}

/// Every accepted job is stored once in one region, under an id of its own; returns how many were accepted.
fn check_stored_once(federation: &Federation, answers: &[Answer]) -> usize {
    let stored: Vec<String> = answers.iter().filter(|answer| answer.status == 201).map(Answer::job_id).collect();
    for id in &stored {
        let found = federation.stored(id);
        assert!(matches!(found.as_slice(), [(_, 1)]), "{id}: {found:?}");
    }
    assert_eq!(stored.iter().collect::<HashSet<_>>().len(), stored.len());
    stored.len()
}

/// No job is in two regions, and none was submitted twice.
fn check_nothing_doubled(federation: &Federation) {
    let mut seen = HashSet::new();
    for region in &federation.regions {
        for job in region.jobs().iter() {
            assert_eq!(job.stored, 1, "{} in {}", job.id, region.id());
            assert!(seen.insert((job.args.clone(), job.id.clone())));
        }
    }
    let args: HashSet<_> = seen.iter().map(|(args, _)| args).collect();
    assert_eq!(args.len(), seen.len(), "a job was stored under two ids");
}

/// An unknown job was sent to the local region, which need not have read it, and to no other.
fn check_unknown(federation: &Federation, answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    let id = answer.json()["error"]["details"]["job_id"].as_str().unwrap().to_owned();
    assert!(matches!(federation.seen(&id).as_slice(), [] | [0]), "{id}: {:?}", federation.seen(&id));
}

#[tokio::test]
async fn calls_that_were_only_connecting_when_their_region_died_all_succeed_elsewhere() {
    for http2 in [false, true] {
        let federation = quiet(http2).start().await;
        federation.regions[0].faults().add(When::always(), Fault::Refuse);
        let answers = calls(&federation, "refused").join_all().await;
        assert_eq!(check_stored_once(&federation, &answers), CALLS);
        federation.regions[0].stop().await;
        let answers = calls(&federation, "stopped").join_all().await;
        assert_eq!(check_stored_once(&federation, &answers), CALLS);
        assert_eq!((federation.enqueues(0), federation.breaker(0)), (0, "open"));
        check_nothing_doubled(&federation);
    }
}

#[tokio::test]
async fn calls_that_were_written_when_their_region_died_are_unknown_and_never_doubled() {
    for http2 in [false, true] {
        let federation = quiet(http2).start().await;
        let region = &federation.regions[0];
        let gate = Gate::new();
        region.faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
        let written = calls(&federation, "written");
        let arrived = |requests: &[ojs_testbed::Recorded]| requests.iter().filter(|it| it.complete).count();
        region.record().wait_for(|record| arrived(&record.requests_to("/ojs/v1/jobs")) == CALLS).await;
        region.stop().await;
        let later = calls(&federation, "later").join_all().await;
        assert_eq!(check_stored_once(&federation, &later), CALLS);
        for answer in written.join_all().await {
            check_unknown(&federation, &answer);
        }
        gate.open();
        eventually("the dead region's last effects", async || region.jobs().len() == CALLS).await;
        check_nothing_doubled(&federation);
    }
}

#[tokio::test]
async fn a_region_that_dies_in_the_middle_of_a_crowd_doubles_and_loses_nothing() {
    for http2 in [false, true] {
        let federation = quiet(http2).start().await;
        let mut crowd = calls(&federation, "before");
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(crowd.join_next().await.unwrap().unwrap());
        }
        federation.regions[0].stop().await;
        answers.extend(crowd.join_all().await);
        answers.extend(calls(&federation, "after").join_all().await);
        let stored = check_stored_once(&federation, &answers);
        let unknown: Vec<_> = answers.iter().filter(|answer| answer.status != 201).collect();
        unknown.iter().for_each(|answer| check_unknown(&federation, answer));
        assert_eq!(stored + unknown.len(), 2 * CALLS);
        check_nothing_doubled(&federation);
    }
}

#[tokio::test]
async fn cuts_over_and_over_cost_no_job_and_double_none() {
    for http2 in [false, true] {
        let federation = quiet(http2)
            .yaml("circuit_breaker: { failure_threshold: 10000, failure_ratio: 2 }")
            .yaml("failover: { late_write_grace: 50ms, retry_budget: { floor: 1000 } }")
            .start()
            .await;
        let mut crowd = calls(&federation, "cut");
        let mut answers = Vec::new();
        while let Some(answer) = crowd.join_next().await {
            answers.push(answer.unwrap());
            federation.regions[0].cut_connections().await;
        }
        let stored = check_stored_once(&federation, &answers);
        let unknown: Vec<_> = answers.iter().filter(|answer| answer.status != 201).collect();
        unknown.iter().for_each(|answer| check_unknown(&federation, answer));
        assert_eq!(stored + unknown.len(), CALLS);
        check_nothing_doubled(&federation);
    }
}
