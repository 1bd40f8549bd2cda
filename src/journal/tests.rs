mod clock;
mod file;
mod leases;
mod older;
mod outcomes;
mod unwritable;

use std::path::Path;

use rusqlite::Connection;

use super::engine::{Engine as _, Trouble};
use super::sqlite::Sqlite;
use super::*;
use crate::base::{RegionId, SteeredTime};
use crate::outcome::{Event, Identity, Lost, Place, Rules, Settlement, ShownTo, Told};

const TENANT: Digest = [9; 32];
const RULES: Rules = Rules { grace: Duration::from_secs(2), lag: Duration::ZERO };

fn region(id: &str) -> RegionId {
    RegionId::parse(id).unwrap()
}

fn identity(key: Option<u8>) -> Identity {
    Identity {
        tenant: TENANT,
        caller: [3; 32],
        shown_to: ShownTo::Everybody,
        body: [1; 32],
        content: None,
        key: key.map(|key| [key; 32]),
        own_id: None,
        request_id: "req_1".to_owned(),
    }
}

fn place(job_id: &str) -> Place {
    Place { region: region("us-east-1"), job_id: job_id.to_owned() }
}

/// What is known of the newest with this id.
fn of(store: &Journal, job_id: &str) -> Option<Placement> {
    store.of_id(job_id, || TENANT).into_iter().next()
}

/// A job that was sent, and whose client was told this.
async fn sent(store: &Arc<Journal>, job_id: &str, key: Option<u8>, told: Told) {
    let mut hold = store.begin(identity(key), RULES);
    hold.apply(Event::Sending(place(job_id), Some("tracked".to_owned())));
    hold.save_durably().await;
    match told {
        Told::Stored { .. } => hold.apply(Event::Stored(0)),
        _ => hold.apply(Event::Lost(0, Lost::Ended)),
    }
    hold.end_durably(told).await;
}

/// A call whose job is on its way; nothing more is written of it before it is dropped.
async fn sending(store: &Arc<Journal>, job_id: &str) -> Hold {
    let mut hold = store.begin(identity(None), RULES);
    hold.apply(Event::Sending(place(job_id), None));
    hold.save_durably().await;
    hold
}

/// As one that `sent` has recorded, for a file or a table.
fn row(number: u64, job_id: &str) -> Change {
    let mut placement = Placement::new(identity(None), Moment(1_800_000_000_000), 1_800_000_000_000);
    placement.apply(Event::Sending(place(job_id), None), placement.at, RULES);
    placement.apply(Event::Lost(0, Lost::Ended), placement.at, RULES);
    placement.apply(Event::Told(Told::Unknown), placement.at, RULES);
    Change::Placement(7, Placement { number, ..placement })
}

/// What becomes of one that is known to the background.
fn settle(store: &Journal, job_id: &str, how: Settlement) {
    let mut found = store.found(of(store, job_id).unwrap().number).unwrap();
    found.placement.apply(Event::Settled(how), store.now(), RULES);
    assert!(store.update(&mut found));
}

fn all(store: &Journal) -> usize {
    store.placements(1_000, |_| true).len()
}

fn stored(job_id: &str) -> Told {
    Told::Stored { place: place(job_id), status: 201 }
}

/// A store that tries a file which it cannot use at every turn.
fn open_at(path: Option<&Path>, rows_max: usize) -> Arc<Journal> {
    open_by(path, rows_max, Clock::system())
}

fn open_by(path: Option<&Path>, rows_max: usize, clock: Clock) -> Arc<Journal> {
    let config = crate::config::Journal { path: path.map(Path::to_owned), required: false, rows_max };
    let metrics = Metrics::new(&[], &[]);
    Arc::new(Journal::open_with(&config, clock, metrics, Duration::from_millis(1)))
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
async fn what_was_recorded_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open(&path);
    sent(&store, "a", None, Told::Unknown).await;
    sent(&store, "b", Some(1), stored("b")).await;
    assert!(store.is_durable());
    assert_eq!((writes(&store, JournalWrite::Failed), writes(&store, JournalWrite::Late)), (0, 0));
    let (first, secret) = (of(&store, "a").unwrap().number, store.secret());
    drop(store);
    let store = open(&path);
    assert_eq!(store.secret(), secret, "callers are recognised");
    assert_eq!(of(&store, "a").map(|it| (it.number, it.state())), Some((first, State::Unknown)));
    assert_eq!(store.of_key(&[1; 32]).and_then(|it| it.stored().cloned()), Some(place("b")));
    assert_eq!(store.pending(), 1);
    sent(&store, "c", None, Told::Unknown).await;
    assert!(of(&store, "c").unwrap().number > first, "numbers go on rising");
}

