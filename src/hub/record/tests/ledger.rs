//! The ledger in the record.

use super::super::ledger::{LedgerAppend, LedgerJob, LedgerName, LedgerQuery, LedgerRow};
use super::*;

fn named(job: &str, name: &str) -> LedgerName {
    LedgerName { job_id: job.to_owned(), region: "eu".to_owned(), name: name.to_owned() }
}

/// One row of a job of a tenant.
fn appended(change: u64, day: u64, number: u64, job: &str) -> LedgerAppend {
    let name = named(job, "created 0");
    let row = LedgerRow { day, number, name, leaf: vec![7; 32], line: Some(format!("{job} secret")), of_job: None };
    let job = LedgerJob {
        job_id: job.to_owned(),
        region: "eu".to_owned(),
        tenant: Some("acme".to_owned()),
        job_type: Some("t".to_owned()),
        is_bound: false,
        is_waiting: true,
        enqueued_ms: number,
        learned_ms: day,
        document: "{}".to_owned(),
    };
    LedgerAppend { change, day, from: number, rows: vec![row], jobs: vec![job], erased: Vec::new() }
}

#[tokio::test]
async fn rows_are_added_behind_the_last_one_by_the_hub_that_has_read_it() {
    let record = Record::open(&at(None)).unwrap();
    let add = async |append: LedgerAppend| record.append_ledger(append).await.unwrap();
    assert_eq!(add(appended(0, 5, 0, "a")).await, Kept::Kept);
    assert_eq!(add(appended(0, 5, 1, "b")).await, Kept::Behind, "another hub has added a row since");
    assert_eq!(add(appended(0, 6, 0, "b")).await, Kept::Behind, "also where that was on another day");
    assert_eq!(add(appended(1, 5, 2, "b")).await, Kept::Behind, "no number is left out");
    let state = record.ledger_state(5, vec![named("a", "created 0"), named("b", "created 0")]).await.unwrap();
    assert_eq!((state.change, state.rows, state.closed), (1, 1, 0));
    assert_eq!((state.known, state.jobs.len()), (vec![named("a", "created 0")], 1));
    assert_eq!(add(appended(1, 5, 1, "b")).await, Kept::Kept);
    assert_eq!(record.close_ledger_day(5, 1, String::new()).await.unwrap(), Kept::Behind, "it has two rows");
    assert_eq!(record.close_ledger_day(5, 2, "head".to_owned()).await.unwrap(), Kept::Kept);
    assert_eq!(add(appended(2, 5, 2, "c")).await, Kept::Behind, "the day is closed");
    assert_eq!(record.ledger_state(6, Vec::new()).await.unwrap().closed, 5);
    let days = record.ledger_days(0, 9).await.unwrap();
    assert_eq!((days.len(), days[0].rows, days[0].head.as_deref()), (1, 2, Some("head")));
}

#[tokio::test]
async fn an_erased_tenant_leaves_leaves_and_marks_and_old_days_go_whole() {
    let record = Record::open(&at(None)).unwrap();
    for number in 0..3 {
        let append = appended(number, 5, number, &format!("job-{number}"));
        assert_eq!(record.append_ledger(append).await.unwrap(), Kept::Kept);
    }
    assert_eq!(record.ledger_depth().await.unwrap(), [(Some("t".to_owned()), Some("acme".to_owned()), 3)]);
    assert_eq!(record.forget_ledger("other".to_owned(), "mark".to_owned()).await.unwrap(), (0, 0));
    assert_eq!(record.forget_ledger("acme".to_owned(), "mark".to_owned()).await.unwrap(), (3, 3));
    let rows = record.ledger_rows(5, 1, 10).await.unwrap();
    assert_eq!(rows.iter().map(|it| (it.number, it.line.is_some())).collect::<Vec<_>>(), [(1, false), (2, false)]);
    assert_eq!(record.ledger_leaves(5, 0, 10).await.unwrap(), vec![vec![7; 32]; 3]);
    let query = LedgerQuery { to_ms: 9, max: 9, ..LedgerQuery::default() };
    assert!(record.ledger_jobs(query).await.unwrap().iter().all(|it| it.document == "mark" && it.tenant.is_none()));
    assert!(record.ledger_depth().await.unwrap().is_empty());
    assert_eq!(record.prune_ledger(5, 0).await.unwrap(), 0, "the day is not over");
    assert_eq!(record.prune_ledger(6, 6).await.unwrap(), 6);
    assert_eq!(record.prune_ledger(6, 6).await.unwrap(), 0);
    let day = record.ledger_days(5, 5).await.unwrap().remove(0);
    assert_eq!((day.rows, day.is_dropped), (3, true), "its number of rows stays");
}

#[tokio::test]
async fn pages_go_on_behind_a_place_the_newest_first() {
    let record = Record::open(&at(None)).unwrap();
    for number in 0..5 {
        record.append_ledger(appended(number, 5, number, &format!("job-{}", number % 5))).await.unwrap();
    }
    let (mut found, mut query) = (Vec::new(), LedgerQuery { from_ms: 1, to_ms: 4, max: 2, ..LedgerQuery::default() });
    loop {
        let part = record.ledger_jobs(query.clone()).await.unwrap();
        found.extend(part.iter().map(|it| it.enqueued_ms));
        let Some(last) = part.last().filter(|_| part.len() == 2) else { break };
        query.behind = Some((last.enqueued_ms, last.job_id.clone(), last.region.clone()));
    }
    assert_eq!(found, [3, 2, 1]);
    let none = LedgerQuery { tenant: Some("x".to_owned()), to_ms: 9, max: 9, ..LedgerQuery::default() };
    assert!(record.ledger_jobs(none).await.unwrap().is_empty());
    let copies = record.ledger_job("job-2".to_owned()).await.unwrap();
    let history = record.ledger_history(("job-2".to_owned(), "eu".to_owned()), 9).await.unwrap();
    assert_eq!(
        (copies.len(), history.len(), history[0].of_job.clone()),
        (1, 1, Some((Some("acme".to_owned()), false)))
    );
}
