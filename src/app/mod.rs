//! The program as a value: everything is bound before anything runs.
//!
//! [`build`] loads identities and binds every listener; [`Bound::run`] runs until it is told to end, then drains. The
//! control thread is the caller's: probes, load polls, names, the admin listener. Worker threads each have a runtime of
//! their own, accept from the same listening sockets and share nothing on the path of a request but one view.

mod control;
mod refused;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::watch;

use crate::admin::Readiness;
use crate::base::{Clock, RegionId};
use crate::config::Config;
use crate::net::resolve::{Resolve, SystemResolver};
use crate::net::{BindError, BoundListener, ConnectionPermits, Drain, DrainEnd, LocalAddress, bind, bind_tcp};
use crate::ojs::Class;
use crate::policy::RetryBudget;
use crate::proxy::Shared;
use crate::region::{Region, Registry, SetupError, Traffic};
use crate::telemetry::{Metrics, event};

/// The most worker threads when the configuration leaves the number to us: a sidecar is a guest in its pod.
const WORKERS_MAX: usize = 2;

/// What the program takes from its surroundings, so that tests can steer it.
#[derive(Clone)]
pub struct World {
    /// Time for probes, cooldowns, polls and ages.
    pub clock: Clock,
    /// Names to addresses.
    pub resolver: Arc<dyn Resolve>,
}

impl Default for World {
    fn default() -> Self {
        Self { clock: Clock::system(), resolver: Arc::new(SystemResolver) }
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
    /// What threads share; for looking, while it runs.
    pub shared: Arc<Shared>,
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
    let mut regions = Vec::with_capacity(config.regions.len());
    for (place, region) in config.regions.iter().enumerate() {
        regions.push(Arc::new(Region::load(place, region)?));
    }
    let listeners = bind(&config.listen)?;
    let admin_listener = bind_tcp(config.listen.admin)?.try_into_tcp()?;
    let ids: Vec<RegionId> = config.regions.iter().map(|region| region.id.clone()).collect();
    let metrics = Metrics::new(&ids, &Class::ALL.map(Class::as_str));
    let traffic = Traffic::new(ids.len(), config.load.queues_max, world.clock.clone(), Arc::clone(&metrics));
    let registry = Arc::new(Registry::new(&config, regions, world.clock.clone(), Arc::clone(&metrics)));
    let budget = RetryBudget::new(&config.failover, world.clock.now());
    let shared = Arc::new(Shared {
        registry,
        traffic: Arc::new(traffic),
        metrics,
        budget,
        turns: AtomicU64::new(0),
        started: Instant::now(),
        config,
    });
    Ok(Bound {
        clients: listeners.iter().map(|listener| listener.local().clone()).collect(),
        admin: admin_listener.local_addr()?,
        drain: Drain::new(world.clock.clone()),
        readiness: Readiness::new(),
        shared,
        listeners,
        admin_listener,
        world,
    })
}

impl Bound {
    /// Runs until `until` resolves, then drains: still serving, not ready, answering with `Connection: close`.
    ///
    /// Blocks the calling thread, which becomes the control thread.
    /// Errors: the system's, when a runtime or a thread cannot be made.
    pub fn run(self, until: impl Future<Output = ()>) -> Result<DrainEnd, BuildError> {
        let (stop, stopped) = watch::channel(());
        let permits = ConnectionPermits::new(self.shared.config.limits.client_connections);
        control::count_connections(&self.shared.metrics, &permits);
        let mut workers: Vec<JoinHandle<()>> = Vec::new();
        for number in 0..worker_threads(self.shared.config.limits.worker_threads) {
            let worker = worker::Worker {
                listeners: self.listeners.iter().map(BoundListener::try_clone).collect::<Result<_, _>>()?,
                shared: Arc::clone(&self.shared),
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
        control::spawn_loops(&self.shared, &self.world, &self.readiness);
        control::spawn_admin(&self.shared, &self.readiness, &self.admin_listener);
        until.await;
        let shutdown = &self.shared.config.shutdown;
        self.readiness.set_draining();
        event::drain_started(&self.shared.metrics);
        self.drain.start();
        let end = self.drain.idle(shutdown.drain_idle, shutdown.drain_timeout).await;
        event::drain_finished(end == DrainEnd::Idle);
        end
    }

    fn tell_started(&self) {
        let clients: Vec<String> = self.clients.iter().map(ToString::to_string).collect();
        let config = &self.shared.config;
        event::started(&clients.join(" "), &self.admin.to_string(), config.local_region.as_str(), config.regions.len());
    }
}

fn worker_threads(configured: usize) -> usize {
    if configured > 0 {
        return configured;
    }
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(WORKERS_MAX))
}
