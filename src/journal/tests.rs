mod leases;
mod told;

use std::path::Path;

use rusqlite::Connection;

use super::sqlite::{Sqlite, Trouble};
use super::*;
use crate::base::RegionId;

const TENANT: Digest = [9; 32];

fn region(id: &str) -> RegionId {
    RegionId::parse(id).unwrap()
}

fn unknown(job_id: &str) -> Unknown {
    Unknown {
        number: 0,
        run: 0,
        job_id: Some(job_id.to_owned()),
        known_as: Some(format!("{job_id}-again")),
        tenant: TENANT,
        body: [1; 32],
        region: region("us-east-1"),
        federation_id: Some("tracked".to_owned()),
        request_id: "req_1".to_owned(),
        at_ms: 1_800_000_000_000,
        ended: true,
        private: false,
        state: State::Pending,
        proved: true,
        going: None,
        elsewhere: None,
        cancelled: None,
        resolved_ms: None,
    }
}

/// What is known of the newest with this id.
fn of(store: &Journal, job_id: &str) -> Option<Unknown> {
    store.unknowns_of(job_id, || TENANT).into_iter().next()
}

fn keyed(number: u8) -> Keyed {
    let at_ms = 1_800_000_000_000 + u64::from(number);
    let job_id = Some("a".to_owned());
    Keyed { key: [number; 32], body: [1; 32], run: 0, at_ms, job_id, private: false, region: None, status: 0 }
}

/// A store that tries a file which it cannot use at every turn.
fn open_at(path: Option<&Path>, rows_max: usize) -> Arc<Journal> {
    let config = crate::config::Journal { path: path.map(Path::to_owned), rows_max };
    let metrics = Metrics::new(&[], &[]);
    Arc::new(Journal::open_with(&config, Clock::system(), metrics, Duration::from_millis(1)))
}

fn open(path: &Path) -> Arc<Journal> {
    open_at(Some(path), 1_000)
}

fn writes(store: &Journal, result: JournalWrite) -> u64 {
    store.inner.metrics.journal_writes[result].get()
}

async fn eventually(mut is_true: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(10), async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.unwrap();
}

#[tokio::test]
async fn what_was_recorded_is_there_after_a_restart_and_so_is_what_became_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open(&path);
    let first = store.record_unknown(unknown("a")).await;
    store.record_unknown(unknown("b")).await;
    store.begin_key(keyed(1)).await;
    store.end_key(Keyed { region: Some(region("eu-west-1")), status: 201, ..keyed(1) });
    store.begin_key(keyed(2)).await;
    store.forget_key(&[2; 32]);
    let place = Place { region: region("eu-west-1"), job_id: "a2".to_owned() };
    store.change_durably(first, |it| it.elsewhere = Some(place.clone())).await;
    store.change(first, |it| {
        it.cancelled = Some(Cancelled::Late);
        it.resolve(State::Landed, 7);
    });
    assert!(store.is_durable());
    assert_eq!((writes(&store, JournalWrite::Failed), writes(&store, JournalWrite::Late)), (0, 0));
    drop(store);
    let store = open(&path);
    let a = of(&store, "a").unwrap();
    assert_eq!((a.number, a.state, a.resolved_ms, a.elsewhere.clone()), (first, State::Landed, Some(7), Some(place)));
    assert_eq!((a.cancelled_in().cloned(), a.federation_id.as_deref()), (Some(region("us-east-1")), Some("tracked")));
    assert_eq!(of(&store, "b").map(|it| it.state), Some(State::Pending));
    assert_eq!(store.pending(), 1);
    assert_eq!(store.keyed(&[1; 32]).map(|it| (it.status, it.region)), Some((201, Some(region("eu-west-1")))));
    assert_eq!(store.keyed(&[2; 32]), None);
    let later = store.record_unknown(unknown("c")).await;
    assert!(later > of(&store, "b").unwrap().number, "numbers go on rising");
}

