//! A running region and the handle on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::sync::{mpsc, oneshot};

use super::at_once::AtOnce;
use super::certs::Identity;
use super::context::Context;
use super::dialect::{Dialect, DuplicateIds};
use super::envelope::{Envelope, Reading};
use super::faults::Faults;
use super::job::Jobs;
use super::record::{Record, eventually};
use super::retry::Retry;
use super::server::{Command, Port, Server};
use super::store::{Definition, Directive, FINISHED_MAX, Store};
use super::tls::{RegionTls, server_config};
use ojs_handles::Clock;

/// How a region is to run.
#[derive(Debug, Clone)]
pub struct RegionOptions {
    /// Its id.
    pub id: String,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// TLS, or plain HTTP/1.1 without.
    pub tls: Option<RegionTls>,
    /// Whether h2 is offered beside HTTP/1.1.
    pub http2: bool,
    /// The calls that a connection of HTTP/2 may carry at once.
    pub streams_max: u32,
    /// The time that leases, delays, back-offs and the `Slow` fault go by.
    pub clock: Clock,
    /// The documents or servers that it follows where they differ.
    pub dialect: Dialect,
    /// Its behaviour for a taken id, which its manifest names then; `None`: that of its dialect.
    pub duplicate_ids: Option<DuplicateIds>,
    /// Whether it takes any id, and not only those that the documents allow: to see the ids that are let through to it.
    pub any_id: bool,
    /// How often a job is tried that says nothing itself.
    pub attempts_max: u32,
    /// The wait after the first failure of such a job; it doubles up to 5 min.
    pub retry_initial: Duration,
    /// Whether the waits of such a job are spread by half, up and down.
    pub retry_jitter: bool,
    /// How many finished jobs it remembers, and with them their ids.
    pub finished_max: usize,
    /// How much the record keeps; 0 turns it off.
    pub record_bytes_max: usize,
    /// The largest request body that is read.
    pub body_bytes_max: usize,
}

impl RegionOptions {
    /// A region over plain HTTP on a free port, with the machine's clock and a record of 64 MiB.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: None,
            http2: true,
            streams_max: 200,
            clock: Clock::system(),
            dialect: Dialect::default(),
            duplicate_ids: None,
            any_id: false,
            attempts_max: 3,
            retry_initial: Duration::from_secs(1),
            retry_jitter: true,
            finished_max: FINISHED_MAX,
            record_bytes_max: 64 << 20,
            body_bytes_max: 16 << 20,
        }
    }

    /// The same region over TLS.
    #[must_use]
    pub fn tls(mut self, tls: RegionTls) -> Self {
        self.tls = Some(tls);
        self
    }
}

/// A running region. It lives on a thread of its own, so that it works beside any runtime; dropping it closes everything.
#[derive(Debug)]
pub struct DemoRegion {
    context: Arc<Context>,
    tls: Option<Secured>,
    address: SocketAddr,
    // Dropped first, which ends the thread.
    commands: Option<mpsc::Sender<Command>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Secured {
    options: RegionTls,
    http2: bool,
    current: Arc<ArcSwap<ServerConfig>>,
}

impl DemoRegion {
    /// Starts a region; it accepts connections when this returns.
    ///
    /// Errors: the operating system's (a port that is taken), or `InvalidInput` for certificates that cannot be used.
    pub async fn start(options: RegionOptions) -> io::Result<Self> {
        let tls = options.tls.clone().map(|tls| Secured::new(tls, options.http2)).transpose()?;
        let retry = Retry::doubling(options.attempts_max, options.retry_initial, options.retry_jitter);
        let duplicate_ids = options.duplicate_ids.unwrap_or_else(|| options.dialect.duplicate_ids());
        let store = Store::new(options.clock.clone(), options.dialect).keeping(duplicate_ids, options.finished_max);
        let context = Arc::new(Context {
            id: options.id,
            started: options.clock.now(),
            store: Mutex::new(store),
            duplicate_ids: options.duplicate_ids,
            clock: options.clock,
            record: Record::new(options.record_bytes_max),
            faults: Faults::default(),
            at_once: AtOnce::default(),
            reading: Reading { dialect: options.dialect, any_id: options.any_id, retry },
            body_bytes_max: options.body_bytes_max,
            streams_max: options.streams_max,
        });
        let (commands, orders) = mpsc::channel(1);
        let (bound, address) = oneshot::channel();
        let serving = Arc::clone(&context);
        let current = tls.as_ref().map(|tls| Arc::clone(&tls.current));
        let thread = thread::Builder::new().name(format!("demo-{}", context.id)).spawn(move || {
            // A runtime that cannot be built drops the sender, which the starter of the region sees.
            let _ = live(serving, current, options.listen, orders, bound);
        })?;
        let address = address.await.map_err(|_| io::Error::other("the region's runtime did not start"))??;
        Ok(Self { context, tls, address, commands: Some(commands), thread: Some(thread) })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.context.id
    }

