//! The life of a request, as a table of contents.
//!
//! 1. [`Proxy::begin`]: the operation is identified on the normalised path, the request id echoed or minted.
//! 2. [`Proxy::admit`]: the `Host` is one of ours, and nothing that creates a job came by an odd path.
//! 3. [`Proxy::dispatch`]: the hops between sidecars are counted, and then by routing class.
//!    - `enqueue`: read the job, decide, stamp, attempt the candidates in order.
//!    - `create`: batches, cron and workflows are scanned, and go to the local region unless a pin would be lost there.
//!    - `owned`: a call about one job goes to the region that holds it, which `locate` finds.
//!    - `fetch`: the local region hands out jobs, others what is missing of queues that the operator names.
//!    - `settle`: an acknowledgement goes to the region that leased the job, and is repeated there only.
//!    - `heartbeat`: every region hears of its own jobs, and their answers are one.
//!    - `streams`: the event stream that SDKs ask for, as the one that servers have.
//!    - `manifest`: that of a region, with what the federation adds.
//!    - `worker`: a call about one worker goes to the regions that know it.
//!    - `alike`: definitions that all regions share are written to all and read in one.
//!    - `list` and `sum`: all regions are asked, and their lists or figures become one; `reads` says what of a job that is
//!      pinned elsewhere the client may see.
//!    - `health`: ours to answer.
//!    - `tunnel`: a WebSocket to the local region.
//!    - `local`: everything else streams to the local region, after `vet` where a body may define jobs.
//! 4. [`Exchange::finish`]: the headers that every answer carries, counters, the access line.
//!
//! A request is carried to its end whether or not its client waits: only reads are given up when the client goes.
//!
//! Plane: data. One [`Proxy`] a worker thread; what threads share is in [`Shared`].

mod address;
mod alike;
mod aside;
mod ask;
mod attempt;
mod batch;
mod buffered;
mod by_ids;
mod call_headers;
mod collect;
mod create;
mod define;
mod encoding;
mod enqueue;
mod everywhere;
mod exchange;
mod failover;
mod fetch;
mod gather;
mod head;
mod health;
mod heartbeat;
mod hops;
mod insist;
mod job;
mod lately;
mod list;
mod local;
mod locate;
mod manifest;
mod named;
mod noted;
mod notes;
mod owned;
mod pages;
mod place;
pub(crate) mod placement;
mod plan;
mod pools;
mod proxies;
mod race;
mod random;
mod reads;
mod received;
mod replay;
mod reply;
mod running;
mod settle;
mod several;
mod shown;
mod streams;
mod sum;
mod tunnel;
mod vet;
mod watch;
mod worker;

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crate::net::Arriving;
use arc_swap::{ArcSwap, Cache};
use http::header::HOST;
use http::{Method, Request, Response};
use http_body::Body as _;

use crate::base::in_place;
use crate::config::{Config, DuplicateIds};
use crate::journal::Journal;
use crate::net::ConnectionInfo;
use crate::net::headers::{is_echo, is_websocket_upgrade, restates_request};
use crate::net::pool::Pool;
use crate::ojs::{Class, ErrorDocument, IdAt, Operation, Scope, has_odd_escape};
use crate::policy::{BreakerState, Budgets, Concurrency, RegionIndex, View};
use crate::region::{KnownQueues, Owners, Region, Registry, Traffic, Unfit, Workers};
use crate::telemetry::{Metrics, Ration, Rations, RegionMetrics};

pub use aside::{LONG_BYTES, aside};
pub use buffered::Buffered;
pub use exchange::Exchange;
pub use head::{read_body, tenant_of};
pub use health::is_usable;
use lately::Lately;
pub use locate::Lookups;
use noted::Noted;
use notes::Notes;
pub use plan::{DryRun, dry_run};
use pools::new_pool;
pub use pools::{pool_limits, pool_meters};
pub use proxies::Proxies;
use race::PassedOver;
pub use random::Random;
pub use reply::Reply;
pub use running::Running;
use watch::Watched;

/// The answer to a request, once it is there.
pub type Answering<'r> = Pin<Box<dyn Future<Output = Result<Response<Reply>, ErrorDocument>> + 'r>>;

/// What all worker threads share.
#[derive(Debug)]
pub struct Shared {
    /// The configuration in force.
    pub config: Config,
    /// The configuration as it was asked for: what cannot change while the program runs differs from the one in force until a
    /// restart.
    pub asked: Arc<Config>,
    /// What is known of every region.
    pub registry: Arc<Registry>,
    /// What was sent where.
    pub traffic: Arc<Traffic>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How much of the memory is bodies.
    pub buffered: Buffered,
    /// Which region holds which job.
    pub owners: Arc<Owners>,
    /// The searches for jobs that are under way.
    pub lookups: Arc<Lookups>,
    /// Unknown outcomes and idempotency keys.
    pub journal: Arc<Journal>,
    /// How many lines of a kind are written.
    pub rations: Arc<Rations>,
    /// The enqueues under way that may be repeated.
    pub running: Running,
    /// What is remembered of workers.
    pub workers: Arc<Workers>,
    /// Queues that are fetched from no other region although the configuration names them.
    pub unfit: Unfit,
    /// How many redirects we may add, overall and to each region.
    pub budgets: Budgets,
    /// How many calls may be under way.
    pub concurrency: Concurrency,
    /// Whose turn it is in `round-robin`.
    pub turns: AtomicU64,
    /// When the process started.
    pub started: Instant,
}