#[tokio::test]
async fn without_a_file_the_same_is_kept_in_memory_within_the_same_bounds() {
    let store = open_at(None, 100);
    let kept = store.record_unknown(unknown("pending")).await;
    for number in 0..300 {
        let number = store.record_unknown(unknown(&format!("job-{number}"))).await;
        store.change(number, |it| it.resolve(State::Absent, 0));
    }
    assert_eq!(store.unknowns(1_000, |_| true).len(), 100);
    assert_eq!(of(&store, "pending").map(|it| it.number), Some(kept), "what is still asked about goes last");
    assert_eq!(of(&store, "job-0"), None);
    assert!(of(&store, "job-299").is_some());
    for number in 0..=255 {
        store.begin_key(keyed(number)).await;
    }
    assert!(store.keyed(&[155; 32]).is_none() && store.keyed(&[156; 32]).is_some());
    assert!(!store.is_durable());
    assert_eq!(writes(&store, JournalWrite::Memory), 301 + 256);
}

#[tokio::test]
async fn what_is_too_old_is_dropped_from_memory_and_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open(&path);
    let old = store.record_unknown(unknown("old")).await;
    store.record_unknown(unknown("pending")).await;
    store.change(old, |it| it.resolve(State::Landed, 0));
    store.begin_key(keyed(1)).await;
    store.prune(1_800_000_000_000 + 60_000, Duration::from_secs(30));
    assert_eq!((of(&store, "old"), store.keyed(&[1; 32])), (None, None));
    drop(store);
    let store = open(&path);
    assert_eq!((of(&store, "old"), store.keyed(&[1; 32])), (None, None));
    assert!(of(&store, "pending").is_some());
}

#[tokio::test]
async fn what_a_call_is_busy_with_is_nobody_elses_until_it_lets_go() {
    let store = open_at(None, 100);
    let hold = store.hold_unknown(unknown("a"));
    assert_eq!((store.due(10, |_| true).len(), store.pending()), (0, 1));
    drop(hold);
    assert_eq!(store.due(10, |_| true).len(), 1);
    assert_eq!(store.due(10, |_| false).len(), 0);
}

/// Copies the file with its log as they are: what a machine that loses its power would find.
fn copy(from: &Path, to: &Path, log_bytes: usize) {
    std::fs::copy(from, to).unwrap();
    let log = std::fs::read(format!("{}-wal", from.display())).unwrap();
    std::fs::write(format!("{}-wal", to.display()), &log[..log_bytes.min(log.len())]).unwrap();
}

#[tokio::test]
async fn a_log_that_is_torn_anywhere_costs_only_what_was_behind_the_tear() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open(&path);
    let log_bytes = || usize::try_from(std::fs::metadata(dir.path().join("journal-wal")).unwrap().len()).unwrap();
    let mut ends = Vec::new();
    for number in 0..6 {
        store.record_unknown(unknown(&format!("job-{number}"))).await;
        ends.push(log_bytes());
    }
    let last = *ends.last().unwrap();
    for torn_at in (0..=last).step_by(977).chain(ends.iter().copied()) {
        let torn = dir.path().join(format!("torn-{torn_at}"));
        copy(&path, &torn, torn_at);
        let store = open(&torn);
        assert!(store.is_durable(), "{torn_at}");
        let whole = ends.iter().filter(|end| **end <= torn_at).count();
        for number in 0..6 {
            assert_eq!(of(&store, &format!("job-{number}")).is_some(), number < whole, "{torn_at} {number}");
        }
        store.record_unknown(unknown("new")).await;
        assert_eq!(writes(&store, JournalWrite::Durable), 1, "{torn_at}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_moved_aside_and_a_new_one_begun() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = dir.path().join("garbage");
    std::fs::write(&garbage, vec![b'x'; 10_000]).unwrap();
    let broken = dir.path().join("broken");
    let store = open(&broken);
    for number in 0..50 {
        store.record_unknown(unknown(&format!("job-{number}"))).await;
    }
    drop(store);
    let mut bytes = std::fs::read(&broken).unwrap();
    bytes[4_096..].fill(0x5a);
    std::fs::write(&broken, bytes).unwrap();
    for path in [garbage, broken] {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let store = open(&path);
        assert!(store.is_durable(), "{name}");
        store.record_unknown(unknown("new")).await;
        drop(store);
        assert_eq!(open(&path).unknowns(10, |_| true).len(), 1, "{name}");
        let names: Vec<String> =
            std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.iter().any(|it| it.starts_with(&format!("{name}.corrupt-"))), "{names:?}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_keeps_the_journal_in_memory_until_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("later");
    let store = open(&folder.join("journal"));
    assert!(!store.is_durable());
    store.record_unknown(unknown("a")).await;
    assert_eq!(writes(&store, JournalWrite::Failed), 1);
    assert!(of(&store, "a").is_some(), "it is known all the same");
    std::fs::create_dir(&folder).unwrap();
    eventually(|| store.is_durable()).await;
    drop(store);
    assert!(of(&open(&folder.join("journal")), "a").is_some(), "the file got what it had missed");
}

#[tokio::test]
async fn a_file_that_another_process_holds_is_taken_over_when_that_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let first = open(&path);
    first.record_unknown(unknown("first")).await;
    let second = open(&path);
    assert!(!second.is_durable());
    second.record_unknown(Unknown { request_id: "req_2".to_owned(), ..unknown("second") }).await;
    drop(first);
    eventually(|| second.is_durable()).await;
    assert!(of(&second, "first").is_some() && of(&second, "second").is_some());
    drop(second);
    let third = open(&path);
    assert!(of(&third, "first").is_some() && of(&third, "second").is_some());
}

#[test]
fn a_full_disk_fails_the_write_and_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (mut sqlite, _) = Sqlite::open(&path).unwrap();
    let changes: Vec<Change> =
        (0..2_000).map(|number| Change::Unknown(Unknown { number, ..unknown(&format!("job-{number}")) })).collect();
    sqlite.write(&changes[..10]).unwrap();
    sqlite.set_pages_max(16);
    assert_eq!(sqlite.write(&changes[10..]), Err(Trouble::Unusable("disk_full")));
    drop(sqlite);
    assert_eq!(Sqlite::open(&path).unwrap().1.len(), 10);
}

