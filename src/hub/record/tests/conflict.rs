//! Conflicts in the record.

use super::index::change;
use super::*;
use crate::base::RegionId;
use crate::replica::ChangeKind;

fn created(region: &str, job: &str, federation_id: &str) -> Change {
    let region = RegionId::parse(region).unwrap();
    Change { region, federation_id: Some(federation_id.to_owned()), ..change(job, ChangeKind::Created, 0, 5) }
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|it| (*it).to_owned()).collect()
}

#[tokio::test]
async fn a_repeated_tracking_id_is_noted_once_and_opens_a_conflict_for_each_own_copy() {
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
    let all = || ids(&["one", "two", "far", "none"]);
    assert_eq!(record.note_conflicts("eu", all(), 0).await.unwrap(), ["far", "one"], "in several regions");
    assert!(record.note_conflicts("eu", all(), 0).await.unwrap().is_empty());
    let due = record.due_conflicts("eu", 10).await.unwrap();
    assert_eq!(due.iter().map(|it| (it.job_id.as_str(), it.step)).collect::<Vec<_>>(), [("a", ConflictStep::Open)]);
    assert!(record.due_conflicts("us", 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_conflict_goes_from_step_to_step_once_and_comes_again_in_its_time() {
    let record = Record::open(&at(None)).unwrap();
    record.save_changes("eu", vec![created("eu", "a", "f"), created("us", "b", "f")], None).await.unwrap();
    record.note_conflicts("eu", ids(&["f"]), 3_600_000).await.unwrap();
    assert!(record.due_conflicts("eu", 10).await.unwrap().is_empty(), "its time has not come");
    let open = record.conflicts_of("f").await.unwrap().pop().unwrap();
    let again = record.advance_conflict(ConflictStep::Open, open.clone(), 0).await.unwrap();
    assert!(again && record.due_conflicts("eu", 10).await.unwrap()[0].changed_ms == open.changed_ms);
    let cancelling = Conflict { step: ConflictStep::Cancelling, refusals: 2, ..open.clone() };
    for is_first in [true, false] {
        assert_eq!(record.advance_conflict(ConflictStep::Open, cancelling.clone(), 0).await.unwrap(), is_first);
    }
    assert_eq!(record.due_conflicts("eu", 10).await.unwrap()[0].refusals, 2);
    record.drop_conflict(&open).await.unwrap();
    let winner = Some(("us".to_owned(), "b".to_owned()));
    let done = Conflict { step: ConflictStep::Cancelled, why: Some("x".to_owned()), winner, ..open.clone() };
    assert!(record.advance_conflict(ConflictStep::Cancelling, done.clone(), 0).await.unwrap());
    assert!(record.due_conflicts("eu", 10).await.unwrap().is_empty());
    let kept = record.conflicts_of("f").await.unwrap().pop().unwrap();
    assert_eq!((kept.step, kept.why, kept.winner), (done.step, done.why, done.winner));
    // A result stays, whichever facts come.
    record.note_conflicts("eu", ids(&["f"]), 0).await.unwrap();
    assert!(record.due_conflicts("eu", 10).await.unwrap().is_empty());
    record.prune_conflicts(3_600_000).await.unwrap();
    assert_eq!(record.conflicts_of("f").await.unwrap().len(), 1);
}
