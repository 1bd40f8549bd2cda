//! Promotions in the record.

use super::index::change;
use super::*;
use crate::replica::ChangeKind;

fn job(job_id: &str, enqueued_ms: u64, step: JobStep) -> PromotionJob {
    let (job_id, step) = (job_id.to_owned(), step.as_str().to_owned());
    PromotionJob { job_id, enqueued_ms, step, ..PromotionJob::default() }
}

fn names(jobs: &[PromotionJob]) -> Vec<&str> {
    jobs.iter().map(|it| it.job_id.as_str()).collect()
}

#[tokio::test]
async fn a_promotion_is_changed_from_its_version_only() {
    let record = Record::open(&at(None)).unwrap();
    let saved = |version, document: &str| {
        let holds = Some("us".to_owned());
        SavedPromotion { id: "p".to_owned(), version, document: document.to_owned(), holds, is_open: true, began_ms: 5 }
    };
    assert_eq!(record.change_promotion(saved(0, "a")).await.unwrap(), Kept::Kept);
    for (version, kept) in [(0, Kept::Behind), (2, Kept::Behind), (1, Kept::Kept), (1, Kept::Behind)] {
        assert_eq!(record.change_promotion(saved(version, "b")).await.unwrap(), kept, "{version}");
    }
    assert_eq!(record.promotions().await.unwrap().all, [saved(2, "b")]);
    let other = SavedPromotion { id: "q".to_owned(), ..saved(0, "a") };
    assert_eq!(record.change_promotion(other.clone()).await.unwrap(), Kept::Behind, "one promotion of a region");
    let dry = SavedPromotion { holds: None, is_open: false, ..other };
    assert_eq!(record.change_promotion(dry).await.unwrap(), Kept::Kept);
    record.add_promotion_jobs("p", vec![job("a", 1, JobStep::Planned)]).await.unwrap();
    record.prune_promotions(u64::MAX >> 1).await.unwrap();
    assert_eq!(record.promotions().await.unwrap().all.len(), 1, "one that is under way stays");
    record.change_promotion(SavedPromotion { holds: None, is_open: false, ..saved(2, "c") }).await.unwrap();
    record.prune_promotions(5).await.unwrap();
    assert_eq!(record.promotions().await.unwrap().all.len(), 1);
    record.prune_promotions(6).await.unwrap();
    assert!(record.promotions().await.unwrap().all.is_empty());
    assert!(record.promotion_counts("p").await.unwrap().is_empty());
}

#[tokio::test]
async fn jobs_of_a_promotion_come_by_age_and_go_from_step_to_step_once() {
    let record = Record::open(&at(None)).unwrap();
    let all = vec![job("c", 1, JobStep::Planned), job("a", 3, JobStep::Planned), job("b", 3, JobStep::Left)];
    record.add_promotion_jobs("p", all).await.unwrap();
    record.add_promotion_jobs("p", vec![job("c", 9, JobStep::Left)]).await.unwrap();
    let of = async |steps, after: (u64, &str)| {
        record.promotion_jobs("p", steps, (after.0, after.1.to_owned()), 10).await.unwrap()
    };
    assert_eq!(names(&of(&JobStep::ALL, (0, "")).await), ["c", "a", "b"]);
    assert_eq!(names(&of(&[JobStep::Planned], (1, "c")).await), ["a"]);
    let sending = job("c", 1, JobStep::Sending);
    for is_first in [true, false] {
        let advanced = record.advance_promotion_job("p", JobStep::Planned, sending.clone(), None).await.unwrap();
        assert_eq!(advanced, is_first);
    }
    assert!(of(&[JobStep::Sending], (0, "")).await[0].changed_ms > 0);
    let old =
        record.advance_promotion_job("p", JobStep::Planned, job("a", 3, JobStep::Sending), Some(7)).await.unwrap();
    assert!(!old, "only while the promotion has the version");
    record.leave_promotion_jobs("p", "stopped").await.unwrap();
    let count = |step: &str, why: Option<&str>| (step.to_owned(), why.map(str::to_owned), 1);
    let counts = record.promotion_counts("p").await.unwrap();
    let expected = [count("left", None), count("left", Some("stopped")), count("sending", None)];
    assert_eq!(counts, expected);
    record.restore_promotion_jobs("p", "stopped").await.unwrap();
    assert_eq!(names(&of(&[JobStep::Planned], (0, "")).await), ["a"]);
}

