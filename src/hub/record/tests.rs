use std::time::Duration;

use super::super::audit::{Entry, Head, verify};
use super::*;
use crate::base::Moment;
use crate::switch::Order;

fn drained(region: &str) -> Switches {
    let query = format!("switch=drain&region={region}&for=1h&reason=storm&ticket=OPS-1&author=ann");
    let mut switches = Switches::default();
    switches.set(Order::read(&query, true).unwrap().switch(Moment(1_000), 1_000).unwrap());
    switches
}

fn row(head: &Head, subject: &str) -> AuditRow {
    let text = |text: &str| text.to_owned();
    let (caller, reason, ticket, author) = (text("ann.x"), text("storm"), text("OPS-1"), text("ann"));
    head.next(Entry {
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
    let (record, loaded) = Record::open(Some(&path)).unwrap();
    assert_eq!((loaded.change, loaded.head.number), (0, 0));
    let first = row(&loaded.head, "drain a");
    record.change(1, &drained("a"), vec![first.clone()]).await.unwrap();
    let held = Record::open(Some(&path)).unwrap_err();
    assert!(matches!(held, RecordError::Sqlite(_)), "{held}");
    let saved = SavedSidecar {
        name: "pod:8080".to_owned(),
        caller: "spiffe://x/s".to_owned(),
        status: "{}".to_owned(),
        seen_unix_ms: 50,
    };
    record.save_sidecars(vec![saved.clone()], 0).await.unwrap();
    assert_eq!(record.audit(0, 10).await.unwrap(), std::slice::from_ref(&first));
    assert!(record.audit(1, 10).await.unwrap().is_empty());
    drop(record);
    // The thread of the first record closes the file when it sees that nothing more comes.
    let mut again = Record::open(Some(&path));
    while again.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
        again = Record::open(Some(&path));
    }
    let (record, loaded) = again.unwrap();
    assert_eq!((loaded.change, &loaded.switches), (1, &drained("a")));
    assert_eq!(loaded.sidecars, [saved]);
    let second = row(&loaded.head, "drain b");
    record.change(2, &drained("b"), vec![second]).await.unwrap();
    let lines: Vec<String> =
        record.audit(0, 10).await.unwrap().iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    assert_eq!(verify(lines.iter().map(String::as_str), None).unwrap().0, 2);
    record.save_sidecars(Vec::new(), 51).await.unwrap();
}

#[tokio::test]
async fn a_change_that_cannot_be_kept_leaves_all_as_it_was() {
    let (record, loaded) = Record::open(None).unwrap();
    let first = row(&loaded.head, "drain a");
    record.change(1, &drained("a"), vec![first.clone()]).await.unwrap();
    // The row has its number already.
    let twice = record.change(2, &drained("b"), vec![first.clone()]).await;
    assert!(twice.is_err());
    assert_eq!(record.audit(0, 10).await.unwrap(), [first]);
}

#[test]
fn a_file_of_a_later_version_or_of_another_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, statement) in [("later.db", "PRAGMA user_version=2"), ("foreign.db", "PRAGMA application_id=7")] {
        let path = folder.path().join(name);
        drop(tables::open(Some(&path)).unwrap());
        Connection::open(&path).unwrap().execute_batch(statement).unwrap();
        let error = Record::open(Some(&path)).unwrap_err();
        let is_right = match name {
            "later.db" => matches!(error, RecordError::Later),
            _ => matches!(error, RecordError::Foreign),
        };
        assert!(is_right, "{name}: {error}");
    }
}