/// One worker thread's view of the program in one configuration.
#[derive(Debug)]
pub struct Proxy {
    /// What it shares with the others.
    pub shared: Arc<Shared>,
    /// Its random bits.
    pub random: Random,
    view: RefCell<Cache<Arc<ArcSwap<View>>, Arc<View>>>,
    queues: KnownQueues,
    pools: Vec<Pool>,
    lately: Lately,
    passed_over: Vec<PassedOver>,
    watched: Vec<Rc<Watched>>,
    notes: Notes,
    failovers: Vec<Ration>,
}

impl Shared {
    /// What a region's server does with an id that it has already, as far as that is known.
    #[must_use]
    pub fn duplicate_ids(&self, index: RegionIndex) -> DuplicateIds {
        self.registry.region(index).duplicate_ids()
    }
}

impl Proxy {
    /// A worker's proxy, with empty pools.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Rc<Self> {
        let pools: Vec<Pool> = shared.registry.regions().iter().map(|region| new_pool(&shared, region)).collect();
        Self::with_pools(shared, pools, Notes::default())
    }

    fn with_pools(shared: Arc<Shared>, pools: Vec<Pool>, notes: Notes) -> Rc<Self> {
        Rc::new(Self {
            random: Random::default(),
            view: RefCell::new(shared.registry.views()),
            queues: shared.traffic.known(),
            lately: Lately::default(),
            passed_over: pools.iter().map(|_| PassedOver::default()).collect(),
            watched: pools.iter().map(|_| Rc::default()).collect(),
            notes,
            failovers: notes::failover_rations(pools.len()),
            pools,
            shared,
        })
    }

    /// The proxy of a new configuration: connections to regions that are reached as before stay, unless their bounds changed.
    fn successor(&self, shared: Arc<Shared>) -> Rc<Self> {
        let same_bounds = pool_limits(&self.shared.config) == pool_limits(&shared.config);
        let known = |region: &Region| {
            let old = self.shared.registry.regions().iter().position(|old| old.is_reached_as(region.config()))?;
            self.pools.get(old).filter(|_| same_bounds).cloned()
        };
        let pool = |region: &Arc<Region>| known(region).unwrap_or_else(|| new_pool(&shared, region));
        let pools = shared.registry.regions().iter().map(pool).collect();
        Self::with_pools(shared, pools, self.notes.successor())
    }

    /// Begins a request: identifies it, and echoes or mints its id.
    #[must_use]
    pub fn begin(&self, request: &Request<Arriving>, connection: ConnectionInfo) -> Exchange {
        Exchange::begin(self, request, connection)
    }

    /// Whether the request may be looked at any further.
    ///
    /// Errors: 421 for a `Host` that is not ours, which stops DNS rebinding; 403 for what a foreign web page sends; 400 where we and a region could read two different
    /// calls: for headers that name another method or path, and for a request that could create jobs and whose path is not in
    /// its normal form.
    pub fn admit(&self, exchange: &mut Exchange, request: &Request<Arriving>) -> Result<(), ErrorDocument> {
        let allowed = &self.shared.config.listen.allowed_hosts;
        let host = request.headers().get(HOST).map(|host| host.as_bytes());
        if !exchange.is_unix() && !self.lately.is_our_host(host, |host| exchange::host_is_ours(host, allowed)) {
            return Err(ErrorDocument::misdirected_host());
        }
        // What answers it echoes the request, and with it the sidecar's own credentials. Spec: RFC 9110 §9.3.8.
        if is_echo(request.method()) && exchange.matched.class != Class::Federation {
            return Err(ErrorDocument::echo_refused());
        }
        if exchange.noted.has(Noted::BROWSER) {
            pages::admit(self, exchange, request)?;
        }
        if exchange.noted.has(Noted::X) && restates_request(request.headers()) {
            return Err(ErrorDocument::restated_request());
        }
        if exchange.matched.creates_jobs && exchange.matched.raw_differs || has_odd_escape(request.uri().path()) {
            return Err(ErrorDocument::ambiguous_path());
        }
        Ok(())
    }

    /// What answers an admitted request. No async function itself: the request's box is gone before an answer is waited for.
    ///
    /// Errors: the document for a request that is not looked at any further.
    pub fn dispatch<'r>(
        &'r self,
        exchange: &'r mut Exchange,
        mut request: Box<Request<Arriving>>,
    ) -> Result<Answering<'r>, ErrorDocument> {
        let scope = exchange.matched.scope;
        if !matches!(scope, Scope::Ours | Scope::Health) {
            hops::count(self, exchange.noted, request.headers_mut())?;
            address::address(self, exchange, &mut request)?;
        }
        reads::admit(self, exchange)?;
        if !exchange.matched.creates_jobs && !is_of_regions(exchange.matched.operation, request.uri().path()) {
            return Err(ErrorDocument::not_found(request.uri().path()));
        }
        Ok(self.answering(exchange, request))
    }

    /// What answers a request that was admitted and is served. Apart from what waits for it, as [`crate::base::apart`] has it.
    #[inline(never)]
    fn answering<'r>(&'r self, exchange: &'r mut Exchange, request: Box<Request<Arriving>>) -> Answering<'r> {
        // Each is boxed: what carries a call from one function to the next would else have room for the largest of them, and is copied.
        match exchange.matched.scope {
            Scope::Enqueue => in_place!(enqueue::enqueue(self, exchange, request)),
            Scope::Health => Box::pin(std::future::ready(Ok(health::health(self)))),
            Scope::Batch | Scope::Bulk => Box::pin(batch::batch(self, exchange, *request)),
            Scope::Define => Box::pin(define::define(self, exchange, *request)),
            _ if exchange.matched.creates_jobs => Box::pin(create::recreate(self, exchange, *request)),
            _ if exchange.matched.operation != Operation::System && asks_for_tunnel(&request) => {
                Box::pin(tunnel::tunnel(self, exchange, *request))
            }
            Scope::List(paging) => Box::pin(list::list(self, exchange, *request, paging)),
            Scope::Sum | Scope::QueueStats => Box::pin(sum::sum(self, exchange, *request)),
            Scope::QueueControl => Box::pin(sum::control(self, exchange, *request)),
            Scope::Fetch => Box::pin(fetch::fetch(self, exchange, *request)),
            Scope::Heartbeat => Box::pin(heartbeat::heartbeat(self, exchange, *request)),
            Scope::Owner(IdAt::Body) => Box::pin(settle::settle(self, exchange, *request)),
            Scope::Owner(IdAt::Path) if exchange.matched.operation == Operation::JobSettle => {
                Box::pin(settle::settle(self, exchange, *request))
            }
            Scope::Owner(IdAt::Path) => Box::pin(owned::owned(self, exchange, *request)),
            Scope::ByIds => Box::pin(by_ids::by_ids(self, exchange, *request)),
            Scope::EventStream => Box::pin(streams::event_stream(self, exchange, *request)),
            Scope::Manifest => Box::pin(manifest::manifest(self, exchange, *request)),
            Scope::Named => Box::pin(named::named(self, exchange, *request)),
            Scope::Worker => Box::pin(worker::worker(self, exchange, *request)),
            Scope::AllRegions | Scope::QueueDefinition => Box::pin(alike::alike(self, exchange, *request)),
            Scope::Tunnel | Scope::Local | Scope::Ours => Box::pin(local::local(self, exchange, *request)),
        }
    }

    /// Closes connections that are too old, were idle for too long, or belong to a region whose breaker is open. Called
    /// every few seconds.
    pub fn sweep(&self) {
        notes::tell_left_over(self);
        self.shared.workers.kept.sweep(self.shared.registry.clock().now());
        let view = self.shared.registry.view();
        for (index, pool) in view.indexes().zip(&self.pools) {
            if view.region(index).breaker == BreakerState::Open {
                pool.retire();
            } else {
                pool.sweep(self.region(index).connections_number());
            }
        }
        self.keep_warm(&view);
    }

    /// Does something by the state of all regions at this moment, which it may not do again within.
    fn with_view<T>(&self, work: impl FnOnce(&View) -> T) -> T {
        work(self.view.borrow_mut().load())
    }

    fn pool(&self, index: RegionIndex) -> &Pool {
        &self.pools[index.get()]
    }

    fn passed_over(&self, index: RegionIndex) -> &PassedOver {
        &self.passed_over[index.get()]
    }

    fn watched(&self, index: RegionIndex) -> &Rc<Watched> {
        &self.watched[index.get()]
    }

    fn region(&self, index: RegionIndex) -> &Arc<Region> {
        self.shared.registry.region(index)
    }

    fn metrics(&self, index: RegionIndex) -> &RegionMetrics {
        self.shared.metrics.region(index.get())
    }

    fn connect_timeout(&self) -> Duration {
        self.shared.config.limits.connect_timeout
    }
}

/// Whether a request opens a WebSocket to the region. With a body, or by another method than GET, it is no such request,
/// and what it carries is judged like the body of any other call.
fn asks_for_tunnel(request: &Request<Arriving>) -> bool {
    is_websocket_upgrade(request.headers()) && request.method() == Method::GET && request.body().is_end_stream()
}

/// Whether a call is one that regions serve; everything else is ours to refuse.
///
/// Spec: ojs-protocol 2.5, 2.8, 2.9; SDKs call agents and event streams below `/v1/`, without `/ojs`, and servers have their
/// health and metrics at the root.
fn is_of_regions(operation: Operation, path: &str) -> bool {
    matches!(operation, Operation::JobScoped | Operation::Events | Operation::WebSocket | Operation::System)
        || crate::ojs::normal_path(path).starts_with("/ojs/")
}
