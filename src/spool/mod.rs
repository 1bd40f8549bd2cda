//! The outage spool: jobs that no permitted region could take, durably beside the pod until one can.
//!
//! A job is in the file, sealed, before its client hears of it. The names and the order of all jobs are in memory, their content is not. One
//! thread does the I/O, and memory follows its commits. The drain takes the first job of each lane ([`Spool::take`]), records each send before
//! its first byte leaves ([`Taken::record`]), and removes the row once a region has the job.
//!
//! Invariants: a row is sent by one task at a time; a row with a recorded send is looked up before it is sent again; a row that is set aside
//! is never deleted but by an order.

mod aside;
mod disk;
mod failures;
mod head;
mod inner;
mod row;
mod table;
mod taken;
#[cfg(test)]
mod tests;
mod work;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

pub use aside::{Counts, Listed, Ordered};
pub use failures::Failures;
pub use head::{Head, Lane};
pub use inner::Health;
pub use row::RowState;
pub use taken::{Taken, Unloaded};

use crate::base::Clock;
use crate::config;
use crate::outcome::{Copy, Digest};
use crate::policy::Glob;
use crate::replica::Seal;
pub use crate::replica::{Content, RowNonce};
use crate::telemetry::Metrics;
use disk::{Disk, Open, ROW_BYTES, Sqlite};
use inner::Inner;
use table::{Entry, Phase, Table};
use work::{Loaded, Work, Written};
use writer::Writer;

/// The longest job that is spooled: a quarter of the longest that SDKs send without a warning, and short enough that the spool holds hundreds of
/// them, and that reading one back takes less than a call. Units: bytes.
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// Work that waits for the disk: some batches; more means that the disk does not keep up.
const QUEUE_MAX: usize = 1_024;
/// How long a call waits for its row: many times as long as a sync of a healthy disk takes.
const STORE_WAIT: Duration = Duration::from_secs(2);
/// How long the start waits for the file: reading the most rows takes a fraction of it.
const OPEN_WAIT: Duration = Duration::from_secs(5);
/// How long the end of the process waits for commits under way.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// How long a file that cannot be used is left alone.
const RETRY: Duration = Duration::from_secs(1);

/// The spool; shared by all threads, and kept over reloads. Dropped, it finishes the commits that were ordered.
#[derive(Debug)]
pub struct Spool {
    inner: Arc<Inner>,
    queues: Vec<Glob>,
    bytes_max: u64,
    age_max: Duration,
    store_wait: Duration,
    work: Option<SyncSender<Work>>,
    /// Receives one message when the file is open; closed when the thread has ended.
    writing: Option<Mutex<Receiver<()>>>,
}

/// The way of a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Past the spool.
    Direct,
    /// Behind the jobs of its lane.
    Behind,
    /// Nowhere: the content of the file is not known yet.
    NotRead,
}

/// Why a job is not spooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The job is too long.
    TooLong,
    /// `spool.max_bytes` are used.
    Full,
    /// The file cannot be used, or the disk does not keep up.
    Unusable,
}

/// The end of an order to spool a job.
#[derive(Debug)]
pub enum Stored {
    /// It is in the file.
    Held,
    /// A job of the same name and body was there.
    Known(Box<Known>),
    /// Nothing was stored.
    Refused(Refused),
    /// It may be in the file or not.
    Unknown,
}

/// A job that a call names.
#[derive(Debug, Clone)]
pub struct Known {
    /// Its number.
    pub number: u64,
    /// Its names.
    pub head: Head,
    /// Its state.
    pub state: RowState,
}

impl Spool {
    /// Opens the spool, where one is configured, and reads its file. A file that cannot be used is logged and tried again.
    #[must_use]
    pub fn open(config: &config::Spool, clock: Clock, metrics: Arc<Metrics>) -> Option<Arc<Self>> {
        let path = config.path.clone()?;
        let (key_file, file) = (config.key_file.clone(), path.clone());
        let open: Open = Box::new(move || {
            let seal = key_file.as_deref().ok_or("no_key").and_then(Seal::of_file)?;
            let mut nonce = RowNonce::default();
            aws_lc_rs::rand::fill(&mut nonce).map_err(|_| "no_random_bytes")?;
            Ok((Box::new(Sqlite::open(&file, &seal, nonce)?) as Box<dyn Disk>, seal))
        });
        let inner = inner_of(path, clock, metrics);
        Some(Arc::new(Self::start(config, inner, open, (RETRY, STORE_WAIT))))
    }