#[test]
fn a_file_of_somebody_else_or_of_a_later_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (name, batch, why) in [
        ("foreign", "CREATE TABLE theirs (a)", "not_a_journal"),
        (
            "later",
            "CREATE TABLE unknown (a); PRAGMA application_id=1330271046; PRAGMA user_version=4",
            "written_by_a_later_version",
        ),
    ] {
        let path = dir.path().join(name);
        Connection::open(&path).unwrap().execute_batch(batch).unwrap();
        let before = std::fs::read(&path).unwrap();
        assert_eq!(Sqlite::open(&path).map(drop), Err(Trouble::Unusable(why)));
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
    }
}

#[tokio::test]
async fn what_a_call_is_busy_with_never_makes_room_for_others() {
    let store = open_at(None, 3);
    let hold = store.hold_unknown(unknown("busy"));
    for number in 0..10 {
        store.record_unknown(unknown(&format!("job-{number}"))).await;
    }
    assert!(of(&store, "busy").is_some() && of(&store, "job-9").is_some() && of(&store, "job-7").is_none());
    assert_eq!(store.inner.metrics.journal_evictions[JournalEviction::Pending].get(), 8);
    drop(hold);
    store.record_unknown(unknown("last")).await;
    assert_eq!(of(&store, "busy"), None);
}

#[tokio::test]
async fn a_key_that_was_freed_and_used_again_is_as_young_as_its_last_use() {
    let store = open_at(None, 3);
    store.begin_key(keyed(1)).await;
    store.forget_key(&[1; 32]);
    store.begin_key(keyed(2)).await;
    let again = Keyed { at_ms: keyed(3).at_ms, ..keyed(1) };
    store.begin_key(again.clone()).await;
    store.prune(keyed(1).at_ms + 31_000, Duration::from_millis(30_999));
    assert!(store.keyed(&[1; 32]).is_some(), "it is not older than its row");
    store.begin_key(keyed(4)).await;
    store.begin_key(keyed(5)).await;
    assert!(store.keyed(&[1; 32]).is_some() && store.keyed(&[2; 32]).is_none());
    assert_eq!(store.inner.metrics.journal_evictions[JournalEviction::Key].get(), 1);
    // What nobody knows the outcome of goes last.
    store.end_key(Keyed { region: Some(region("us-east-1")), status: 201, ..keyed(5) });
    store.begin_key(keyed(6)).await;
    assert!(store.keyed(&[5; 32]).is_none() && store.keyed(&[1; 32]).is_some());
}

