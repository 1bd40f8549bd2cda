//! The life of a request, as a table of contents.
//!
//! 1. [`Proxy::begin`]: the operation is identified on the normalised path, the request id echoed or minted.
//! 2. [`Proxy::admit`]: the `Host` is one of ours, and nothing that creates a job came by an odd path.
//! 3. [`Proxy::dispatch`]: the hops between sidecars are counted, and then by routing class.
//!    - `enqueue`: read the job, decide, stamp, attempt the candidates in order.
//!    - `create`: batches, cron and workflows are scanned, and go to the local region unless a pin would be lost there.
//!    - `owned`: a call about one job goes to the region that holds it, which `locate` finds.
//!    - `fetch`: the local region hands out jobs; other regions fill up queues that the operator names.
//!    - `settle`: an acknowledgement goes to the region that leased the job, and is repeated there only.
//!    - `heartbeat`: every region hears of its own jobs, and their answers are one.
//!    - `streams`: the event stream that SDKs ask for, as the one that servers have.
//!    - `manifest`: that of a region, with the additions of the federation.
//!    - `worker`: a call about one worker goes to the regions that know it.
//!    - `alike`: definitions that all regions share are written to all and read in one.
//!    - `list` and `sum`: all regions are asked, and their lists or figures become one; `residency` decides how much of
//!      a job that is pinned elsewhere the client may see.
//!    - `health`: ours to answer.
//!    - `tunnel`: a WebSocket to the local region.
//!    - `local`: everything else streams to the local region, after `vet` where a body may define jobs.
//! 4. [`Exchange::finish`]: the headers that every answer carries, counters, the access line.
//!
//! A request is carried to its end whether or not its client waits: only reads are given up when the client goes.
//!
//! Plane: data. One [`Proxy`] a worker thread; the state that threads share is in [`Shared`].

pub(crate) mod body;
mod call;
mod jobs;
mod locate;
pub(crate) mod placement;
mod reads;
mod routing;
mod spooled;
mod state;
mod stream;
mod workers;

use std::pin::Pin;

use crate::net::IncomingBody;
use http::header::HOST;
use http::{Method, Request, Response};
use http_body::Body as _;

use crate::base::in_place;
use crate::net::ConnectionInfo;
use crate::net::headers::{is_echo, is_websocket_upgrade, restates_request};
use crate::net::host;
use crate::ojs::{Class, ErrorDocument, IdAt, Operation, Scope, has_odd_escape};
use crate::policy::BreakerState;
use crate::telemetry::span::{self, span};
use call::{address, hops, notes, pages};
use jobs::{batch, create, define, enqueue};
use reads::{alike, by_ids, health, list, manifest, named, owned, residency, scheduling, streams, sum, worker};
use stream::{local, queue_events, tunnel};
use workers::{fetch, heartbeat, settle};

pub use body::offload::{LONG_BYTES, offload};
pub use call::exchange::Exchange;
pub use call::head::{read_body, tenant_of};
use call::header_flags::HeaderFlags;
pub use jobs::drain::drain as drain_spool;
pub use reads::health::is_usable;
pub use routing::plan::{DryRun, dry_run, may_be_at_hub};
pub use state::announced::Announced;
pub use state::buffered::Buffered;
pub use state::lookups::Lookups;
pub use state::pools::{pool_limits, pool_meters};
pub use state::proxies::Proxies;
pub use state::random::Random;
pub use state::reply::Reply;
pub use state::running::Running;
pub use state::sharded::shards_of;
pub use state::shared::{Asking, Proxy, Shared};

/// The answer to a request, once it is there.
pub type Answering<'r> = Pin<Box<dyn Future<Output = Result<Response<Reply>, ErrorDocument>> + 'r>>;

impl Proxy {
    /// Begins a request: identifies it, and echoes or mints its id.
    #[must_use]
    pub fn begin(&self, request: &Request<IncomingBody>, connection: ConnectionInfo) -> Exchange {
        Exchange::begin(self, request, connection)
    }