#[tokio::test]
async fn the_facts_about_a_region_come_job_by_job() {
    let record = Record::open(&at(None)).unwrap();
    let mut facts = ["a", "c", "d"].map(|id| change(id, ChangeKind::Created, 0, 5)).to_vec();
    facts.push(change("a", ChangeKind::Leased, 7, 7));
    facts
        .push(Change { region: crate::base::RegionId::parse("us").unwrap(), ..change("b", ChangeKind::Created, 0, 5) });
    record.save_changes("eu", facts, None).await.unwrap();
    let of = async |after: &str, max| {
        let found = record.jobs_of_region("eu", after, max).await.unwrap();
        found.into_iter().map(|it| (it.change.job_id, it.change.kind)).collect::<Vec<_>>()
    };
    let all =
        [("a", ChangeKind::Created), ("a", ChangeKind::Leased), ("c", ChangeKind::Created), ("d", ChangeKind::Created)];
    let all = all.map(|(id, kind)| (id.to_owned(), kind));
    assert_eq!(of("", 10).await, all);
    assert_eq!(of("", 2).await, all[..3]);
    assert_eq!(of("c", 2).await, all[3..]);
}

#[tokio::test]
async fn jobs_of_a_region_are_read_from_the_greatest_id_on_in_bounded_parts() {
    let record = Record::open(&at(None)).unwrap();
    let mut facts = ["a", "c", "d"].map(|id| change(id, ChangeKind::Created, 0, 5)).to_vec();
    facts.push(change("c", ChangeKind::Leased, 7, 7));
    let elsewhere = crate::base::RegionId::parse("us").unwrap();
    facts.extend(["b", "e"].map(|id| Change { region: elsewhere.clone(), ..change(id, ChangeKind::Created, 0, 5) }));
    record.save_changes("eu", facts, None).await.unwrap();
    let of = async |before: Option<&str>, max| {
        let (found, end) = record.jobs_before("eu", before.map(str::to_owned), max).await.unwrap();
        (found.into_iter().map(|it| it.change.job_id).collect::<Vec<_>>().concat(), end)
    };
    let end = |id: &str| Some(id.to_owned());
    assert_eq!(of(None, 10).await, ("dcca".to_owned(), None));
    assert_eq!(of(None, 1).await, (String::new(), end("e")), "a part may have no job of the region");
    // All facts about a job are there, also where the part ends among them.
    assert_eq!(of(None, 3).await, ("dcc".to_owned(), end("c")));
    assert_eq!(of(Some("c"), 2).await, ("a".to_owned(), end("a")));
    assert_eq!(of(Some("a"), 2).await, (String::new(), None));
}

#[tokio::test]
async fn a_job_with_copies_in_two_regions_is_in_one_part_wherever_parts_end() {
    let record = Record::open(&at(None)).unwrap();
    let regions = ["eu", "us"].map(|it| crate::base::RegionId::parse(it).unwrap());
    let mut facts = Vec::new();
    for id in ["a", "b", "c", "d"] {
        for (kind, lease_ms) in [(ChangeKind::Created, 0), (ChangeKind::Leased, 7)] {
            let of_each = regions.clone().map(|region| Change { region, ..change(id, kind, lease_ms, 7) });
            facts.extend(of_each);
        }
    }
    record.save_changes("eu", facts, None).await.unwrap();
    for max in 1..=17 {
        for region in ["eu", "us"] {
            let (mut all, mut before) = (String::new(), None);
            loop {
                let (found, end) = record.jobs_before(region, before, max).await.unwrap();
                all.extend(found.into_iter().map(|it| it.change.job_id));
                let Some(end) = end else { break };
                before = Some(end);
            }
            assert_eq!(all, "ddccbbaa", "{region} by {max}");
        }
    }
}