#[tokio::test]
async fn what_was_sent_under_an_id_is_found_by_it_whatever_became_of_the_others() {
    let store = open_at(None, 100);
    let (first, second) = (store.record_unknown(unknown("a")).await, store.record_unknown(unknown("a")).await);
    let other = Unknown { tenant: [8; 32], ..unknown("a") };
    store.record_unknown(other).await;
    let numbers = || store.unknowns_of("a", || TENANT).iter().map(|it| it.number).collect::<Vec<_>>();
    store.change(first, |it| it.resolve(State::Absent, 0));
    assert_eq!(numbers(), [second, first]);
    let going = Place { region: region("eu-west-1"), job_id: "a2".to_owned() };
    store.change(first, |it| it.going = Some(going.clone()));
    assert_eq!(of(&store, "a2").map(|it| it.number), Some(first), "also by the id that it went on with");
    assert_eq!(store.state_in(&going, first), None);
    let there = store.record_unknown(Unknown { region: going.region.clone(), ..unknown("a2") }).await;
    assert_eq!((store.state_in(&going, first), store.state_in(&going, there)), (Some(State::Pending), None));
    store.change(first, |it| it.going = None);
    assert_eq!(of(&store, "a2").map(|it| it.number), Some(there));
}

#[test]
fn a_file_that_is_opened_again_brings_nothing_back() {
    let now = std::time::Instant::now();
    let mut table = Table::new(10, 1);
    let row = |number: u8, run: u64| Change::Keyed(Keyed { run, ..keyed(number) });
    let file = || vec![row(1, 1), row(2, 2), Change::Unknown(Unknown { number: 7, run: 2, ..unknown("a") })];
    table.merge(file(), now);
    let has = |table: &Table, number: u8| table.of_key(&[number; 32]).is_some();
    assert!(!has(&table, 1) && has(&table, 2), "what this run has freed stays so");
    let mut changes = Vec::new();
    table.drop_key(&[2; 32], &mut changes);
    table.change(7, |it| it.resolve(State::Landed, 0));
    table.merge([file(), vec![row(3, 3)]].concat(), now);
    assert!(!has(&table, 2) && has(&table, 3));
    assert_eq!(table.of_job("a").first().map(|it| it.state), Some(State::Landed));
}

/// The thread's whole life, with what waits for it in its queue.
fn write_to(path: &Path, store: &Journal, waiting: Vec<Change>) {
    let (work, queue) = mpsc::sync_channel(QUEUE_MAX);
    if !waiting.is_empty() {
        work.try_send(Work { changes: waiting, done: None }).unwrap();
    }
    drop(work);
    store.inner.missed.store(true, Relaxed);
    let writer = Writer { path: path.to_owned(), inner: Arc::clone(&store.inner), retry: Duration::from_secs(1) };
    writer.run(&queue, &mpsc::channel().0);
}

#[tokio::test]
async fn what_waited_for_the_disk_is_never_written_over_what_is_newer() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(None, 100);
    store.begin_key(keyed(1)).await;
    let older = store.keyed(&[1; 32]).unwrap();
    store.end_key(Keyed { region: Some(region("us-east-1")), status: 201, ..older.clone() });
    for (name, waiting) in [("queued", vec![Change::Keyed(older)]), ("ended", Vec::new())] {
        let path = dir.path().join(name);
        write_to(&path, &store, waiting);
        assert_eq!(open(&path).keyed(&[1; 32]).map(|it| it.status), Some(201), "{name}");
    }
}

#[test]
fn the_files_of_a_journal_are_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let modes = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap());
        files.map(|file| file.metadata().unwrap().permissions().mode() & 0o777).collect::<Vec<_>>()
    };
    let (mut sqlite, _) = Sqlite::open(&path).unwrap();
    sqlite.write([&Change::Unknown(unknown("a"))]).unwrap();
    assert_eq!(modes(), [0o600; 2], "the file and its log");
    drop(sqlite);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _open = Sqlite::open(&path).unwrap();
    assert!(modes().iter().all(|mode| *mode == 0o600), "those of an older version, too");
}
