//! Leases: what is kept of them, and what is written.

use std::time::Instant;

use super::*;

fn lease(job_id: &str) -> Lease {
    Lease {
        number: 0,
        job_id: job_id.to_owned(),
        region: region("us-east-1"),
        worker_id: Some("w".to_owned()),
        started_at: Some("2026-03-15T10:30:00.123Z".to_owned()),
        visibility: Duration::from_secs(30),
        until: None,
        ends: Moment::default(),
        place: None,
    }
}

pub(super) fn take(store: &Journal, job_id: &str) {
    store.leased(std::iter::once(lease(job_id)));
}

/// The rows of leases in a file that no store has open.
fn rows(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT job_id FROM lease ORDER BY number").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn leases_outlive_the_process_until_their_jobs_are_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open(&path);
    for job_id in ["a", "b", "c", "d", "a"] {
        take(&store, job_id);
    }
    let now = store.inner.clock.now();
    assert!(store.lease_of("a").unwrap().holds(now));
    store.end_lease(store.lease_of("b").unwrap().number, true);
    store.end_lease(store.lease_of("c").unwrap().number, false);
    assert!(!store.lease_of("c").unwrap().holds(now), "it was given back");
    drop(store);
    assert_eq!(rows(&path), ["c", "d", "a"]);
    let store = open(&path);
    let a = store.lease_of("a").unwrap();
    assert_eq!((a.holds(store.inner.clock.now()), a.worker_id.as_deref()), (false, Some("w")));
    assert_eq!((a.started_at, a.region), (lease("a").started_at, region("us-east-1")));
    assert_eq!(store.lease_of("b"), None);
    store.end_lease(a.number, true);
    store.prune_leases(store.lease_of("c").unwrap().ends.after(Duration::from_millis(86_400_001)));
    take(&store, "e");
    drop(store);
    assert_eq!(rows(&path), ["e"]);
}

#[tokio::test]
async fn leases_are_bounded_in_number_and_size_and_the_oldest_goes_first() {
    let store = open_at(None, 100);
    (0..300).for_each(|number| take(&store, &format!("job-{number}")));
    assert!(store.inner.leases.lock().changes().is_empty(), "without a file nothing waits to be written");
    assert_eq!((0..300).filter(|number| store.lease_of(&format!("job-{number}")).is_some()).count(), 100);
    assert_eq!((store.lease_of("job-199"), store.lease_of("job-200").is_some()), (None, true));
    let long = "x".repeat(ID_BYTES_MAX + 1);
    store.leased([lease(&long), Lease { worker_id: Some(long.clone()), ..lease("b") }].into_iter());
    assert_eq!((store.lease_of(&long), store.lease_of("b")), (None, None));
    let upper = "01912E4A-7B3C-7FFF-BFFF-FFFFFFFFFFFE";
    take(&store, upper);
    assert!(store.lease_of(&upper.to_ascii_lowercase()).is_some(), "a UUID is the same however it is written");
    store.extend_leases(&region("us-east-1"), std::iter::once(upper), Some(Duration::MAX));
    assert_eq!(store.lease_of(upper).unwrap().visibility, Duration::from_secs(86_400));
}

fn placed(job_id: &str, pool: &str) -> Lease {
    Lease { place: Some(LeasePlace { pool: Some(pool.into()), queue: Some("q".into()), slot: None }), ..lease(job_id) }
}

/// How many of `bound` places of a pool are left.
fn left(store: &Arc<Journal>, pool: &str, bound: u64) -> u64 {
    store.ask_places(&pool.into(), bound, Instant::now(), || bound).left()
}

#[tokio::test]
async fn leases_take_places_of_their_pool_until_they_end_in_whatever_way() {
    let store = Arc::new(open_at(None, 100));
    store.leased(["a", "b", "c", "d"].map(|job_id| placed(job_id, "p")).into_iter());
    store.leased(std::iter::once(placed("e", "other")));
    store.leased(std::iter::once(lease("f")));
    assert_eq!((left(&store, "p", 9), left(&store, "p", 2), left(&store, "other", 9)), (5, 0, 8));
    store.end_lease(store.lease_of("a").unwrap().number, true);
    store.end_lease(store.lease_of("b").unwrap().number, false);
    store.free_place("c");
    store.free_place("c");
    assert_eq!(left(&store, "p", 9), 8);
    // The same job is leased again: one place.
    store.leased(std::iter::once(placed("d", "p")));
    assert_eq!(left(&store, "p", 9), 8);
    let mut taken = Vec::new();
    store.taken_places(|place| taken.push(place.pool.as_deref().unwrap().to_owned()));
    taken.sort_unstable();
    assert_eq!(taken, ["other", "p"]);
    (0..300).for_each(|number| take(&store, &format!("job-{number}")));
    assert_eq!(left(&store, "p", 9), 9, "a lease that had to make room takes no place");
}

#[tokio::test]
async fn a_lease_of_no_length_takes_a_place_as_one_that_does_not_say() {
    let store = Arc::new(open_at(None, 100));
    store.leased(std::iter::once(Lease { visibility: Duration::ZERO, ..placed("a", "p") }));
    assert_eq!(left(&store, "p", 9), 8);
}

#[tokio::test]
async fn places_that_are_asked_for_are_no_one_else_s_until_their_jobs_have_come_or_not() {
    let store = Arc::new(open_at(None, 100));
    let pool: Arc<str> = "p".into();
    let mut first = store.ask_places(&pool, 3, Instant::now(), || 5);
    let second = store.ask_places(&pool, 3, Instant::now(), || 5);
    assert_eq!((first.left(), second.left(), left(&store, "p", 5)), (3, 2, 0));
    store.leased(std::iter::once(placed("a", "p")));
    first.came(&store, 1);
    assert_eq!((first.left(), left(&store, "p", 5)), (2, 0));
    drop(first);
    assert_eq!(left(&store, "p", 5), 2);
    drop(second);
    assert_eq!(left(&store, "p", 5), 4);
}

#[tokio::test]
async fn places_outlive_the_process_as_long_as_their_leases() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = Arc::new(open(&path));
    store.leased(["a", "b", "c", "d"].map(|job_id| placed(job_id, "p")).into_iter());
    drop(store);
    let store = Arc::new(open(&path));
    assert_eq!(left(&store, "p", 9), 5);
    store.end_lease(store.lease_of("a").unwrap().number, true);
    store.end_lease(store.lease_of("b").unwrap().number, false);
    // The region has extended a lease of the earlier run: its new end is remembered, and it holds no longer than before.
    let longer = Some(Duration::from_secs(600));
    store.extend_leases(&region("us-east-1"), std::iter::once("c"), longer);
    let c = store.lease_of("c").unwrap();
    assert!(!c.holds(store.inner.clock.now()));
    drop(store);
    let store = Arc::new(open(&path));
    assert_eq!((left(&store, "p", 9), store.lease_of("c").unwrap().ends), (7, c.ends));
    let mut taken = 0;
    store.inner.leases.lock().taken(Moment(c.ends.0 - 60_000)).for_each(|_| taken += 1);
    assert_eq!(taken, 1, "the lease of d is over by then");
    store.end_lease(c.number, true);
    drop(store);
    let places: i64 =
        Connection::open(&path).unwrap().query_row("SELECT count(*) FROM place", [], |row| row.get(0)).unwrap();
    assert_eq!(places, 1, "places go with their leases");
}
