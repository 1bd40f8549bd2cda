//! Conflicts in the record.

use super::index::change;
use super::*;
use crate::base::RegionId;
use crate::replica::ChangeKind;

fn created(region: &str, job: &str, federation_id: &str) -> Change {
    let region = RegionId::parse(region).unwrap();
    Change { region, federation_id: Some(federation_id.to_owned()), ..change(job, ChangeKind::Created, 0, 5) }
}

/// The ids whose time has come.
async fn due(record: &Record) -> Vec<String> {
    record.due_ids(10).await.unwrap().into_iter().map(|it| it.federation_id).collect()
}

/// Says when an id whose time has come is looked at again.
async fn put_off(record: &Record, id: &str, next: Next) {
    let due = record.due_ids(10).await.unwrap().into_iter().find(|it| it.federation_id == id).unwrap();
    record.put_off(due, next).await.unwrap();
}

/// The jobs with ids that are newly found among the facts from the EU.
async fn found(record: &Record, due_after_ms: u64) -> Vec<String> {
    let found = record.find_repeated("eu", "eu", due_after_ms, 100).await.unwrap();
    assert!(!found.has_more);
    found.new.into_iter().map(|(job, _)| job).collect()
}

#[tokio::test]
async fn a_repeated_tracking_id_is_found_once_and_is_looked_at_where_this_region_has_a_copy() {
    let record = Record::open(&at(None)).unwrap();
    let facts = [
        ("eu", "a", "one"),
        ("us", "b", "one"),
        ("eu", "c", "two"),
        ("eu", "d", "two"),
        ("ap", "e", "far"),
        ("us", "f", "far"),
    ];
    let facts = facts.map(|(region, job, id)| created(region, job, id)).to_vec();
    record.save_changes("eu", facts, None).await.unwrap();
    assert_eq!(found(&record, 0).await.len(), 2, "in several regions");
    assert!(found(&record, 0).await.is_empty(), "no fact is looked at twice");
    assert_eq!(due(&record).await, ["one"]);
    put_off(&record, "one", Next::OnFact).await;
    assert!(due(&record).await.is_empty() && !record.conflicts_of("one").await.unwrap().is_queued);
    record.save_changes("eu", vec![created("eu", "g", "one")], None).await.unwrap();
    assert!(found(&record, 0).await.is_empty(), "it is known");
    assert_eq!(due(&record).await, ["one"], "a further fact names it");
    put_off(&record, "one", Next::Never).await;
    record.save_changes("eu", vec![created("eu", "h", "one")], None).await.unwrap();
    assert!(found(&record, 0).await.is_empty() && due(&record).await.is_empty());
    assert!(record.conflicts_of("one").await.unwrap().is_crowd);
}

#[tokio::test]
async fn an_id_that_waits_keeps_its_place_and_is_dropped_with_its_age_unless_an_order_is_under_way() {
    let record = Record::open(&at(None)).unwrap();
    record.save_changes("eu", vec![created("eu", "a", "f"), created("us", "b", "f")], None).await.unwrap();
    assert_eq!(found(&record, 0).await.len(), 1);
    record.save_changes("eu", vec![created("eu", "c", "f")], None).await.unwrap();
    found(&record, 3_600_000).await;
    assert_eq!(due(&record).await, ["f"], "facts that go on coming do not put it off");
    put_off(&record, "f", Next::After(3_600_000)).await;
    assert!(due(&record).await.is_empty());
    record.prune_conflicts(3_600_000).await.unwrap();
    assert!(record.conflicts_of("f").await.unwrap().is_queued);
    record.save_conflict(ordered("a"), false).await.unwrap();
    let now_ms = async || record.take_conflicts("hub", 0).await.unwrap().unwrap();
    let began = now_ms().await;
    while now_ms().await <= began + 1 {}
    record.prune_conflicts(0).await.unwrap();
    assert!(record.conflicts_of("f").await.unwrap().is_queued);
    record.drop_order("a", "eu").await.unwrap();
    record.prune_conflicts(0).await.unwrap();
    assert!(!record.conflicts_of("f").await.unwrap().is_queued);
}

#[tokio::test]
async fn a_word_about_an_id_that_another_hub_has_put_off_changes_nothing() {
    let record = Record::open(&at(None)).unwrap();
    record.save_changes("eu", vec![created("eu", "a", "f"), created("us", "b", "f")], None).await.unwrap();
    found(&record, 0).await;
    let earlier = record.due_ids(10).await.unwrap().pop().unwrap();
    put_off(&record, "f", Next::After(3_600_000)).await;
    record.put_off(earlier, Next::Never).await.unwrap();
    let known = record.conflicts_of("f").await.unwrap();
    assert!(known.is_queued && !known.is_crowd);
}

