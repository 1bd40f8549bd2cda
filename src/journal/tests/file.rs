//! The file: what a power cut, a bad disk, another process or another program leave of it.

use super::*;

/// Copies the file with its log as they are: what a machine that loses its power would find.
pub(super) fn copy(from: &Path, to: &Path, log_bytes: usize) {
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
    let (mut ends, mut calls) = (Vec::new(), Vec::new());
    for number in 0..6 {
        calls.push(sending(&store, &format!("job-{number}")).await);
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
        let _new = sending(&store, "new").await;
        assert_eq!(writes(&store, JournalWrite::Durable), 1, "{torn_at}");
    }
}

#[tokio::test]
async fn a_key_leads_to_the_call_that_was_stored_after_a_refused_one_also_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open(&path);
    let mut refused = store.begin(identity(Some(1)), RULES);
    refused.apply(Event::Sending(place("refused"), None));
    refused.save_durably().await;
    refused.apply(Event::NotStored(0));
    refused.end(Told::Refused);
    sent(&store, "stored", Some(1), stored("stored")).await;
    let killed = dir.path().join("killed");
    copy(&path, &killed, usize::MAX);
    let known = open(&killed).of_key(&[1; 32]);
    assert_eq!(known.and_then(|it| it.stored().cloned()), Some(place("stored")));
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_moved_aside_and_a_new_one_begun() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = dir.path().join("garbage");
    std::fs::write(&garbage, vec![b'x'; 10_000]).unwrap();
    let broken = dir.path().join("broken");
    let store = open(&broken);
    for number in 0..50 {
        sent(&store, &format!("job-{number}"), None, Told::Unknown).await;
    }
    drop(store);
    let mut bytes = std::fs::read(&broken).unwrap();
    bytes[4_096..].fill(0x5a);
    std::fs::write(&broken, bytes).unwrap();
    for path in [garbage, broken] {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let store = open(&path);
        assert!(store.is_durable(), "{name}");
        sent(&store, "new", None, Told::Unknown).await;
        drop(store);
        assert_eq!(all(&open(&path)), 1, "{name}");
        let names: Vec<String> =
            std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.iter().any(|it| it.starts_with(&format!("{name}.corrupt-"))), "{names:?}");
    }
}

#[tokio::test]
async fn a_file_that_another_process_holds_is_taken_over_when_that_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let first = open(&path);
    sent(&first, "first", None, Told::Unknown).await;
    let second = open(&path);
    assert!(!second.is_durable() && of(&second, "first").is_none(), "what is being written is not read");
    sent(&second, "second", None, Told::Unknown).await;
    drop(first);
    eventually(|| second.is_durable()).await;
    assert!(of(&second, "first").is_some() && of(&second, "second").is_some());
    drop(second);
    let third = open(&path);
    assert!(of(&third, "first").is_some() && of(&third, "second").is_some());
}

#[test]
fn a_file_of_somebody_else_or_of_a_later_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (name, batch, why) in [
        ("foreign", "CREATE TABLE theirs (a)", "not_a_journal"),
        (
            "later",
            "CREATE TABLE placement (a); PRAGMA application_id=1330271046; PRAGMA user_version=5",
            "written_by_a_later_version",
        ),
    ] {
        let path = dir.path().join(name);
        Connection::open(&path).unwrap().execute_batch(batch).unwrap();
        let before = std::fs::read(&path).unwrap();
        assert_eq!(Sqlite::open(&path).map(drop), Err(Trouble::Unusable(why)));
        assert_eq!(Sqlite::open_to_read(&path).map(drop), Err(Trouble::Unusable(why)));
        assert!(!open(&path).is_durable());
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
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
    let mut sqlite = Sqlite::open(&path).unwrap();
    sqlite.health().unwrap();
    sqlite.append(&[&row(1, "a")]).unwrap();
    assert_eq!(modes(), [0o600; 2], "the file and its log");
    drop(sqlite);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _open = Sqlite::open(&path).unwrap();
    assert!(modes().iter().all(|mode| *mode == 0o600), "those of an older version, too");
}

#[tokio::test]
async fn fingerprints_are_text_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    sent(&open(&path), "a", Some(0xab), stored("a")).await;
    let connection = Connection::open(&path).unwrap();
    let document: String = connection.query_row("SELECT document FROM placement", [], |row| row.get(0)).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["identity"]["key"], "ab".repeat(32));
    assert_eq!(document["identity"]["content"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_switch_is_there_after_a_kill_and_one_that_ended_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open(&path);
    let order = |region: &str| {
        let query = format!("switch=drain&region={region}&for=1h&reason=r&ticket=t&author=a");
        crate::switch::Order::read(&query, true).unwrap()
    };
    let unix_ms = Clock::system().unix_ms();
    for region in ["a", "b"] {
        let set = store.change_switches(|all, now| all.set(order(region).switch(now, unix_ms).unwrap())).await;
        assert_eq!(set, ((), true), "it is on disk");
    }
    store.change_switches(|all, _| all.end(None, &order("a").subject)).await;
    let killed = dir.path().join("killed");
    copy(&path, &killed, usize::MAX);
    let left = open(&killed).switches();
    let regions: Vec<_> = left.iter().filter_map(|it| it.subject.region()).map(RegionId::as_str).collect();
    assert_eq!(regions, ["b"]);
}