    fn start(config: &config::Spool, inner: Arc<Inner>, open: Open, (retry, store_wait): (Duration, Duration)) -> Self {
        let (work, waiting) = mpsc::sync_channel(QUEUE_MAX);
        let (opened, is_open) = mpsc::channel();
        let writer = Writer::new(Arc::clone(&inner), open, retry);
        let body = move || writer.run(&waiting, &opened);
        let mut spool = Self {
            queues: config.queues.iter().map(|pattern| Glob::new(pattern)).collect(),
            bytes_max: config.max_bytes as u64,
            age_max: config.max_age,
            store_wait,
            inner,
            work: None,
            writing: None,
        };
        match std::thread::Builder::new().name("ojs-spool".to_owned()).spawn(body) {
            Ok(_) => {
                // A slow file is read meanwhile; until then calls are refused.
                let _ = is_open.recv_timeout(OPEN_WAIT);
                (spool.work, spool.writing) = (Some(work), Some(Mutex::new(is_open)));
            }
            Err(_) => spool.inner.set_health(Health::Unusable("no_thread")),
        }
        spool
    }

    /// Whether jobs of a queue are spooled.
    #[must_use]
    pub fn takes(&self, queue: &str) -> bool {
        self.queues.iter().any(|pattern| pattern.matches(queue))
    }

