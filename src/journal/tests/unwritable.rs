//! Files that cannot be written: what they hold is known all the same, nothing of them is changed, and they are tried again.

use super::file::copy;
use super::*;

/// Names, lengths and contents of all files of a folder.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let mut files: Vec<_> =
        files.map(|path| (path.to_str().unwrap().to_owned(), std::fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_keeps_the_journal_in_memory_until_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("later");
    let store = open(&folder.join("journal"));
    assert!(!store.is_durable());
    let mut call = store.begin(identity(None), RULES);
    call.apply(Event::Sending(place("a"), None));
    assert!(!call.save_durably().await, "who must know is told");
    assert_eq!(writes(&store, JournalWrite::Failed), 1);
    drop(call);
    assert!(of(&store, "a").is_some(), "it is known all the same");
    std::fs::create_dir(&folder).unwrap();
    eventually(|| store.is_durable()).await;
    drop(store);
    assert!(of(&open(&folder.join("journal")), "a").is_some(), "the file got what it had missed");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_read_and_gets_what_it_has_missed_when_it_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let (path, log) = (dir.path().join("journal"), dir.path().join("journal-wal"));
    let first = open(&path);
    sent(&first, "a", Some(1), stored("a")).await;
    sent(&first, "b", None, Told::Unknown).await;
    let secret = first.secret();
    drop(first);
    // No log can be made, whoever runs the test.
    std::fs::create_dir(&log).unwrap();
    let before = contents(dir.path());
    let second = open(&path);
    assert!(!second.is_durable());
    assert_eq!(second.of_key(&[1; 32]).and_then(|it| it.stored().cloned()), Some(place("a")));
    assert_eq!((of(&second, "b").map(|it| it.state()), second.secret()), (Some(State::Unknown), secret));
    sent(&second, "c", None, Told::Unknown).await;
    settle(&second, "b", Settlement::Absent);
    assert_eq!(contents(dir.path()), before, "nothing was moved, and nothing written");
    std::fs::remove_dir(&log).unwrap();
    eventually(|| second.is_durable()).await;
    drop(second);
    let third = open(&path);
    let state = |job_id| of(&third, job_id).map(|it| it.state());
    assert_eq!(["a", "b", "c"].map(state), [State::Stored, State::Absent, State::Unknown].map(Some));
    assert!(third.of_key(&[1; 32]).is_some());
}

#[tokio::test]
async fn what_is_only_in_the_log_is_read_without_writing_anything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open(&path);
    let mut calls = Vec::new();
    for number in 0..20 {
        calls.push(sending(&store, &format!("job-{number}")).await);
    }
    // In a name that is no part of a URI.
    let folder = dir.path().join("read only?mode=rwc#%41");
    std::fs::create_dir(&folder).unwrap();
    let copied = folder.join("journal");
    copy(&path, &copied, usize::MAX);
    let before = contents(&folder);
    let rows = Sqlite::open_to_read(&copied).unwrap().load().unwrap();
    let jobs = rows.iter().filter(|change| matches!(change, Change::Placement(..))).count();
    assert_eq!(jobs, 20);
    assert_eq!(contents(&folder), before);
}

#[test]
fn a_full_disk_fails_the_write_and_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let mut sqlite = Sqlite::open(&path).unwrap();
    sqlite.health().unwrap();
    let rows: Vec<Change> = (1..=2_000).map(|number| row(number, &format!("job-{number}"))).collect();
    let rows: Vec<&Change> = rows.iter().collect();
    sqlite.append(&rows[..10]).unwrap();
    sqlite.set_pages_max(16);
    assert_eq!(sqlite.append(&rows[10..]), Err(Trouble::FULL));
    drop(sqlite);
    assert_eq!(Sqlite::open(&path).unwrap().load().unwrap().len(), 10);
}

#[tokio::test]
async fn a_switch_that_ended_while_the_file_could_not_be_written_stays_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (path, log) = (dir.path().join("journal"), dir.path().join("journal-wal"));
    let order = crate::switch::Order::read("switch=maintenance&for=1h&reason=r&ticket=t&author=a", true).unwrap();
    let first = open(&path);
    first.change_switches(|all, now| all.set(order.switch(now, Clock::system().unix_ms()).unwrap())).await;
    drop(first);
    std::fs::create_dir(&log).unwrap();
    let second = open(&path);
    assert!(second.switches().is_maintenance());
    let (ended, is_durable) = second.change_switches(|all, _| all.end(order.kind, &order.subject)).await;
    assert_eq!((ended.len(), is_durable), (1, false));
    std::fs::remove_dir(&log).unwrap();
    eventually(|| second.is_durable()).await;
    assert!(!second.switches().is_maintenance(), "the file had it still");
    drop(second);
    assert!(!open(&path).switches().is_maintenance());
}
