//! Leases: what is kept of them, and what is written.

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