#[tokio::test]
async fn what_left_nothing_behind_is_forgotten() {
    let store = open_at(None, 100);
    let mut hold = store.begin(identity(Some(7)), RULES);
    hold.apply(Event::Sending(place("a"), None));
    hold.save();
    hold.apply(Event::NotStored(0));
    hold.end(Told::Refused);
    assert_eq!((store.of_key(&[7; 32]), store.pending()), (None, 0));
}

#[tokio::test]
async fn an_id_whose_response_may_not_be_sent_is_known_after_a_kill() {
    let time = SteeredTime::starting_at(1_800_000_000_000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let store = open_by(Some(&path), 100, Clock::new(Arc::new(Arc::clone(&time))));
    let mut hold = store.begin(Identity { own_id: Some("own".to_owned()), ..identity(None) }, RULES);
    hold.apply(Event::Sending(place("own"), None));
    assert!(hold.save_durably().await);
    hold.apply(Event::Stored(0));
    hold.end(stored("own"));
    assert_eq!(of(&store, "own"), None, "a repetition is the region's to answer");
    // The thread has written the end of the call once it has written this.
    sent(&store, "later", None, Told::Unknown).await;
    assert!(of(&open(&as_killed_now(dir.path())), "own").is_some(), "the kernel may not have had the response");
    time.advance(Duration::from_secs(1));
    sent(&store, "last", None, Told::Unknown).await;
    assert_eq!(of(&open(&as_killed_now(dir.path())), "own"), None);
}

/// The journal's file as the next process finds it where this one is killed at this moment.
fn as_killed_now(folder: &Path) -> PathBuf {
    let copy = folder.join(format!("killed-{}", std::fs::read_dir(folder).unwrap().count()));
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        std::fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    copy.join("journal")
}

#[tokio::test]
async fn without_a_file_the_same_is_kept_in_memory_within_the_same_bounds() {
    let store = open_at(None, 100);
    sent(&store, "open", None, Told::Unknown).await;
    for number in 0..=255_u8 {
        sent(&store, &format!("job-{number}"), Some(number), stored(&format!("job-{number}"))).await;
    }
    assert!(of(&store, "open").is_some(), "what is open goes last");
    assert!(store.of_key(&[155; 32]).is_none() && store.of_key(&[156; 32]).is_some());
    assert_eq!(store.inner.metrics.journal_evictions[JournalEviction::Key].get(), 156);
    assert!(!store.is_durable());
}

#[tokio::test]
async fn what_a_call_has_is_nobody_elses_until_it_is_over() {
    let store = open_at(None, 100);
    let mut hold = store.begin(identity(None), RULES);
    hold.apply(Event::Sending(place("a"), None));
    hold.save();
    let number = hold.placement().number;
    assert!(store.hold(number, RULES).is_none() && store.found(number).is_none());
    drop(hold);
    let mut found = store.found(number).unwrap();
    assert_eq!(found.placement.state(), State::Unknown, "a call that breaks off leaves it unknown");
    let mut older = found.clone();
    assert!(store.update(&mut found) && !store.update(&mut older), "nothing is written over what is newer");
}

#[tokio::test]
async fn what_a_call_is_busy_with_never_makes_room_for_others() {
    let store = open_at(None, 3);
    let busy = sending(&store, "busy").await;
    for number in 0..10 {
        sent(&store, &format!("job-{number}"), None, Told::Unknown).await;
    }
    assert!(of(&store, "busy").is_some() && of(&store, "job-9").is_some() && of(&store, "job-7").is_none());
    assert_eq!(store.inner.metrics.journal_evictions[JournalEviction::Pending].get(), 8);
    drop(busy);
    sent(&store, "last", None, Told::Unknown).await;
    assert_eq!(of(&store, "busy"), None);
}

#[tokio::test]
async fn what_has_ended_makes_room_before_what_is_open() {
    let store = open_at(None, 3);
    for job_id in ["first", "ended", "last"] {
        sent(&store, job_id, None, Told::Unknown).await;
    }
    settle(&store, "ended", Settlement::Absent);
    sent(&store, "new", None, Told::Unknown).await;
    let there = |job_id| of(&store, job_id).is_some();
    assert_eq!(["first", "ended", "last", "new"].map(there), [true, false, true, true]);
    assert_eq!(store.inner.metrics.journal_evictions[JournalEviction::Resolved].get(), 1);
}

#[tokio::test]
async fn a_key_leads_to_what_came_with_it_last_and_is_as_young_as_that() {
    let store = open_at(None, 3);
    for (job_id, key) in [("a", 1), ("b", 2), ("again", 1), ("c", 3), ("d", 4)] {
        sent(&store, job_id, Some(key), stored(job_id)).await;
    }
    assert_eq!(store.of_key(&[1; 32]).and_then(|it| it.stored().cloned()), Some(place("again")));
    assert!(store.of_key(&[2; 32]).is_none(), "the oldest key makes room");
    assert_eq!(store.inner.metrics.journal_evictions[JournalEviction::Key].get(), 1);
}

#[tokio::test]
async fn what_was_sent_under_an_id_is_found_by_it_and_only_by_its_tenant() {
    let store = open_at(None, 100);
    sent(&store, "a", None, Told::Unknown).await;
    sent(&store, "a", None, Told::Unknown).await;
    let mut other = store.begin(Identity { tenant: [8; 32], ..identity(None) }, RULES);
    other.apply(Event::Sending(place("a"), None));
    other.end(Told::Unknown);
    let numbers: Vec<u64> = store.of_id("a", || TENANT).iter().map(|it| it.number).collect();
    assert!(numbers.len() == 2 && numbers[0] > numbers[1], "the newest first: {numbers:?}");
    // It went on under another id.
    let mut found = store.found(numbers[1]).unwrap();
    found.placement.apply(Event::Sending(place("a2"), None), store.now(), RULES);
    assert!(store.update(&mut found));
    assert_eq!(of(&store, "a2").map(|it| it.number), Some(numbers[1]), "also by the id that it went on with");
}

#[test]
fn a_file_that_is_opened_again_brings_nothing_back() {
    let mut table = Table::new(10, 1);
    let of_run = |number: u64, run: u64| match row(number, &format!("job-{number}")) {
        Change::Placement(_, placement) => Change::Placement(run, placement),
        other => other,
    };
    let file = || vec![of_run(1, 1), of_run(2, 2), of_run(3, 2)];
    let now = Moment(1_800_000_000_000);
    table.merge(file(), now, RULES);
    let has = |table: &Table| [1, 2, 3, 4].map(|number| table.found(number).is_some());
    assert_eq!(has(&table), [false, true, true, false], "what this run has forgotten stays so");
    table.forget(2, &mut Vec::new());
    let mut found = table.found(3).unwrap();
    found.placement.apply(Event::Settled(Settlement::Absent), now, RULES);
    assert!(table.update(&mut found, &mut Vec::new()));
    table.merge([file(), vec![of_run(4, 3)]].concat(), now, RULES);
    assert_eq!(has(&table), [false, false, true, true]);
    assert_eq!(table.found(3).unwrap().placement.state(), State::Absent);
}

/// The thread's whole life, with what waits for it in its queue.
fn write_to(path: &Path, store: &Journal, waiting: Vec<Change>) {
    let (work, queue) = mpsc::sync_channel(QUEUE_MAX);
    for change in waiting {
        work.try_send(Work { changes: vec![change], done: None }).unwrap();
    }
    drop(work);
    store.inner.missed.store(true, Relaxed);
    let writer = Writer::new(path.to_owned(), Arc::clone(&store.inner), Duration::from_secs(1));
    writer.run(&queue, &mpsc::channel().0);
}

#[tokio::test]
async fn what_waited_for_the_disk_is_never_written_over_what_is_newer() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(None, 100);
    sent(&store, "a", None, Told::Unknown).await;
    let older = of(&store, "a").unwrap();
    settle(&store, "a", Settlement::Absent);
    for (name, waiting) in [("queued", vec![Change::Placement(1, older); 2]), ("ended", Vec::new())] {
        let path = dir.path().join(name);
        write_to(&path, &store, waiting);
        assert_eq!(of(&open(&path), "a").map(|it| it.state()), Some(State::Absent), "{name}");
    }
}
