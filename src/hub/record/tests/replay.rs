//! Replays in the record. The hub's own tests run them on PostgreSQL, too.

use super::*;

fn job(place: u64, job_id: &str) -> ReplayJob {
    let (job_id, step) = (job_id.to_owned(), ReplayStep::Waiting.as_str().to_owned());
    ReplayJob { place, job_id, step, ..ReplayJob::default() }
}

fn saved(id: &str, version: u64, document: &str, is_open: bool) -> SavedReplay {
    let (id, document) = (id.to_owned(), document.to_owned());
    let began_ms = 5 + u64::from(id == "z");
    SavedReplay { id, version, document, is_open, began_ms }
}

fn names(jobs: &[ReplayJob]) -> Vec<&str> {
    jobs.iter().map(|it| it.job_id.as_str()).collect()
}

#[tokio::test]
async fn a_replay_is_kept_with_its_jobs_once_and_changed_from_its_version_only() {
    let record = Record::open(&at(None)).unwrap();
    assert_eq!(record.add_replay(saved("r", 0, "a", true), vec![job(0, "x"), job(1, "y")]).await.unwrap(), Kept::Kept);
    assert_eq!(record.add_replay(saved("r", 0, "b", true), vec![job(0, "z")]).await.unwrap(), Kept::Behind);
    for (version, kept) in [(0, Kept::Behind), (2, Kept::Behind), (1, Kept::Kept), (1, Kept::Behind)] {
        assert_eq!(record.change_replay(saved("r", version, "c", true)).await.unwrap(), kept, "{version}");
    }
    assert_eq!(record.replay("r").await.unwrap(), Some(saved("r", 2, "c", true)));
    assert_eq!(record.replay("q").await.unwrap(), None);
    assert_eq!(names(&record.replay_jobs("r", &ReplayStep::ALL, 0, 9).await.unwrap()), ["x", "y"]);
    for number in 1..OPEN_REPLAYS_MAX {
        let more = saved(&format!("m{number:02}"), 0, "", true);
        assert_eq!(record.add_replay(more, Vec::new()).await.unwrap(), Kept::Kept);
    }
    assert_eq!(record.add_replay(saved("z", 0, "", true), vec![job(0, "x")]).await.unwrap(), Kept::Behind);
    assert!(record.replay_jobs("z", &ReplayStep::ALL, 0, 9).await.unwrap().is_empty(), "whole or not at all");
    record.change_replay(saved("r", 2, "d", false)).await.unwrap();
    assert_eq!(record.add_replay(saved("z", 0, "", true), Vec::new()).await.unwrap(), Kept::Kept);
    let open = record.open_replays().await.unwrap();
    assert!(open.now_ms > 0 && open.all.len() == 16 && open.all.iter().all(|it| it.is_open && it.id != "r"));
    let last = record.replays_before((u64::MAX >> 1, String::new()), 2).await.unwrap();
    assert_eq!(last.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["z", "r"]);
    let before = record.replays_before((5, "m02".to_owned()), 2).await.unwrap();
    assert_eq!(before.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["m01"]);
    record.prune_replays(u64::MAX >> 1).await.unwrap();
    assert_eq!(record.replay("r").await.unwrap(), None);
    assert!(record.replay_jobs("r", &ReplayStep::ALL, 0, 9).await.unwrap().is_empty());
    assert_eq!(record.open_replays().await.unwrap().all.len(), 16, "those under way stay");
}

#[tokio::test]
async fn a_job_of_a_replay_goes_from_step_to_step_once_and_one_that_was_tried_is_behind_the_others() {
    let record = Record::open(&at(None)).unwrap();
    let jobs = vec![job(0, "a"), job(1, "b"), job(2, "c")];
    record.add_replay(saved("r", 0, "", true), jobs).await.unwrap();
    let due = async |step| record.due_replay_jobs("r", step, 9).await.unwrap();
    assert_eq!(names(&due(ReplayStep::Waiting).await), ["a", "b", "c"]);
    let sending = ReplayJob {
        region: Some("us".to_owned()),
        new_id: Some("n".to_owned()),
        digest: Some("d".to_owned()),
        step: ReplayStep::Sending.as_str().to_owned(),
        sends: 1,
        ..job(0, "a")
    };
    let advance =
        async |from, to: &ReplayJob, version| record.advance_replay_job("r", from, to.clone(), version).await.unwrap();
    assert!(!advance(ReplayStep::Waiting, &sending, Some(2)).await, "only while the replay has the version");
    assert!(advance(ReplayStep::Waiting, &sending, Some(1)).await);
    assert!(!advance(ReplayStep::Waiting, &sending, None).await, "once");
    let kept = due(ReplayStep::Sending).await.remove(0);
    assert!(kept.changed_ms > 0);
    assert_eq!(ReplayJob { changed_ms: 0, ..kept }, sending);
    for (sends, step) in [(2, ReplayStep::Replayed), (0, ReplayStep::Unknown), (2, ReplayStep::Waiting)] {
        let stale = ReplayJob { step: step.as_str().to_owned(), sends, ..sending.clone() };
        assert!(!advance(ReplayStep::Sending, &stale, None).await, "only from as many sends: {sends}");
    }
    while due(ReplayStep::Waiting).await[0].job_id == "b" {
        assert!(advance(ReplayStep::Waiting, &job(1, "b"), None).await);
    }
    assert_eq!(names(&due(ReplayStep::Waiting).await), ["c", "b"]);
    let sent = ReplayJob { sends: 1, ..job(3, "d") };
    record.add_replay(saved("s", 0, "", true), vec![sent, job(4, "e")]).await.unwrap();
    record.stop_replay_jobs("s", "stopped").await.unwrap();
    assert_eq!(names(&record.replay_jobs("s", &[ReplayStep::Unknown], 0, 9).await.unwrap()), ["d"], "it may be there");
    assert_eq!(names(&record.replay_jobs("s", &[ReplayStep::Stopped], 0, 9).await.unwrap()), ["e"]);
    record.stop_replay_jobs("r", "stopped").await.unwrap();
    let counts = record.replay_counts("r").await.unwrap();
    let text = |text: &str| text.to_owned();
    assert_eq!(counts, [(text("sending"), None, 1), (text("stopped"), Some(text("stopped")), 2)]);
    assert_eq!(names(&record.replay_jobs("r", &[ReplayStep::Stopped], 2, 9).await.unwrap()), ["c"]);
}
