//! Ages, by a wall clock that cannot be relied on.

use super::*;
use crate::base::SteeredTime;

const NOW: u64 = 1_800_000_000_000;
const HOUR: u64 = 60 * 60 * 1_000;
const TTL: Duration = Duration::from_secs(24 * 60 * 60);
const SECOND: Duration = Duration::from_secs(1);

fn steered(unix_ms: u64) -> (Arc<SteeredTime>, Clock) {
    let time = SteeredTime::starting_at(unix_ms);
    let clock = Clock::new(Arc::new(Arc::clone(&time)));
    (time, clock)
}

/// A job with a key, one that nobody knows of, one that has ended, and a lease.
async fn fill(store: &Arc<Journal>) {
    sent(store, "keyed", Some(1), stored("keyed")).await;
    sent(store, "open", None, Told::Unknown).await;
    sent(store, "ended", None, Told::Unknown).await;
    settle(store, "ended", Settlement::Absent);
    leases::take(store, "leased");
}

/// What the background and a repeated key would find now.
fn check(store: &Journal, what: &str) {
    store.prune(TTL);
    let of_key = store.of_key(&[1; 32]).unwrap_or_else(|| panic!("{what}: the key is forgotten"));
    assert!(store.now().since(of_key.at) < TTL, "{what}: the key is too old");
    for job_id in ["open", "ended"] {
        assert!(of(store, job_id).is_some(), "{what}: {job_id} is forgotten");
    }
    assert!(store.lease_of("leased").is_some(), "{what}: the lease is forgotten");
}

#[tokio::test]
async fn a_wall_clock_that_jumps_makes_nothing_older() {
    let (time, clock) = steered(NOW);
    let store = open_by(None, 100, clock);
    fill(&store).await;
    for wall in [NOW + HOUR, NOW + 25 * HOUR, NOW + 10_000 * HOUR, NOW - 25 * HOUR, NOW] {
        let before = store.now();
        time.set_wall(wall);
        assert_eq!(store.now(), before, "{wall}");
        time.advance(SECOND);
        assert_eq!(store.now().since(before), SECOND, "{wall}");
        check(&store, &wall.to_string());
    }
    // Time that has passed counts.
    time.advance(TTL);
    store.prune(TTL);
    assert!(store.of_key(&[1; 32]).is_none() && of(&store, "open").is_some() && of(&store, "ended").is_some());
    time.advance(6 * TTL);
    store.prune(TTL);
    assert!(of(&store, "ended").is_none() && of(&store, "open").is_some() && store.lease_of("leased").is_none());
}

#[tokio::test]
async fn a_wall_clock_that_is_wrong_at_a_restart_makes_nothing_older_than_an_hour() {
    for wall in [NOW + HOUR, NOW + 25 * HOUR, NOW + 10_000 * HOUR, NOW - 25 * HOUR, NOW - 10_000 * HOUR] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let store = open_by(Some(&path), 100, steered(NOW).1);
        fill(&store).await;
        let (before, number) = (store.now(), of(&store, "open").unwrap().number);
        drop(store);
        let (time, clock) = steered(wall);
        let store = open_by(Some(&path), 100, clock);
        let passed = store.now().since(before);
        assert!(store.now() >= before && passed <= Duration::from_millis(HOUR), "{wall}: {passed:?}");
        check(&store, &wall.to_string());
        sent(&store, "new", None, Told::Unknown).await;
        assert!(of(&store, "new").unwrap().number > number, "{wall}: numbers go on rising");
        // The right time comes back while it runs.
        time.set_wall(NOW);
        check(&store, &wall.to_string());
    }
}

#[tokio::test]
async fn what_is_too_old_is_dropped_from_memory_and_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (time, clock) = steered(NOW);
    let store = open_by(Some(&path), 100, clock.clone());
    fill(&store).await;
    time.advance(8 * TTL);
    store.prune(TTL);
    let known = |store: &Journal| ["keyed", "ended", "open"].map(|job_id| of(store, job_id).is_some());
    assert_eq!(known(&store), [false, false, true]);
    drop(store);
    assert_eq!(known(&open_by(Some(&path), 100, clock)), [false, false, true]);
}
