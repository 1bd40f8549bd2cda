//! The thread and the table over a disk that fails, or is late, when the test says so.

mod ends;
mod figures;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::uri::PathAndQuery;
use parking_lot::{Condvar, Mutex};

use super::disk::{Change, Disk, Open, Sqlite, Trouble};
use super::row::Row;
use super::*;
use crate::base::{RegionId, SteeredTime};
use crate::outcome::{Absence, Fate, Identity, Place, ShownTo};
use crate::replica::Seal;

/// The behaviour of the next commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Well,
    /// It fails, and nothing is written.
    Fails,
    /// The pages that it changes are damaged.
    IsDamaged,
    /// It is written, and fails all the same.
    FailsLate,
    /// It waits for another word.
    Waits,
}

#[derive(Debug)]
struct Control {
    next: Mutex<Next>,
    told: Condvar,
    /// Whether the file cannot be opened.
    is_closed: AtomicBool,
    /// The trouble of the next read.
    read: Mutex<Option<Trouble>>,
}

impl Control {
    fn set(&self, next: Next) {
        *self.next.lock() = next;
        self.told.notify_all();
    }

    fn close(&self) {
        self.is_closed.store(true, SeqCst);
    }

    fn open(&self) {
        self.is_closed.store(false, SeqCst);
    }

    fn take(&self) -> Next {
        let mut next = self.next.lock();
        while *next == Next::Waits {
            self.told.wait(&mut next);
        }
        std::mem::replace(&mut *next, Next::Well)
    }
}

struct Steered {
    file: Sqlite,
    control: Arc<Control>,
}

impl Disk for Steered {
    fn rows(&mut self) -> Result<Vec<Row>, Trouble> {
        self.file.rows()
    }

    fn content(&mut self, number: u64) -> Result<Option<(String, Vec<u8>)>, Trouble> {
        match self.control.read.lock().take() {
            Some(trouble) => Err(trouble),
            None => self.file.content(number),
        }
    }

    fn commit(&mut self, changes: &[&Change]) -> Result<(), Trouble> {
        match self.control.take() {
            Next::Fails => Err("io_error"),
            Next::IsDamaged => Err("corrupt"),
            Next::FailsLate => self.file.commit(changes).and(Err("io_error")),
            Next::Well | Next::Waits => self.file.commit(changes),
        }
    }
}

struct Stage {
    dir: tempfile::TempDir,
    time: Arc<SteeredTime>,
    control: Arc<Control>,
    key: &'static str,
    pages_max: Option<u32>,
}

impl Stage {
    fn new() -> Self {
        let control = Arc::new(Control {
            next: Mutex::new(Next::Well),
            told: Condvar::new(),
            is_closed: false.into(),
            read: Mutex::new(None),
        });
        let time = SteeredTime::starting_at(1_000_000);
        Self { dir: tempfile::tempdir().unwrap(), time, control, key: "11", pages_max: None }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("spool")
    }

    fn open(&self) -> Arc<Spool> {
        let mut config = crate::policy::testing::config(&["a"]).spool;
        config.queues = vec!["*".to_owned()];
        let (path, control, key, pages_max) = (self.path(), Arc::clone(&self.control), self.key, self.pages_max);
        let open: Open = Box::new(move || {
            let seal = Seal::of_digits(&key.repeat(32)).unwrap();
            if control.is_closed.load(SeqCst) {
                return Err("cannot_open");
            }
            let file = Sqlite::open(&path, &seal, [1; 12])?;
            pages_max.iter().for_each(|pages| file.set_pages_max(*pages));
            Ok((Box::new(Steered { file, control: Arc::clone(&control) }) as Box<dyn Disk>, seal))
        });
        let clock = Clock::new(Arc::new(Arc::clone(&self.time)));
        let inner = inner_of(self.path(), clock, Metrics::new(&[], &[]));
        let waits = (Duration::from_millis(1), Duration::from_millis(200));
        Arc::new(Spool::start(&config, inner, open, waits))
    }
}

fn head(id: &str) -> Head {
    let identity = Identity {
        tenant: [0; 32],
        caller: [0; 32],
        shown_to: ShownTo::Everybody,
        body: [1; 32],
        content: None,
        key: None,
        own_id: Some(id.to_owned()),
        request_id: String::new(),
    };
    Head { identity, federation_id: None, is_own_federation_id: false, lane: lane(), unix_ms: 1_000_000 }
}

fn lane() -> Lane {
    Lane { queue: "q".to_owned(), pin: None }
}

