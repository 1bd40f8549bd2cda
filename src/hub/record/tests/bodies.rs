//! The bodies of jobs in the record.

use super::super::body::BodiesLeft;
use super::*;
use crate::base::RegionId;
use crate::replica::{ChangeKind, Reach};

fn only(regions: &[&str]) -> Reach {
    Reach::Only(regions.iter().map(|id| RegionId::parse(id).unwrap()).collect())
}

fn body(job: &str, reach: Reach) -> SavedBody {
    let (job_id, region) = (job.to_owned(), "eu".to_owned());
    SavedBody { job_id, region, federation_id: Some("f".to_owned()), reach, sealed: b"sealed".to_vec() }
}

fn change(job: &str, kind: ChangeKind, state: Option<&str>) -> Change {
    Change {
        job_id: job.to_owned(),
        region: RegionId::parse("eu").unwrap(),
        kind,
        lease_ms: 0,
        at_ms: 1,
        federation_id: None,
        state: state.map(str::to_owned),
        replicated_from: None,
        job: None,
        observed_by: None,
    }
}

async fn found(record: &Record, job: &str) -> Option<SavedBody> {
    record.body(job.to_owned(), "eu".to_owned()).await.unwrap()
}

async fn behind(record: &Record, mark: u64, rows_max: usize, bytes_max: usize) -> Vec<PlacedBody> {
    let epoch = record.index_epoch().await.unwrap();
    let after = IndexPlace { epoch, written: mark, mark };
    record.bodies_behind("us", BodiesBehind { after, rows_max, bytes_max }).await.unwrap()
}

fn jobs(found: &[PlacedBody]) -> Vec<&str> {
    found.iter().map(|it| it.body.job_id.as_str()).collect()
}

async fn left(record: &Record, before_ms: u64, bytes_max: u64) -> BodiesLeft {
    record.prune_bodies(BodiesEnd { before_ms, raced_since_ms: 0, bytes_max }).await.unwrap()
}

#[tokio::test]
async fn a_body_is_kept_once_for_the_regions_that_all_its_reports_permit() {
    let record = Record::open(&at(None)).unwrap();
    let (wide, narrow) = (body("a", only(&["ap", "eu"])), body("a", only(&["eu", "us"])));
    for report in [&wide, &narrow, &wide, &body("a", Reach::Every)] {
        record.save_bodies("us", vec![report.clone()], None).await.unwrap();
    }
    assert_eq!(found(&record, "a").await, Some(body("a", only(&["eu"]))));
    assert_eq!(jobs(&behind(&record, 0, 9, 99).await), ["a"]);
    let copies = [("a", "eu"), ("a", "us"), ("b", "eu")].map(|(job, region)| (job.to_owned(), region.to_owned()));
    assert_eq!(record.having_bodies(copies.to_vec()).await.unwrap(), copies[..1]);
    assert_eq!(left(&record, 0, 99).await, BodiesLeft { count: 1, bytes: 6, dropped: 0, more: false });
}

#[tokio::test]
async fn the_end_of_a_job_takes_its_body_in_whichever_order_they_come() {
    let ends = [
        (ChangeKind::Completed, None),
        (ChangeKind::Cancelled, None),
        (ChangeKind::Failed, Some("discarded")),
        (ChangeKind::Created, Some("completed")),
    ];
    for (kind, state) in ends {
        for is_first in [true, false] {
            let record = Record::open(&at(None)).unwrap();
            let other = Change { region: RegionId::parse("ap").unwrap(), ..change("a", kind, state) };
            record
                .save_changes("us", vec![change("a", ChangeKind::Failed, Some("retryable")), other], None)
                .await
                .unwrap();
            if is_first {
                record.save_changes("ap", vec![change("a", kind, state)], None).await.unwrap();
            }
            record.save_bodies("us", vec![body("a", Reach::Every), body("b", Reach::Every)], None).await.unwrap();
            assert_eq!(
                found(&record, "a").await.is_some(),
                !is_first,
                "a failure and the end of another copy end nothing"
            );
            record.save_changes("ap", vec![change("a", kind, state)], None).await.unwrap();
            record.save_bodies("us", vec![body("a", Reach::Every)], None).await.unwrap();
            assert_eq!(
                (found(&record, "a").await, jobs(&behind(&record, 0, 9, 99).await)),
                (None, vec!["b"]),
                "{kind:?}"
            );
            assert_eq!(left(&record, 0, 99).await.count, 1, "it is not only hidden");
        }
    }
}

#[tokio::test]
async fn a_reader_gets_the_bodies_of_an_origin_behind_its_place_within_its_bounds() {
    let record = Record::open(&at(None)).unwrap();
    let bodies = |names: &[&str]| names.iter().map(|name| body(name, Reach::Every)).collect::<Vec<_>>();
    record.save_bodies("us", bodies(&["a", "b", "c"]), None).await.unwrap();
    let place = IndexPlace { epoch: "e".to_owned(), written: 3, mark: 4 };
    record.save_bodies("eu", bodies(&["d"]), Some(place.clone())).await.unwrap();
    let replica = Change { replicated_from: Some("ap".to_owned()), ..change("c", ChangeKind::Created, None) };
    record.save_changes("us", vec![replica], None).await.unwrap();
    assert_eq!(
        (record.bodies_place("eu").await.unwrap(), record.bodies_place("us").await.unwrap()),
        (place, IndexPlace::default())
    );
    let first = behind(&record, 0, 2, 99).await;
    assert_eq!(jobs(&first), ["a", "b"]);
    let rest = behind(&record, first[1].mark, 9, 99).await;
    assert_eq!((jobs(&rest), rest[0].is_replica, first[0].is_replica), (vec!["c"], true, false));
    assert_eq!(jobs(&behind(&record, 0, 9, 7).await), ["a", "b"], "the one that goes beyond the bound is the last");
    assert_eq!(jobs(&behind(&record, 0, 9, 1).await), ["a"], "the first one always fits");
}

#[tokio::test]
async fn the_oldest_bodies_make_room_and_are_counted_and_the_first_key_stays() {
    let record = Record::open(&at(None)).unwrap();
    let bodies = ["a", "b", "c", "d"].map(|name| body(name, Reach::Every)).to_vec();
    record.save_bodies("us", bodies, None).await.unwrap();
    assert_eq!(left(&record, 0, 13).await, BodiesLeft { count: 2, bytes: 12, dropped: 2, more: false });
    assert_eq!(jobs(&behind(&record, 0, 9, 99).await), ["c", "d"]);
    assert_eq!(left(&record, u64::MAX >> 1, 13).await, BodiesLeft::default(), "those that are too old are not counted");
    record.save_bodies("us", vec![body("a", Reach::Every)], None).await.unwrap();
    assert_eq!(behind(&record, 0, 9, 99).await[0].mark, 5, "no place is given a second time");
    for sealed in ["one", "two"] {
        assert_eq!(record.bodies_key_check(sealed.as_bytes().to_vec()).await.unwrap(), b"one");
    }
}
