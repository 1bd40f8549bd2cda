//! The program as a value: everything is bound before anything runs.
//!
//! [`build`] loads identities and binds every listener; [`Bound::run`] runs until it is told to end, then drains. The
//! control thread is the caller's: probes, load polls, names, the admin listener. Worker threads each have a runtime of
//! their own, accept from the same listening sockets and share nothing on the path of a request but one view.

mod control;
mod refused;
mod reload;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::admin::Readiness;
use crate::base::Clock;
use crate::config::Config;
use crate::net::resolve::{Resolve, SystemResolver};
use crate::net::{BindError, BoundListener, ConnectionPermits, Drain, DrainEnd, LocalAddress, bind, bind_tcp};
use crate::proxy::Shared;
use crate::region::SetupError;
use crate::telemetry::event;
pub use reload::{LoadAgain, Source};
use reload::{Notes, Reloader};

/// The most worker threads when the configuration leaves the number to us: a sidecar is a guest in its pod.
const WORKERS_MAX: usize = 2;

/// What the program takes from its surroundings, so that tests can steer it.
#[derive(Clone)]
pub struct World {
    /// Time for probes, cooldowns, polls and ages.
    pub clock: Clock,
    /// Names to addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Where the configuration came from, so that it can be loaded again; none: only identities are looked at again.
    pub source: Option<Source>,
}

impl Default for World {
    fn default() -> Self {
        Self { clock: Clock::system(), resolver: Arc::new(SystemResolver), source: None }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

/// Why the program cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A region's files cannot be used: the configuration is wrong.
    #[error(transparent)]
    Region(#[from] SetupError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system has no more descriptors or threads.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
}

/// Everything bound, nothing running.
#[derive(Debug)]
pub struct Bound {
    /// Where clients reach us, with the ports that the system chose.
    pub clients: Vec<LocalAddress>,
    /// Where metrics and probes are answered.
    pub admin: SocketAddr,
    /// What threads share in the configuration in force; for looking, while it runs.
    pub current: Arc<ArcSwap<Shared>>,
    listeners: Vec<BoundListener>,
    admin_listener: std::net::TcpListener,
    drain: Drain,
    readiness: Readiness,
    world: World,
}

/// Loads identities and binds every listener.
///
/// Errors: [`BuildError`]; nothing is left bound.
pub fn build(config: Config, world: World) -> Result<Bound, BuildError> {
    let shared = reload::first(config, &world)?;
    let listeners = bind(&shared.config.listen)?;
    let admin_listener = bind_tcp(shared.config.listen.admin)?.try_into_tcp()?;
    Ok(Bound {
        clients: listeners.iter().map(|listener| listener.local().clone()).collect(),
        admin: admin_listener.local_addr()?,
        drain: Drain::new(world.clock.clone()),
        readiness: Readiness::new(),
        current: Arc::new(ArcSwap::from_pointee(shared)),
        listeners,
        admin_listener,
        world,
    })
}

impl Bound {
    /// Resolves, while [`Bound::run`] runs, once the first round of probes is over.
    pub fn ready(&self) -> impl Future<Output = ()> + use<> {
        let readiness = self.readiness.clone();
        async move { readiness.opened().await }
    }

    /// Runs until `until` resolves, then drains: still serving, not ready, answering with `Connection: close`.
    ///
    /// Blocks the calling thread, which becomes the control thread.
    /// Errors: the system's, when a runtime or a thread cannot be made.
    pub fn run(self, until: impl Future<Output = ()>) -> Result<DrainEnd, BuildError> {
        let (stop, stopped) = watch::channel(());
        let shared = self.current.load_full();
        let permits = ConnectionPermits::new(shared.config.limits.client_connections);
        control::count_connections(&shared.metrics, &permits);
        let mut workers: Vec<JoinHandle<()>> = Vec::new();
        for number in 0..worker_threads(shared.config.limits.worker_threads) {
            let worker = worker::Worker {
                listeners: self.listeners.iter().map(BoundListener::try_clone).collect::<Result<_, _>>()?,
                current: Arc::clone(&self.current),
                activity: self.drain.worker(),
                permits: permits.clone(),
                stopped: stopped.clone(),
            };
            workers.push(worker.spawn(number)?);
        }
        self.tell_started();
        let end = control::runtime()?.block_on(self.control(until));
        // Nobody may be listening any more, when every worker has failed; then there is nobody to stop.
        let _ = stop.send(());
        for worker in workers {
            // A worker that panicked has told so itself.
            let _ = worker.join();
        }
        Ok(end)
    }

    async fn control(&self, until: impl Future<Output = ()>) -> DrainEnd {
        let notes = Notes::default();
        let first_round = self.readiness.block("first round of probes");
        control::refresh_before_scrapes(&self.current);
        control::spawn_admin(&self.current, &self.readiness, &notes, &self.admin_listener);
        let reloader = Reloader {
            current: Arc::clone(&self.current),
            world: self.world.clone(),
            notes,
            loops: control::start_loops(&self.current.load_full(), &self.world, Some(first_round)),
        };
        tokio::select! {
            () = reloader.run() => {}
            end = self.drained(until) => return end,
        }
        DrainEnd::TimedOut
    }

    /// Waits until it is told to end, then until its clients are done.
    async fn drained(&self, until: impl Future<Output = ()>) -> DrainEnd {
        until.await;
        let shared = self.current.load_full();
        let shutdown = &shared.config.shutdown;
        self.readiness.set_draining();
        event::drain_started(&shared.metrics);
        self.drain.start();
        let end = self.drain.idle(shutdown.drain_idle, shutdown.drain_timeout).await;
        event::drain_finished(end == DrainEnd::Idle);
        end
    }

    fn tell_started(&self) {
        let clients: Vec<String> = self.clients.iter().map(ToString::to_string).collect();
        let shared = self.current.load();
        let (local, regions) = (shared.config.local_region.as_str(), shared.config.regions.len());
        event::started(&clients.join(" "), &self.admin.to_string(), local, regions);
    }
}

fn worker_threads(configured: usize) -> usize {
    if configured > 0 {
        return configured;
    }
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(WORKERS_MAX))
}