#[tokio::test]
async fn more_ids_than_are_dropped_at_once_are_said_to_be_left() {
    let record = Record::open(&at(None)).unwrap();
    let count = u32::try_from(PRUNED_AT_ONCE).unwrap() + 1;
    let of =
        |region: &'static str| (0..count).map(move |at| created(region, &format!("{region}{at}"), &at.to_string()));
    record.save_changes("eu", of("eu").chain(of("us")).collect(), None).await.unwrap();
    while record.find_repeated("eu", "eu", 0, 1_000).await.unwrap().has_more {}
    let now_ms = async || record.take_conflicts("hub", 0).await.unwrap().unwrap();
    let began = now_ms().await;
    while now_ms().await <= began + 1 {}
    assert!(record.prune_conflicts(0).await.unwrap());
    assert_eq!(due(&record).await.len(), 1);
    assert!(!record.prune_conflicts(0).await.unwrap());
    assert!(due(&record).await.is_empty());
}

/// A job in the EU whose order to cancel it may be on its way.
fn ordered(job: &str) -> Conflict {
    Conflict {
        job_id: job.to_owned(),
        region: "eu".to_owned(),
        federation_id: "f".to_owned(),
        step: ConflictStep::Cancelling,
        why: None,
        winner: Some(("us".to_owned(), "b".to_owned())),
        changed_ms: 0,
    }
}

#[tokio::test]
async fn the_facts_about_an_id_that_many_jobs_have_are_read_in_part_and_those_of_this_region_first() {
    let record = Record::open(&at(None)).unwrap();
    let many = |region: &'static str| (0..900).map(move |number| created(region, &format!("{region}{number}"), "f"));
    record.save_changes("eu", many("ap").chain(many("us")).collect(), None).await.unwrap();
    record.save_changes("eu", vec![created("eu", "a", "f"), created("eu", "b", "g")], None).await.unwrap();
    let found = record.conflict_facts("f", "eu").await.unwrap();
    let (first, second) = (&found[0].change, &found[1].change);
    assert_eq!((found.len(), first.job_id.as_str(), second.region.as_str()), (CONFLICT_FACTS_MAX, "a", "ap"));
    let of_us = record.conflict_facts("f", "us").await.unwrap();
    assert_eq!(of_us.iter().filter(|it| it.change.region.as_str() == "us").count(), 900);
    assert_eq!(record.conflict_facts("g", "eu").await.unwrap().len(), 1);
    let leased = Change { federation_id: None, ..change("b", ChangeKind::Leased, 7, 7) };
    let region = RegionId::parse("eu").unwrap();
    record.save_changes("eu", vec![Change { region, ..leased }], None).await.unwrap();
    assert_eq!(record.conflict_facts("g", "eu").await.unwrap().len(), 2, "also facts that do not name the id");
}

#[tokio::test]
async fn a_result_stays_and_an_order_is_not_dropped_with_its_age() {
    let record = Record::open(&at(None)).unwrap();
    let ordered = ordered("a");
    let save = async |to: &Conflict, is_ordered| record.save_conflict(to.clone(), is_ordered).await.unwrap();
    assert!(save(&ordered, false).await && save(&ordered, true).await);
    let gone = Conflict { step: ConflictStep::Gone, ..ordered.clone() };
    assert!(!save(&gone, false).await, "another hub has ordered it, and says that it has cancelled it");
    record.prune_conflicts(0).await.unwrap();
    assert_eq!(record.conflicts_of("f").await.unwrap().copies.len(), 1);
    record.drop_order("a", "eu").await.unwrap();
    assert!(record.conflicts_of("f").await.unwrap().copies.is_empty());
    let done = Conflict { step: ConflictStep::Reported, why: Some("x".to_owned()), ..ordered.clone() };
    for (is_first, step) in [(true, &done), (false, &ordered), (false, &done)] {
        assert_eq!(save(step, true).await, is_first);
    }
    record.drop_order("a", "eu").await.unwrap();
    record.prune_conflicts(3_600_000).await.unwrap();
    let kept = record.conflicts_of("f").await.unwrap().copies.pop().unwrap();
    assert_eq!((kept.step, kept.why, kept.winner), (done.step, done.why, done.winner));
}
