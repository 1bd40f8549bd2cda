//! Tasks of UWER in the record.

use super::super::uwer::LETTERS_MAX;
use super::*;

fn claim(token: &str, job_id: &str, digest: &str, now_ms: u64) -> TaskClaim {
    TaskClaim {
        key: "k".to_owned(),
        digest: digest.to_owned(),
        workflow_id: "w".to_owned(),
        origin: "o".to_owned(),
        job_id: job_id.to_owned(),
        job_type: format!("type-of-{job_id}"),
        queue: "q".to_owned(),
        token: token.to_owned(),
        hold_ms: 10,
        now_ms,
    }
}

#[tokio::test]
async fn a_key_has_one_job_whichever_call_claims_it() {
    let record = Record::open(&at(None)).unwrap();
    let claimed = async |token, job, digest, now| record.claim_task(claim(token, job, digest, now)).await.unwrap();
    let taken = |job: &str| ClaimedTask::Taken {
        job_id: job.to_owned(),
        job_type: format!("type-of-{job}"),
        queue: "q".to_owned(),
    };
    assert_eq!(claimed("a", "j1", "d", 100).await, taken("j1"));
    assert_eq!(claimed("a", "j1", "d", 105).await, taken("j1"), "the same call");
    assert_eq!(claimed("b", "j2", "d", 107).await, ClaimedTask::Held { left_ms: 8 });
    assert_eq!(claimed("b", "j2", "e", 107).await, ClaimedTask::OtherTask);
    assert_eq!(claimed("b", "j2", "e", 900).await, ClaimedTask::OtherTask, "also once the claim is over");
    assert_eq!(claimed("b", "j2", "d", 115).await, taken("j1"), "its job stays the first one");
    record.release_task(claim("a", "j1", "d", 116)).await.unwrap();
    assert_eq!(claimed("c", "j3", "d", 116).await, ClaimedTask::Held { left_ms: 9 }, "of another call");
    record.release_task(claim("b", "j2", "d", 116)).await.unwrap();
    assert_eq!(claimed("c", "j3", "d", 116).await, taken("j1"));
    assert!(!record.settle_task(claim("c", "j3", "d", 117), "eu").await.unwrap(), "another job");
    assert!(record.settle_task(claim("x", "j1", "d", 117), "eu").await.unwrap(), "the word of any call about its job");
    assert!(!record.settle_task(claim("x", "j1", "d", 118), "us").await.unwrap(), "another region");
    let stored = ClaimedTask::Stored { job_id: "j1".to_owned(), region: "eu".to_owned() };
    assert_eq!(claimed("d", "j4", "d", 999).await, stored);
    for name in ["w", "j1"] {
        let tasks = record.tasks(name, 9).await.unwrap();
        assert_eq!((tasks.len(), tasks[0].stored_ms, tasks[0].region.as_deref()), (1, Some(117), Some("eu")));
    }
    assert_eq!(record.prune_tasks(100, 217, 9).await.unwrap(), 0);
    assert_eq!(record.prune_tasks(100, 218, 9).await.unwrap(), 1);
    assert!(record.tasks("w", 9).await.unwrap().is_empty());
    assert_eq!(claimed("e", "j5", "d", 150).await, taken("j5"));
    record.release_task(claim("e", "j5", "d", 155)).await.unwrap();
    assert_eq!(record.prune_tasks(100, 255, 9).await.unwrap(), 0, "it was given back later than it was claimed");
    assert_eq!(record.prune_tasks(100, 256, 9).await.unwrap(), 1, "a claim that led to nothing");
    assert_eq!(claimed("f", "j6", "d", 160).await, taken("j6"));
    record.withdraw_task(claim("g", "j6", "d", 160)).await.unwrap();
    assert_eq!(claimed("g", "j7", "e", 161).await, ClaimedTask::OtherTask, "another call cannot withdraw it");
    record.withdraw_task(claim("f", "j6", "d", 160)).await.unwrap();
    assert_eq!(claimed("g", "j7", "e", 161).await, taken("j7"), "the key is free for another task");
    record.withdraw_task(claim("g", "j7", "e", 161)).await.unwrap();
    assert!(record.settle_task(claim("c", "j3", "d", 200), "eu").await.unwrap(), "a settled job without its claim");
    assert_eq!(record.tasks("j3", 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_refused_document_is_kept_once_and_a_full_record_takes_no_other() {
    let record = Record::open(&at(None)).unwrap();
    let letter = |number: u64| SavedLetter {
        id: format!("{number:05}"),
        first_ms: number,
        last_ms: number,
        count: 1,
        document: "{}".to_owned(),
        sealed: Some(vec![7]),
    };
    for number in 0..LETTERS_MAX {
        assert!(record.keep_letter(letter(number)).await.unwrap());
    }
    assert!(!record.keep_letter(letter(LETTERS_MAX)).await.unwrap());
    assert!(record.keep_letter(SavedLetter { last_ms: 99, ..letter(3) }).await.unwrap(), "it is there already");
    let found = record.letter("00003").await.unwrap().unwrap();
    assert_eq!((found.count, found.first_ms, found.last_ms, found.sealed), (2, 3, 99, Some(vec![7])));
    let page = record.letters((2, "00002".to_owned()), 9).await.unwrap();
    assert_eq!(page.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["00001", "00000"]);
    assert!(page.iter().all(|it| it.sealed.is_none()));
    record.prune_tasks(0, 3, 9).await.unwrap();
    assert!(record.letter("00002").await.unwrap().is_none() && record.letter("00003").await.unwrap().is_some());
    assert!(record.keep_letter(letter(LETTERS_MAX)).await.unwrap(), "there is room again");
    assert!(record.drop_letter("00003").await.unwrap() && !record.drop_letter("00003").await.unwrap());
}
