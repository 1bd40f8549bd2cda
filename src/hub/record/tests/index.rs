//! The index of jobs in the record.

use super::*;
use crate::base::RegionId;
use crate::replica::{ChangeKind, JobFacts, Observer};

pub(super) fn change(job: &str, kind: ChangeKind, lease_ms: u64, at_ms: u64) -> Change {
    Change {
        job_id: job.to_owned(),
        region: RegionId::parse("eu").unwrap(),
        kind,
        lease_ms,
        at_ms,
        federation_id: None,
        state: None,
        replicated_from: None,
        job: None,
        observed_by: None,
    }
}

fn changes(found: Vec<IndexedChange>) -> Vec<Change> {
    found.into_iter().map(|it| it.change).collect()
}

#[tokio::test]
async fn a_fact_is_kept_once_and_joined_as_its_reports_say() {
    let record = Record::open(&at(None)).unwrap();
    let facts = |queue: &str| Some(JobFacts { queue: Some(queue.to_owned()), ..JobFacts::default() });
    let id = |id: &str| Some(id.to_owned());
    let created = Change { federation_id: id("f"), ..change("a", ChangeKind::Created, 0, 7) };
    let reports = [
        Change { at_ms: 9, job: facts("q"), ..created.clone() },
        Change { at_ms: 5, state: id("available"), ..created.clone() },
        Change { at_ms: 6, job: facts("p"), federation_id: None, ..created.clone() },
        change("a", ChangeKind::Leased, 20, 20),
        change("a", ChangeKind::Extended, 20, 30),
        change("a", ChangeKind::Extended, 20, 25),
    ];
    let expected = [
        Change { at_ms: 5, state: id("available"), job: facts("q"), ..created },
        change("a", ChangeKind::Leased, 20, 20),
        change("a", ChangeKind::Extended, 20, 30),
    ];
    for turn in 0..reports.len() {
        let mut reports = reports.to_vec();
        reports.rotate_left(turn);
        for report in reports {
            record.save_changes("us", vec![report], None).await.unwrap();
        }
        for wanted in [Wanted::Job("a".to_owned()), Wanted::Federation("f".to_owned())] {
            let mut found = changes(record.find_changes(wanted).await.unwrap());
            found.sort_by_key(|it| it.kind);
            assert_eq!(found, expected, "after turn {turn}");
        }
    }
    assert_eq!(record.find_changes(Wanted::Federation("g".to_owned())).await.unwrap(), []);
}

#[tokio::test]
async fn a_fact_of_an_event_is_that_of_a_report_once_a_sidecar_has_said_the_same() {
    let record = Record::open(&at(None)).unwrap();
    let of = |observed_by| Change { observed_by, ..change("a", ChangeKind::Leased, 20, 20) };
    let (event, report) = (of(Some(Observer::Events)), of(None));
    for (saved, kept) in [(&event, &event), (&event, &event), (&report, &report), (&event, &report)] {
        record.save_changes("us", vec![saved.clone()], None).await.unwrap();
        let found = record.find_changes(Wanted::Job("a".to_owned())).await.unwrap();
        assert_eq!(changes(found), std::slice::from_ref(kept));
    }
    // That a sidecar has said it, too, is news for other hubs.
    let marks = async || record.changes_behind("us", IndexPlace::default(), 9).await.unwrap()[0].mark;
    let before = marks().await;
    record.save_changes("us", vec![event], None).await.unwrap();
    assert_eq!(marks().await, before, "nothing has changed");
    record.save_changes("us", vec![change("b", ChangeKind::Leased, 20, 20)], None).await.unwrap();
    let last = record.changes_behind("us", IndexPlace::default(), 9).await.unwrap().pop().unwrap();
    assert_eq!((last.change.job_id.as_str(), last.mark), ("b", before + 1), "a fact that changes nothing uses no mark");
}

#[tokio::test]
async fn a_record_joins_failures_as_facts_are_joined() {
    let of = |state: &str, at_ms, observed_by| Change {
        state: Some(state.to_owned()),
        observed_by,
        ..change("a", ChangeKind::Failed, 20, at_ms)
    };
    let events = Some(Observer::Events);
    for (first, second) in [
        (of("retryable", 30, None), of("discarded", 40, events)),
        (of("discarded", 40, events), of("retryable", 30, None)),
        (of("discarded", 30, events), of("retryable", 40, events)),
        (of("retryable", 30, events), of("discarded", 20, events)),
    ] {
        let record = Record::open(&at(None)).unwrap();
        record.save_changes("us", vec![first.clone()], None).await.unwrap();
        record.save_changes("us", vec![second.clone()], None).await.unwrap();
        let found = changes(record.find_changes(Wanted::Job("a".to_owned())).await.unwrap());
        assert_eq!(found, [first.joined(second)]);
        assert_eq!(found[0].state.as_deref(), Some("discarded"));
    }
}

