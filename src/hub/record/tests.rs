mod bodies;
mod conflict;
mod drill;
mod incident;
mod index;
mod keys;
mod ledger;
mod promotion;
mod replay;
mod uwer;

use std::path::Path;
use std::time::Duration;

use super::super::audit::{Entry, Head, verify};
use super::super::name::random_name;
use super::*;
use crate::base::Moment;
use crate::switch::{Order, Switches};

fn at(path: Option<&Path>) -> RecordSettings {
    RecordSettings { path: path.map(Path::to_owned), postgres: None }
}

async fn present(record: &Record) -> State {
    record.newer(&Version::default()).await.unwrap().unwrap_or_default()
}

/// The state behind another one: a drained region, and its row.
fn drained(from: &State, region: &str) -> (State, Vec<AuditRow>) {
    let query = format!("switch=drain&region={region}&for=1h&reason=storm&ticket=OPS-1&author=ann");
    let mut switches = Switches::default();
    switches.set(Order::read(&query, true).unwrap().switch(Moment(1_000), 1_000).unwrap());
    let mut head = from.head.clone();
    let row = row(&mut head, &format!("drain {region}"));
    let version = Version { name: random_name(), change: from.version.change + 1 };
    (State { version, switches, head, ..State::default() }, vec![row])
}

fn row(head: &mut Head, subject: &str) -> AuditRow {
    let text = |text: &str| text.to_owned();
    let (caller, reason, ticket, author) = (text("ann.x"), text("storm"), text("OPS-1"), text("ann"));
    head.add(Entry {
        unix_ms: 1,
        caller,
        action: "switch_set",
        subject: text(subject),
        lasts_ms: Some(1),
        force: false,
        reason,
        ticket,
        author,
    })
}

#[tokio::test]
async fn a_change_outlives_the_hub_and_a_second_hub_cannot_have_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db");
    let record = Record::open(&at(Some(&path))).unwrap();
    let empty = present(&record).await;
    assert_eq!((empty.version.change, empty.head.number), (0, 0));
    let (first, rows) = drained(&empty, "a");
    assert_eq!(record.change(&empty.version, &first, rows.clone()).await.unwrap(), Kept::Kept);
    let held = Record::open(&at(Some(&path))).unwrap_err();
    assert!(matches!(held, RecordError::Held), "{held}");
    let saved = SavedSidecar {
        name: "pod:8080".to_owned(),
        caller: "spiffe://x/s".to_owned(),
        status: "{}".to_owned(),
        seen_unix_ms: 50,
    };
    record.save_sidecars(vec![saved.clone()], 0).await.unwrap();
    assert_eq!(record.audit(0, 10).await.unwrap(), rows);
    assert!(record.audit(1, 10).await.unwrap().is_empty());
    drop(record);
    // The thread of the first record closes the file when it sees that nothing more comes.
    let mut again = Record::open(&at(Some(&path)));
    while again.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
        again = Record::open(&at(Some(&path)));
    }
    let record = again.unwrap();
    assert_eq!(present(&record).await, first);
    assert_eq!(record.newer(&first.version).await.unwrap(), None);
    assert_eq!(record.statuses(&StatusPlace::default()).await.unwrap().sidecars, [saved]);
    let (second, rows) = drained(&first, "b");
    record.change(&first.version, &second, rows).await.unwrap();
    let lines: Vec<String> =
        record.audit(0, 10).await.unwrap().iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    assert_eq!(verify(lines.iter().map(String::as_str), None, None).unwrap().last, 2);
    record.save_sidecars(Vec::new(), 51).await.unwrap();
    assert!(record.statuses(&StatusPlace::default()).await.unwrap().sidecars.is_empty());
}

#[tokio::test]
async fn a_change_that_cannot_be_kept_leaves_all_as_it_was() {
    let record = Record::open(&at(None)).unwrap();
    let (first, rows) = drained(&State::default(), "a");
    record.change(&Version::default(), &first, rows.clone()).await.unwrap();
    // The row has its number already.
    let (second, _) = drained(&first, "b");
    assert!(record.change(&first.version, &second, rows.clone()).await.is_err());
    assert_eq!((present(&record).await, record.audit(0, 10).await.unwrap()), (first, rows));
}

#[test]
fn a_file_of_a_later_version_or_of_another_program_is_refused_and_one_of_the_first_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let first = "PRAGMA user_version=1; ALTER TABLE state DROP COLUMN name; ALTER TABLE state DROP COLUMN taken; ALTER TABLE state DROP COLUMN regions; ALTER TABLE state DROP COLUMN pools; ALTER TABLE state DROP COLUMN quotas; DROP TABLE report; DROP TABLE fleet_limit; DROP TABLE claimed_key; DROP TABLE job_change; DROP TABLE index_place; DROP TABLE index_epoch; DROP TABLE job_body; DROP TABLE body_place; DROP TABLE body_key; DROP TABLE body_total; DROP TABLE drill; DROP TABLE drill_count; DROP TABLE promotion; DROP TABLE promotion_job; DROP TABLE repeated_id; DROP TABLE conflict; DROP TABLE conflict_place; DROP TABLE ledger_day; DROP TABLE ledger_turn; DROP TABLE job_history; DROP TABLE ledger_job; DROP TABLE replay; DROP TABLE replay_job; DROP TABLE incident; DROP TABLE uwer_task; DROP TABLE uwer_letter";
    for (name, statement) in
        [("later.db", "PRAGMA user_version=99"), ("foreign.db", "PRAGMA application_id=7"), ("first.db", first)]
    {
        let path = folder.path().join(name);
        drop(sqlite::Sqlite::open(Some(&path)).unwrap());
        let connection = loop {
            let connection = rusqlite::Connection::open(&path).unwrap();
            if connection.execute_batch(statement).is_ok() {
                break connection;
            }
        };
        drop(connection);
        let opened = Record::open(&at(Some(&path)));
        let is_right = match name {
            "later.db" => matches!(opened, Err(RecordError::Later)),
            "first.db" => opened.is_ok(),
            _ => matches!(opened, Err(RecordError::Foreign)),
        };
        assert!(is_right, "{name}: {opened:?}");
    }
}