fn content(id: &str) -> Content {
    let body = Bytes::from(format!(r#"{{"id":"{id}"}}"#));
    Content { path: PathAndQuery::from_static("/ojs/v1/jobs"), headers: HeaderMap::new(), body }
}

async fn store(spool: &Spool, id: &str, nonce: u8) -> Stored {
    spool.store(head(id), content(id), Vec::new(), [nonce; 12]).await
}

/// Waits for the thread.
async fn until(mut is_true: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is_true() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("this did not come true");
}

fn ids(spool: &Spool) -> Vec<String> {
    spool.list(100, |_| true).into_iter().filter_map(|it| it.job_id).collect()
}

async fn ready(spool: &Spool) {
    until(|| spool.health() == Health::Ready).await;
}

#[tokio::test]
async fn a_commit_that_fails_is_unknown_holds_no_lane_and_what_got_into_the_file_is_taken_once() {
    for (next, got_in) in [(Next::Fails, false), (Next::FailsLate, true)] {
        let stage = Stage::new();
        let spool = stage.open();
        let beside = Lane { queue: "beside".to_owned(), pin: None };
        stage.control.set(next);
        stage.control.close();
        assert!(matches!(store(&spool, "a", 2).await, Stored::Unknown), "{next:?}");
        assert!(spool.is_storing("a", &[0; 32]), "its name stays while the file has not said");
        assert_eq!(spool.way(&beside, true), Way::Direct, "other lanes know all that they need");
        stage.control.open();
        ready(&spool).await;
        assert!(!spool.is_storing("a", &[0; 32]));
        assert_eq!(ids(&spool), if got_in { vec!["a"] } else { vec![] }, "{next:?}");
        let way = if got_in { Way::Behind } else { Way::Direct };
        assert_eq!(spool.way(&lane(), false), way, "{next:?}: the lane goes on");
        if let Some(taken) = spool.take() {
            assert!(got_in);
            assert_eq!(taken.load().await.unwrap(), content("a"));
            taken.done().await;
        }
        assert!(spool.take().is_none());
        drop(spool);
        assert!(ids(&stage.open()).is_empty());
    }
}

#[tokio::test]
async fn an_order_of_unknown_end_is_as_the_file_has_it() {
    let stage = Stage::new();
    let spool = stage.open();
    assert!(matches!(store(&spool, "a", 2).await, Stored::Held));
    stage.control.set(Next::FailsLate);
    spool.take().unwrap().set_aside(RowState::Refused, "region_422".to_owned()).await;
    until(|| spool.counts().refused == 1).await;
    ready(&spool).await;
    stage.control.set(Next::FailsLate);
    assert_eq!(spool.retry("a").await, Ordered::Unknown);
    until(|| spool.counts().waiting == 1).await;
    assert_eq!(spool.take().unwrap().head().job_id(), "a");
}

#[tokio::test]
async fn a_caller_that_gives_up_gets_an_unknown_outcome_and_its_row_is_taken_once_it_is_there() {
    let stage = Stage::new();
    let spool = stage.open();
    stage.control.set(Next::Waits);
    assert!(matches!(store(&spool, "a", 2).await, Stored::Unknown));
    assert_eq!(spool.way(&lane(), false), Way::Direct, "no job waits behind one that may never be there");
    assert!(spool.take().is_none() && ids(&spool).is_empty());
    assert!(spool.is_storing("a", &[0; 32]));
    stage.control.set(Next::Well);
    until(|| ids(&spool) == ["a"]).await;
    assert_eq!(spool.way(&lane(), false), Way::Behind);
    let taken = spool.take().unwrap();
    assert!(spool.take().is_none(), "a lane sends one job at a time");
    taken.done().await;
    assert!(ids(&spool).is_empty() && spool.take().is_none());
}

#[tokio::test]
async fn a_row_that_never_reached_the_file_is_refused_and_a_full_disk_is_unknown_once_and_refused_then() {
    let mut stage = Stage::new();
    stage.pages_max = Some(8);
    let spool = stage.open();
    let mut held = Vec::new();
    let mut ended = Vec::new();
    for number in 0..40_u8 {
        let id = format!("job-{number}");
        let mut content = content(&id);
        content.body = Bytes::from(vec![b'x'; 4_000]);
        match spool.store(head(&id), content, Vec::new(), [number; 12]).await {
            Stored::Held => held.push(id),
            Stored::Unknown => ended.push("unknown"),
            Stored::Refused(Refused::Unusable) => ended.push("refused"),
            other => panic!("{other:?}"),
        }
    }
    assert!(!held.is_empty() && ended.contains(&"unknown"), "{ended:?}");
    ready(&spool).await;
    assert_eq!(ids(&spool), held, "each that was held is there, and no other");
    drop(spool);
    stage.pages_max = None;
    assert_eq!(ids(&stage.open()), held);
}

#[tokio::test]
async fn one_damaged_row_is_set_aside_once_and_the_others_are_served() {
    let stage = Stage::new();
    let spool = stage.open();
    for (at, id) in ["a", "b", "c"].iter().enumerate() {
        assert!(matches!(store(&spool, id, u8::try_from(at).unwrap() + 2).await, Stored::Held));
    }
    drop(spool);
    let file = rusqlite::Connection::open(stage.path()).unwrap();
    // The content of one row in another one, and names that cannot be read.
    file.execute("UPDATE job SET sealed = (SELECT sealed FROM job WHERE number = 2) WHERE number = 1", []).unwrap();
    file.execute("UPDATE job SET head = 'x' WHERE number = 2", []).unwrap();
    drop(file);
    let spool = stage.open();
    until(|| spool.counts().damaged == 1).await;
    let taken = spool.take().unwrap();
    assert_eq!((taken.head().job_id(), taken.load().await.unwrap_err()), ("a", Unloaded::ForGood));
    drop(taken);
    let taken = spool.take().unwrap();
    assert_eq!((taken.head().job_id(), taken.load().await.unwrap()), ("c", content("c")));
    drop(taken);
    let damaged = |spool: &Spool| spool.inner.metrics.spool.results[crate::telemetry::SpoolResult::Damaged].get();
    assert_eq!((spool.counts().damaged, spool.counts().waiting, damaged(&spool)), (2, 1, 2));
    assert_eq!(spool.retry("a").await, Ordered::Damaged, "where it was sent may be lost, too");
    assert_eq!(spool.discard("2").await, Ordered::Done, "by its number");
    drop(spool);
    let spool = stage.open();
    assert_eq!((spool.counts().damaged, damaged(&spool)), (1, 0), "it is reported once");
    assert_eq!(ids(&spool), ["a", "c"]);
}

#[tokio::test]
async fn a_file_with_another_key_or_another_owner_or_of_another_program_is_left_as_it_is() {
    let mut stage = Stage::new();
    let spool = stage.open();
    assert!(matches!(store(&spool, "a", 2).await, Stored::Held));
    let beside = stage.open();
    assert_eq!(beside.health(), Health::Unusable("held_by_another_process"));
    assert!(matches!(store(&beside, "b", 3).await, Stored::Refused(Refused::Unusable)));
    assert_eq!((beside.way(&lane(), true), beside.way(&lane(), false)), (Way::NotRead, Way::Direct));
    drop(spool);
    ready(&beside).await;
    assert_eq!(ids(&beside), ["a"], "it is tried again");
    drop(beside);
    stage.key = "22";
    assert_eq!(stage.open().health(), Health::Unusable("wrong_key"));
    stage.key = "11";
    assert_eq!(ids(&stage.open()), ["a"]);
    let other = Stage::new();
    std::fs::write(other.path(), "no database, but longer than a head of one").unwrap();
    let health = other.open().health();
    assert!(matches!(health, Health::Unusable("corrupt" | "not_a_spool")), "{health:?}");
    assert!(std::fs::read(other.path()).unwrap().starts_with(b"no database"));
}

#[tokio::test]
async fn a_recorded_send_outlives_the_process_and_keeps_its_job_from_a_cancellation() {
    let stage = Stage::new();
    let spool = stage.open();
    for (id, nonce) in [("a", 2), ("b", 3)] {
        assert!(matches!(store(&spool, id, nonce).await, Stored::Held));
    }
    let place = Place { region: RegionId::parse("r").unwrap(), job_id: "a".to_owned() };
    let copy = Copy::sending(place, None, crate::outcome::Moment(5));
    let mut taken = spool.take().unwrap();
    assert!(taken.record(std::slice::from_ref(&copy)).await);
    drop((taken, spool));
    let spool = stage.open();
    let known = |id: &str| spool.of_id(id, || [0; 32]).unwrap();
    assert_eq!(spool.cancel(&known("a")).await, Ordered::Sent);
    assert_eq!(spool.cancel(&known("b")).await, Ordered::Done);
    assert_eq!(spool.take().unwrap().copies, [copy]);
    assert!(spool.of_id("a", || [9; 32]).is_none(), "an id is its tenant's own");
}