    /// Where it listens, also while it is stopped.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its base URL: `https://localhost:PORT` with TLS, else by address.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.tls {
            Some(_) => format!("https://localhost:{}", self.address.port()),
            None => format!("http://{}", self.address),
        }
    }

    /// The planned faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.context.faults
    }

    /// The record of requests.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.context.record
    }

    /// The enqueues of single jobs under way now.
    #[must_use]
    pub fn enqueues_under_way(&self) -> usize {
        self.context.at_once.now()
    }

    /// The most enqueues of single jobs that were under way at once.
    #[must_use]
    pub fn enqueues_at_once(&self) -> usize {
        self.context.at_once.most()
    }

    /// The most active jobs of a queue that there were at once: fetched, not acknowledged, and within their leases.
    #[must_use]
    pub fn most_active(&self, queue: &str) -> usize {
        self.context.store.lock().most_active(queue)
    }

    /// The jobs as they stand.
    #[must_use]
    pub fn jobs(&self) -> Jobs {
        self.context.store.lock().snapshot()
    }

    /// Waits until `seen` holds of the jobs, asking again after every change of one.
    ///
    /// Panics after a minute: the expected jobs have not come. Needs a runtime whose time runs.
    pub async fn wait_for_jobs(&self, seen: impl Fn(&Jobs) -> bool) {
        let changes = self.context.store.lock().changes();
        eventually(changes, || seen(&self.jobs())).await;
    }

    /// The cron jobs and workflows that were submitted, in order.
    #[must_use]
    pub fn definitions(&self) -> Vec<Definition> {
        self.context.store.lock().definitions()
    }

    /// Puts `count` jobs into a queue without a request, as if other clients had been busy.
    pub fn fill(&self, queue: &str, count: usize) {
        let source = serde_json::json!({ "type": "demo.load", "args": [], "options": { "queue": queue } }).to_string();
        self.put(&source, count);
    }

    /// Stores a job `count` times without a request, for any region that it names; none when it is no job.
    pub fn put(&self, source: &str, count: usize) {
        let Ok(envelope) = Envelope::parse(Bytes::from(source.to_owned()), &self.context.reading) else { return };
        let mut store = self.context.store.lock();
        for _ in 0..count {
            // One that is a duplicate is there already.
            let _ = store.enqueue(envelope.clone());
        }
    }

    /// Sends a worker a directive, from its next heartbeat on.
    pub fn direct(&self, worker_id: &str, directive: Directive) {
        self.context.store.lock().direct(worker_id, directive);
    }

    /// Shows another identity from the next handshake on; connections that exist stay.
    ///
    /// Errors: `InvalidInput` when it cannot be used, or when the region speaks plain HTTP.
    pub fn set_server(&self, server: Identity) -> io::Result<()> {
        let Some(tls) = &self.tls else { return Err(io::ErrorKind::InvalidInput.into()) };
        self.set_tls(&RegionTls { server, client_ca_pem: tls.options.client_ca_pem.clone() })
    }

    /// Shows another identity, and lets in clients of other authorities, from the next handshake on; connections that
    /// exist stay, sessions do not.
    ///
    /// Errors: `InvalidInput` when it cannot be used, or when the region speaks plain HTTP.
    pub fn set_tls(&self, options: &RegionTls) -> io::Result<()> {
        let Some(tls) = &self.tls else { return Err(io::ErrorKind::InvalidInput.into()) };
        tls.current.store(server_config(options, tls.http2)?);
        Ok(())
    }

    /// Refuses connections and cuts those that exist; the jobs stay. Stopping twice is the same as once.
    ///
    /// Cancel: the stop happens all the same once it was asked for.
    pub async fn stop(&self) {
        self.send(Command::Stop).await;
    }

    /// Listens again, on the same port.
    ///
    /// Errors: the operating system's, when another process has forced its way onto the port.
    pub async fn resume(&self) -> io::Result<()> {
        self.send(Command::Resume).await.unwrap_or(Ok(()))
    }

    /// Cuts the connections that exist and goes on accepting new ones.
    pub async fn cut_connections(&self) {
        self.send(Command::Cut).await;
    }

    /// Gives a command and waits until it is done; nothing when the region's thread has died.
    async fn send<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (done, answer) = oneshot::channel();
        self.commands.as_ref()?.send(command(done)).await.ok()?;
        answer.await.ok()
    }
}

impl Drop for DemoRegion {
    fn drop(&mut self) {
        self.commands = None;
        // Waiting for the end closes every socket before the next line of a test runs.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Secured {
    fn new(options: RegionTls, http2: bool) -> io::Result<Self> {
        let current = Arc::new(ArcSwap::new(server_config(&options, http2)?));
        Ok(Self { options, http2, current })
    }
}

/// The whole life of a region's thread.
fn live(
    context: Arc<Context>,
    tls: Option<Arc<ArcSwap<ServerConfig>>>,
    listen: SocketAddr,
    orders: mpsc::Receiver<Command>,
    bound: oneshot::Sender<io::Result<SocketAddr>>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (port, listener) = match Port::take(listen) {
            Ok(taken) => taken,
            Err(error) => {
                let _ = bound.send(Err(error));
                return;
            }
        };
        // The starter of the region has given up when the receiver is closed; the orders end then, too.
        let _ = bound.send(Ok(port.address()));
        Server { context, tls, port }.run(listener, orders).await;
    });
    Ok(())
}