    /// Whether the request may be looked at any further.
    ///
    /// Errors: 421 for a foreign `Host`, which stops DNS rebinding; 403 for a request of a foreign web page; 400 where
    /// we and a region could read two different calls: for headers that name another method or path, and for a request
    /// that could create jobs and whose path is not in its normal form.
    pub fn admit(&self, exchange: &mut Exchange, request: &Request<IncomingBody>) -> Result<(), ErrorDocument> {
        let allowed = &self.shared.config.listen.allowed_hosts;
        let host = request.headers().get(HOST).map(|host| host.as_bytes());
        if !exchange.is_unix() && !self.last_seen.is_our_host(host, |host| host::is_own(host, allowed)) {
            return Err(ErrorDocument::misdirected_host());
        }
        // The answer to such a method echoes the request, and with it the sidecar's own credentials. Spec: RFC 9110
        // §9.3.8.
        if is_echo(request.method()) && exchange.matched.class != Class::Federation {
            return Err(ErrorDocument::echo_refused());
        }
        if exchange.header_flags.has(HeaderFlags::BROWSER) {
            pages::admit(self, exchange, request)?;
        }
        if exchange.header_flags.has(HeaderFlags::X) && restates_request(request.headers()) {
            return Err(ErrorDocument::restated_request());
        }
        if exchange.matched.creates_jobs && exchange.matched.raw_differs || has_odd_escape(request.uri().path()) {
            return Err(ErrorDocument::ambiguous_path());
        }
        Ok(())
    }

    /// The future of the answer to an admitted request. Not an async function: the request's box is freed before the
    /// answer is awaited.
    ///
    /// Errors: the document for a request that is not looked at any further.
    pub fn dispatch<'r>(
        &'r self,
        exchange: &'r mut Exchange,
        mut request: Box<Request<IncomingBody>>,
    ) -> Result<Answering<'r>, ErrorDocument> {
        let scope = exchange.matched.scope;
        if !matches!(scope, Scope::Ours | Scope::Health) {
            hops::count(self, exchange.header_flags, request.headers_mut())?;
            address::address(self, exchange, &mut request)?;
        }
        residency::admit(self, exchange)?;
        if !exchange.matched.creates_jobs && !is_of_regions(exchange.matched.operation, request.uri().path()) {
            return Err(ErrorDocument::not_found(request.uri().path()));
        }
        if !span::is_on() {
            return Ok(self.answering(exchange, request));
        }
        let (id, operation) = (exchange.request_id(), exchange.matched.operation);
        let span = span!("request", request_id = id.to_str().unwrap_or_default(), operation = operation.as_str());
        Ok(span::boxed(span, self.answering(exchange, request)))
    }

    /// The future of the answer to a request that is served. Boxed apart from its caller, as [`crate::base::apart`] has
    /// it.
    #[inline(never)]
    fn answering<'r>(&'r self, exchange: &'r mut Exchange, request: Box<Request<IncomingBody>>) -> Answering<'r> {
        // Each future is boxed: otherwise every call would carry, and copy, room for the largest of them.
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
            Scope::Scheduling if scheduling::is_ours(self, exchange, &request) => {
                Box::pin(scheduling::scheduling(self, exchange, *request))
            }
            Scope::Local if queue_events::is_sharded(self, exchange, &request) => {
                Box::pin(queue_events::queue_events(self, exchange, *request))
            }
            Scope::Tunnel | Scope::Local | Scope::Ours | Scope::Scheduling => {
                Box::pin(local::local(self, exchange, *request))
            }
        }
    }

    /// Closes connections that are too old, were idle for too long, or belong to a region with an open breaker. Called
    /// every few seconds.
    pub fn sweep(&self) {
        notes::log_left_over(self);
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
}

/// Whether a request opens a WebSocket to the region. A request with a body, or with another method than GET, is not
/// one, and its body is judged like that of any other call.
fn asks_for_tunnel(request: &Request<IncomingBody>) -> bool {
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
