//! Journals of version 3, as that version has written them.

use rusqlite::params;

use super::*;
use crate::outcome::Fate;

const TABLES: &str = "
CREATE TABLE unknown (
  number INTEGER PRIMARY KEY, run INTEGER NOT NULL, job_id TEXT, known_as TEXT, tenant BLOB NOT NULL, body BLOB NOT NULL,
  region TEXT NOT NULL, federation_id TEXT, request_id TEXT NOT NULL, at_ms INTEGER NOT NULL, ended INTEGER NOT NULL,
  private INTEGER NOT NULL, proved INTEGER NOT NULL, state TEXT NOT NULL, going_region TEXT, going_job_id TEXT, elsewhere_region TEXT,
  elsewhere_job_id TEXT, cancelled TEXT, resolved_ms INTEGER);
CREATE TABLE keyed (
  key BLOB PRIMARY KEY, body BLOB NOT NULL, run INTEGER NOT NULL, at_ms INTEGER NOT NULL, job_id TEXT,
  private INTEGER NOT NULL, region TEXT, status INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE lease (
  number INTEGER PRIMARY KEY, job_id TEXT NOT NULL, region TEXT NOT NULL, worker_id TEXT, started_at TEXT,
  visibility_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL);
PRAGMA application_id=1330271046; PRAGMA user_version=3;
";

/// Where an unknown one was going, where it was stored, which copy was cancelled, and its state.
struct Row {
    job_id: &'static str,
    state: &'static str,
    proved: bool,
    going: Option<&'static str>,
    elsewhere: Option<&'static str>,
    cancelled: Option<&'static str>,
}

const ROW: Row = Row { job_id: "", state: "pending", proved: false, going: None, elsewhere: None, cancelled: None };

fn write(path: &Path, at_ms: i64) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(TABLES).unwrap();
    let rows = [
        Row { job_id: "pending", ..ROW },
        Row { job_id: "proved", proved: true, ..ROW },
        Row { job_id: "landed", state: "landed", ..ROW },
        Row { job_id: "absent", state: "absent", ..ROW },
        Row { job_id: "doubled", state: "doubled", elsewhere: Some("doubled-2"), ..ROW },
        Row { job_id: "expired", state: "expired", ..ROW },
        Row { job_id: "going", going: Some("going-2"), ..ROW },
        Row { job_id: "late", state: "landed", elsewhere: Some("late-2"), cancelled: Some("late"), ..ROW },
        Row { job_id: "told", elsewhere: Some("told-2"), cancelled: Some("elsewhere"), ..ROW },
    ];
    for (number, row) in rows.iter().enumerate() {
        let there = |id: Option<&'static str>| id.map(|_| "eu-west-1");
        let insert = "INSERT INTO unknown VALUES (?1,7,?2,?3,?4,?5,'us-east-1','tracked','req_1',?6,1,0,?7,?8,?9,?10,?11,?12,?13,?14)";
        let known_as = format!("{}-again", row.job_id);
        let resolved = (row.state != "pending").then_some(at_ms);
        let (going, elsewhere) = (there(row.going), there(row.elsewhere));
        let values = params![
            i64::try_from(number).unwrap() + (at_ms << 16),
            row.job_id,
            known_as,
            TENANT,
            [1_u8; 32],
            at_ms,
            row.proved,
            row.state,
            going,
            row.going,
            elsewhere,
            row.elsewhere,
            row.cancelled,
            resolved
        ];
        connection.execute(insert, values).unwrap();
    }
    let keyed = "INSERT INTO keyed VALUES (?1,?2,7,?3,?4,0,?5,?6)";
    for (key, job_id, region, status) in
        [(1_u8, "alone", Some("eu-west-1"), 201), (2, "pending-again", None, 500), (3, "under-way", None, 0)]
    {
        connection.execute(keyed, params![[key; 32], [1_u8; 32], at_ms, job_id, region, status]).unwrap();
    }
    let lease = "INSERT INTO lease VALUES (1,'leased','us-east-1','w',NULL,30000,?1)";
    connection.execute(lease, [at_ms + 30_000]).unwrap();
}

fn check(store: &Journal, what: &str) {
    let state = |job_id| of(store, job_id).map(|it| it.state());
    for (job_id, expected) in [
        ("pending", State::Unknown),
        ("proved", State::Watched),
        ("landed", State::Stored),
        ("absent", State::Absent),
        ("doubled", State::Doubled),
        ("expired", State::Expired),
        ("going-2", State::Unknown),
        ("late", State::Stored),
        ("told", State::Watched),
    ] {
        assert_eq!(state(job_id), Some(expected), "{what}: {job_id}");
    }
    let late = of(store, "late").unwrap();
    assert_eq!(late.stored().map(|place| place.job_id.as_str()), Some("late-2"), "{what}");
    assert_eq!(late.copies[0].fate, Fate::Cancelled { by_us: true }, "{what}");
    assert!(matches!(of(store, "told").unwrap().copies[1].fate, Fate::Cancelling { .. }), "{what}");
    let key = |key: u8| store.of_key(&[key; 32]);
    let alone = key(1).unwrap();
    assert_eq!(alone.stored(), Some(&Place { region: region("eu-west-1"), job_id: "alone".to_owned() }), "{what}");
    assert!(alone.is_at_rest(), "{what}");
    assert_eq!(key(2).map(|it| it.number), of(store, "pending").map(|it| it.number), "{what}");
    assert!(key(3).is_none(), "{what}");
    assert!(store.lease_of("leased").is_some(), "{what}");
}

#[tokio::test]
async fn a_journal_of_the_version_before_goes_on_as_placements() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    write(&path, i64::try_from(Clock::system().unix_ms()).unwrap());
    let store = open(&path);
    assert!(store.is_durable());
    check(&store, "converted");
    drop(store);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was moved aside");
    let store = open(&path);
    check(&store, "once more");
    let connection = Sqlite::open_to_read(&path).unwrap().load().unwrap().len();
    assert_eq!(connection, 10 + 1 + 1, "ten placements, a lease, the secret");
}

#[tokio::test]
async fn a_journal_of_the_version_before_that_cannot_be_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    write(&path, i64::try_from(Clock::system().unix_ms()).unwrap());
    std::fs::create_dir(dir.path().join("journal-wal")).unwrap();
    let store = open(&path);
    assert!(!store.is_durable());
    check(&store, "read");
    std::fs::remove_dir(dir.path().join("journal-wal")).unwrap();
    eventually(|| store.is_durable()).await;
    drop(store);
    check(&open(&path), "converted");
}

#[test]
fn an_older_journal_still_is_moved_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let older = "CREATE TABLE unknown (a); PRAGMA application_id=1330271046; PRAGMA user_version=2";
    Connection::open(&path).unwrap().execute_batch(older).unwrap();
    assert!(open(&path).is_durable());
    let names: Vec<String> =
        std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|it| it.starts_with("journal.older-")), "{names:?}");
}
