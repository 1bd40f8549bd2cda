//! Idempotency keys in SQLite; those in PostgreSQL are tested with hubs as processes.

use super::super::{KnownKey, Record, SavedKey};
use super::at;

const TTL: u64 = 1_000;

fn claim(token: &str, attempt: u32, now: u64) -> SavedKey {
    SavedKey {
        key: "k".to_owned(),
        body: format!("body of {token}"),
        token: token.to_owned(),
        attempt,
        sidecar: "one".to_owned(),
        started_unix_ms: 1,
        ttl_ms: TTL,
        now_unix_ms: now,
    }
}

fn stored(id: &str) -> (u64, String, String) {
    (201, "a".to_owned(), id.to_owned())
}

/// The token of the claim that has the key; none where this one has taken it.
async fn owner(record: &Record, it: SavedKey) -> Option<KnownKey> {
    record.claim_key(it).await.unwrap()
}

async fn takes(record: &Record, it: SavedKey) -> bool {
    owner(record, it).await.is_none()
}

#[tokio::test]
async fn one_claim_has_a_key_until_it_is_settled_released_or_over() {
    let record = Record::open(&at(None)).unwrap();
    assert!(takes(&record, claim("t", 1, 10)).await);
    assert!(takes(&record, claim("t", 1, 11)).await, "the same claim, whose answer was lost");
    let known = owner(&record, claim("other", 1, 20)).await.unwrap();
    assert_eq!((known.body.as_str(), known.age_ms, known.stored), ("body of t", 9, None));
    assert!(takes(&record, claim("other", 1, 11 + TTL)).await, "its time is over");
    assert!(!record.settle_key(claim("t", 1, 12 + TTL), stored("late")).await.unwrap(), "another claim has it");
    assert!(record.settle_key(claim("other", 1, 12 + TTL), stored("j")).await.unwrap());
    for _ in 0..2 {
        assert!(record.settle_key(claim("other", 1, 13 + TTL), stored("j")).await.unwrap(), "again");
        let known = owner(&record, claim("t", 2, 14 + TTL)).await.unwrap();
        assert_eq!(known.stored, Some(stored("j")));
        record.release_key(claim("other", 9, 15 + TTL)).await.unwrap();
    }
    assert_eq!(record.prune_keys(12 + TTL).await.unwrap(), 1);
    assert_eq!(record.prune_keys(13 + 2 * TTL).await.unwrap(), 0);
}

#[tokio::test]
async fn a_released_key_is_free_and_requests_that_come_late_change_nothing() {
    let record = Record::open(&at(None)).unwrap();
    // The release of a call whose claim is still on its way.
    record.release_key(claim("t", 1, 10)).await.unwrap();
    assert!(!takes(&record, claim("t", 1, 11)).await, "the claim comes late");
    assert!(takes(&record, claim("t", 2, 12)).await, "the next call of the same job");
    record.release_key(claim("t", 1, 13)).await.unwrap();
    assert!(!takes(&record, claim("other", 1, 14)).await, "an earlier call frees no later claim");
    record.release_key(claim("other", 5, 15)).await.unwrap();
    assert!(!takes(&record, claim("other", 5, 16)).await, "another's key");
    record.release_key(claim("t", 2, 17)).await.unwrap();
    assert!(takes(&record, claim("other", 1, 18)).await);
}

#[tokio::test]
async fn the_end_of_a_key_is_kept_also_where_its_claim_was_not() {
    let record = Record::open(&at(None)).unwrap();
    assert!(record.settle_key(claim("t", 1, 10), stored("j")).await.unwrap());
    assert_eq!(owner(&record, claim("other", 1, 11)).await.unwrap().stored, Some(stored("j")));
    record.release_key(SavedKey { key: "free".to_owned(), ..claim("t", 1, 10) }).await.unwrap();
    let end = SavedKey { key: "free".to_owned(), ..claim("other", 1, 10) };
    assert!(record.settle_key(end, stored("j")).await.unwrap());
}

#[tokio::test]
async fn keys_outlive_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let record = Record::open(&at(Some(&path))).unwrap();
    assert!(takes(&record, claim("t", 1, 10)).await);
    drop(record);
    // The thread of the first record closes the file when it sees that nothing more comes.
    let mut again = Record::open(&at(Some(&path)));
    while again.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        again = Record::open(&at(Some(&path)));
    }
    assert!(!takes(&again.unwrap(), claim("other", 1, 11)).await);
}