#[tokio::test]
async fn facts_about_several_jobs_are_those_about_each() {
    let record = Record::open(&at(None)).unwrap();
    let tracked =
        |job: &str, id: &str| Change { federation_id: Some(id.to_owned()), ..change(job, ChangeKind::Created, 0, 5) };
    let facts = vec![
        tracked("a", "f"),
        change("a", ChangeKind::Leased, 7, 7),
        tracked("b", "g"),
        change("b", ChangeKind::Leased, 8, 8),
        change("c", ChangeKind::Created, 0, 5),
        tracked("d", "h"),
    ];
    record.save_changes("us", facts, None).await.unwrap();
    let ids = |ids: &[&str]| ids.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let found = async |jobs: &[&str], tracked: &[&str]| {
        let found = changes(record.find_changes_of(ids(jobs), ids(tracked)).await.unwrap());
        let mut names: Vec<_> = found.into_iter().map(|it| (it.job_id, it.lease_ms)).collect();
        names.sort_unstable();
        names
    };
    let fact = |job: &str, lease_ms: u64| (job.to_owned(), lease_ms);
    assert_eq!(
        found(&["c", "a", "none"], &["f", "g"]).await,
        [fact("a", 0), fact("a", 7), fact("b", 0), fact("b", 8), fact("c", 0)]
    );
    assert_eq!(found(&[], &[]).await, []);
}

#[tokio::test]
async fn a_reader_gets_each_change_of_an_origin_behind_its_place_and_again_when_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let record = Record::open(&at(Some(&path))).unwrap();
    let all = |from: u64, to: u64| (from..to).map(|at| change(&format!("{at}"), ChangeKind::Created, 0, at)).collect();
    record.save_changes("us", all(0, 5), None).await.unwrap();
    record
        .save_changes("eu", all(5, 6), Some(IndexPlace { epoch: "e".to_owned(), written: 3, mark: 4 }))
        .await
        .unwrap();
    let epoch = record.index_epoch().await.unwrap();
    let behind = async |written: u64, mark: u64, max| {
        let place = IndexPlace { epoch: epoch.clone(), written, mark };
        record.changes_behind("us", place, max).await.unwrap()
    };
    let first = behind(0, 0, 3).await;
    assert_eq!(changes(first.clone()), all(0, 3));
    let rest = behind(first[2].written, first[2].mark, 9).await;
    assert_eq!(changes(rest.clone()), all(3, 5), "and none that another hub has told");
    record.save_changes("us", all(1, 2), None).await.unwrap();
    let last = &rest[1];
    assert_eq!(behind(last.written, last.mark, 9).await, [], "a repetition changes nothing");
    let told = Change { state: Some("x".to_owned()), ..change("1", ChangeKind::Created, 0, 1) };
    record.save_changes("us", vec![told.clone()], None).await.unwrap();
    assert_eq!(changes(behind(last.written, last.mark, 9).await), [told]);
    let replica = Change { replicated_from: Some("ap".to_owned()), ..change("r", ChangeKind::Created, 0, 1) };
    record.save_changes("us", vec![replica, change("r", ChangeKind::Completed, 0, 2)], None).await.unwrap();
    let of_replica = behind(last.written, last.mark, 9).await;
    let are_replicas: Vec<bool> = of_replica.iter().map(|it| it.is_replica).collect();
    assert_eq!(are_replicas, [false, true, true], "also the fact that does not say so");
    assert_eq!(
        (record.prune_changes(0, 3).await.unwrap(), behind(0, 0, 9).await.len()),
        (5, 3),
        "the oldest are dropped"
    );
    record.prune_changes(u64::MAX >> 1, 4).await.unwrap();
    record.save_changes("us", all(8, 9), None).await.unwrap();
    assert_eq!(changes(behind(last.written, last.mark, 9).await), all(8, 9), "no place is given a second time");
    drop(record);
    // The thread of the first one closes the file in its own time.
    let record = loop {
        match Record::open(&at(Some(&path))) {
            Ok(record) => break record,
            Err(RecordError::Held) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(record.index_place("eu").await.unwrap(), IndexPlace { epoch: "e".to_owned(), written: 3, mark: 4 });
    assert_eq!(record.index_place("ap").await.unwrap(), IndexPlace::default());
    assert_eq!(record.index_epoch().await.unwrap(), epoch);
}