    /// Whether the content of the file is known and no job waits.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.inner.is_quiet.load(SeqCst)
    }

    /// The way of a new job of a queue that is spooled. `is_named`: its client may repeat it under its own name.
    #[must_use]
    pub fn way(&self, lane: &Lane, is_named: bool) -> Way {
        if self.is_quiet() {
            return Way::Direct;
        }
        if self.inner.table.lock().is_waiting(lane) {
            return Way::Behind;
        }
        let is_read = self.inner.is_read.load(SeqCst);
        let may_be_there = !is_read && (is_named || self.health() == Health::Opening);
        if may_be_there { Way::NotRead } else { Way::Direct }
    }

    /// The state of the file.
    #[must_use]
    pub fn health(&self) -> Health {
        *self.inner.health.lock()
    }

    /// The job that a tenant's call names by its id.
    #[must_use]
    pub fn of_id(&self, id: &str, tenant: impl FnOnce() -> Digest) -> Option<Known> {
        if !self.counts_any() {
            return None;
        }
        let table = self.inner.table.lock();
        table.of_id(id, &tenant()).filter(|(_, entry)| entry.is_stored()).and_then(known)
    }

    /// Whether a tenant's job with this id is being written, so that it may be in the file or not.
    #[must_use]
    pub fn is_storing(&self, id: &str, tenant: &Digest) -> bool {
        self.counts_any() && self.inner.table.lock().of_id(id, tenant).is_some_and(|(_, entry)| !entry.is_stored())
    }

    /// Whether a tenant's job with this tracking id of its client and this body is being written, so that it may be in the file or not.
    #[must_use]
    pub fn is_storing_tracked(&self, id: &str, tenant: &Digest, body: &Digest) -> bool {
        self.inner.table.lock().of_federation_id(id, tenant, body).is_some_and(|(_, entry)| !entry.is_stored())
    }

    /// Whether the content of the file is not known, because it could not be read since the start.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        !self.inner.is_read.load(SeqCst)
    }

    /// Whether any job is in it.
    #[must_use]
    pub fn counts_any(&self) -> bool {
        !self.inner.is_empty.load(SeqCst)
    }

    /// The job that a tenant's call repeats under its own tracking id.
    #[must_use]
    pub fn of_federation_id(&self, id: &str, tenant: &Digest, body: &Digest) -> Option<Known> {
        let table = self.inner.table.lock();
        table.of_federation_id(id, tenant, body).filter(|(_, entry)| entry.is_stored()).and_then(known)
    }

    /// Spools a job. `copies`: where it was sent before and proved to be absent.
    ///
    /// Cancel: the job may be spooled all the same.
    pub async fn store(&self, head: Head, content: Content, copies: Vec<Copy>, nonce: RowNonce) -> Stored {
        let (number, written) = match self.order_store(head, content, copies, nonce) {
            Ok(ordered) => ordered,
            Err(stored) => return stored,
        };
        match timeout(self.store_wait, written).await {
            Ok(Ok(Written::Durable)) => Stored::Held,
            Ok(Ok(Written::NotTried)) => Stored::Refused(Refused::Unusable),
            Ok(Ok(Written::Unknown)) => Stored::Unknown,
            Ok(Err(_)) | Err(_) => {
                let mut table = self.inner.table.lock();
                table.give_up(number);
                self.inner.look(&table);
                Stored::Unknown
            }
        }
    }

    fn order_store(
        &self,
        head: Head,
        content: Content,
        copies: Vec<Copy>,
        nonce: RowNonce,
    ) -> Result<(u64, oneshot::Receiver<Written>), Stored> {
        if content.body.len() > BODY_BYTES_MAX {
            return Err(Stored::Refused(Refused::TooLong));
        }
        if self.health() != Health::Ready {
            return Err(Stored::Refused(Refused::Unusable));
        }
        let now = self.inner.clock.now();
        let mut table = self.inner.table.lock();
        let (identity, federation_id) = (&head.identity, head.federation_id.as_deref());
        let same = table.of_id(head.job_id(), &identity.tenant).or_else(|| {
            let own = federation_id.filter(|_| head.is_own_federation_id)?;
            table.of_federation_id(own, &identity.tenant, &identity.body)
        });
        if let Some((number, entry)) = same {
            // One that is not in the file yet may never be.
            let known = if entry.is_stored() { known((number, entry)) } else { None };
            return Err(known.map_or(Stored::Refused(Refused::Unusable), |known| Stored::Known(Box::new(known))));
        }
        let bytes = content.body.len() as u64 + headers_bytes(&content) + ROW_BYTES;
        if table.bytes().saturating_add(bytes) > self.bytes_max {
            return Err(Stored::Refused(Refused::Full));
        }
        let number = table.next_number();
        let entry = Entry {
            since_ms: head.unix_ms,
            head: Some(head),
            state: RowState::Waiting,
            reason: None,
            phase: Phase::Storing,
            age_at: (Duration::ZERO, now),
            copies,
            failures: Failures::default(),
            bytes,
        };
        table.insert(number, entry, now);
        self.inner.look(&table);
        let (done, written) = oneshot::channel();
        if self.send(Work::Store(number, Box::new((content, nonce)), done)) {
            return Ok((number, written));
        }
        table.remove(number);
        self.inner.look(&table);
        Err(Stored::Refused(Refused::Unusable))
    }

    /// Hands work to the thread; called under the lock of the table where the order of rows matters.
    fn send(&self, work: Work) -> bool {
        self.work.as_ref().is_some_and(|to| to.try_send(work).is_ok())
    }

    /// Waits, for a bounded time, for the end of a change.
    async fn written(&self, work: impl FnOnce(oneshot::Sender<Written>) -> Work) -> Written {
        let (done, written) = oneshot::channel();
        if !self.send(work(done)) {
            return Written::NotTried;
        }
        let written = timeout(self.store_wait, written).await;
        written.ok().and_then(Result::ok).unwrap_or(Written::Unknown)
    }

    /// The content of a job; `None` where it cannot be read now.
    pub async fn content(&self, number: u64) -> Option<Content> {
        match self.loaded(number).await {
            Loaded::Content(content) => Some(content),
            Loaded::Damaged | Loaded::Gone | Loaded::NotNow => None,
        }
    }

    async fn loaded(&self, number: u64) -> Loaded {
        let (done, loaded) = oneshot::channel();
        if !self.send(Work::Load(number, done)) {
            return Loaded::NotNow;
        }
        timeout(self.store_wait, loaded).await.ok().and_then(Result::ok).unwrap_or(Loaded::NotNow)
    }
}

fn inner_of(path: std::path::PathBuf, clock: Clock, metrics: Arc<Metrics>) -> Arc<Inner> {
    Arc::new(Inner {
        table: Mutex::new(Table::default()),
        health: Mutex::new(Health::Opening),
        is_read: false.into(),
        is_quiet: false.into(),
        is_empty: true.into(),
        changed: Notify::new(),
        turned: Notify::new(),
        path,
        clock,
        metrics,
    })
}

fn headers_bytes(content: &Content) -> u64 {
    content.headers.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum()
}

fn known((number, entry): (u64, &Entry)) -> Option<Known> {
    Some(Known { number, head: entry.head.clone()?, state: entry.shown() })
}

impl Drop for Spool {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(writing) = self.writing.take() {
            // Either way nothing more is waited for; the thread drops its end when it has done all.
            let _ = writing.into_inner().recv_timeout(CLOSE_WAIT);
        }
    }
}
