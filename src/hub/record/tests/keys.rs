//! Idempotency keys in SQLite; those in PostgreSQL are tested with hubs as processes.

use super::super::{ClaimedKey, KnownKey, Record, SavedKey};
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
        sent_unix_ms: now,
        now_unix_ms: now,
    }
}

fn stored(id: &str) -> (u64, String, String) {
    (201, "a".to_owned(), id.to_owned())
}

/// The key as another claim has it; none where this one has taken it.
async fn owner(record: &Record, it: SavedKey) -> Option<KnownKey> {
    match record.claim_key(it).await.unwrap() {
        ClaimedKey::Taken => None,
        ClaimedKey::Known(known) => Some(known),
        late @ ClaimedKey::Late { .. } => panic!("{late:?}"),
    }
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
    assert_eq!((known.body.as_deref(), known.age_ms, known.stored), (Some("body of t"), 9, None));
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
async fn a_released_key_is_taken_by_claims_that_were_sent_after_its_release() {
    let record = Record::open(&at(None)).unwrap();
    let sent = |sent_unix_ms, it| SavedKey { sent_unix_ms, ..it };
    // The release of a call whose claim is still on its way.
    record.release_key(claim("t", 1, 10)).await.unwrap();
    let freed = owner(&record, sent(10, claim("t", 1, 11))).await.unwrap();
    assert_eq!((freed.body, freed.age_ms, freed.stored), (None, 1, None), "the claim comes late");
    assert!(takes(&record, claim("t", 2, 12)).await, "the next call of the same job");
    record.release_key(claim("t", 1, 13)).await.unwrap();
    assert!(!takes(&record, claim("other", 1, 14)).await, "an earlier call frees no later claim");
    record.release_key(claim("other", 1, 15)).await.unwrap();
    record.release_key(claim("t", 2, 17)).await.unwrap();
    assert!(!takes(&record, sent(14, claim("other", 1, 18))).await, "it comes late, and the mark is another's");
    record.release_key(claim("other", 2, 20)).await.unwrap();
    assert!(!takes(&record, sent(19, claim("other", 2, 21))).await, "a release of a free key holds too");
    assert!(takes(&record, claim("other", 3, 22)).await);
}

#[tokio::test]
async fn a_claim_that_comes_late_takes_no_key_also_where_the_release_is_forgotten() {
    let record = Record::open(&at(None)).unwrap();
    let sent = |sent_unix_ms, now| SavedKey { sent_unix_ms, ..claim("t", 1, now) };
    record.release_key(claim("t", 1, 100_000)).await.unwrap();
    assert_eq!(record.prune_keys(160_000).await.unwrap(), 0, "its mark is over");
    let late = ClaimedKey::Late { now_unix_ms: 160_000 };
    // Also of an unknown time, and of one that a clock which was set back has not reached.
    for at in [0, 99_999, 129_999, 190_001] {
        assert_eq!(record.claim_key(sent(at, 160_000)).await.unwrap(), late, "{at}");
    }
    assert!(takes(&record, sent(130_000, 160_000)).await);
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
