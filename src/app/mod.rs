//! The program as a value: everything is bound before anything runs.
//!
//! [`build`] loads identities and binds every listener; [`Bound::run`] runs until it is asked to end, then drains. The
//! control thread is the caller's: probes, load polls, names, the admin listener. Worker threads each have a runtime of
//! their own, accept from the same listening sockets and share one view on the path of a request, and nothing else.

mod control;
mod discovery;
mod error;
mod hub;
mod notes;
mod refused;
mod reload;
mod resolver;
mod restarted;
mod scheduling;
mod switches;
#[cfg(test)]
mod tests;
mod worker;
mod worker_threads;
mod world;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::admin::{self, Readiness};
use crate::base::Clock;
use crate::config::Config;
use crate::net::descriptors;
use crate::net::memory;
use crate::net::{
    BoundListener, ConnectionPermits, Drain, DrainEnd, HandedOver, LocalAddress, bind, bind_control, taken_or_bound,
};
use crate::policy::Grant;
use crate::proxy::Shared;
use crate::telemetry::event;
pub use error::{BuildError, RunError};
use notes::Notes;
use reload::Reloader;
use worker_threads::WorkerThreads;
pub use world::{LoadAgain, Source, World};

/// The most worker threads when the configuration leaves the number to us: a sidecar is a guest in its pod.
const WORKERS_MAX: usize = 2;
/// How long the end of the process waits for the hub to take grants back, and between two looks. A hub answers in milliseconds.
const GIVE_BACK_WAIT: Duration = Duration::from_secs(1);
const GIVE_BACK_LOOK: Duration = Duration::from_millis(20);

/// Everything bound, nothing running.
#[derive(Debug)]
pub struct Bound {
    /// Where clients reach us, with the ports that the system chose.
    pub clients: Vec<LocalAddress>,
    /// Where metrics and probes are answered.
    pub admin: SocketAddr,
    /// The shared state of the configuration in force; for reading, while the program runs.
    pub current: Arc<ArcSwap<Shared>>,
    listeners: Vec<BoundListener>,
    admin_listener: std::net::TcpListener,
    /// The control socket; its file is removed with this value.
    control_listener: Option<BoundListener>,
    drain: Drain,
    readiness: Readiness,
    world: World,
}

/// Loads identities and binds every listener.
///
/// Errors: [`BuildError`]; nothing is left bound.
#[cfg_attr(not(any(feature = "demo", feature = "internals")), expect(dead_code, reason = "for the demo and for tests"))]
pub fn build(config: Config, world: World) -> Result<Bound, BuildError> {
    build_with(config, world, HandedOver::default())
}

/// As [`build`], with listening sockets that were bound for this process; those that the configuration names are used.
///
/// Errors: also when one of them is not named.
pub fn build_with(config: Config, world: World, mut handed_over: HandedOver) -> Result<Bound, BuildError> {
    let shared = reload::first(config, &world)?;
    let listeners = bind(&shared.config.listen, &mut handed_over)?;
    let admin_listener = taken_or_bound(shared.config.listen.admin, &mut handed_over)?.try_into_tcp()?;
    let control_listener = shared.config.control_socket.as_deref().map(bind_control).transpose()?;
    handed_over.all_taken()?;
    Ok(Bound {
        clients: listeners.iter().map(|listener| listener.local().clone()).collect(),
        admin: admin_listener.local_addr()?,
        drain: Drain::new(world.clock.clone()),
        readiness: Readiness::new(),
        current: Arc::new(ArcSwap::from_pointee(shared)),
        listeners,
        admin_listener,
        control_listener,
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
    /// Blocks the calling thread, which becomes the control thread. Errors: [`RunError`]; every thread has ended then,
    /// too. The start is reported only once every listener is served.
    pub fn run(self, until: impl Future<Output = ()>) -> Result<DrainEnd, RunError> {
        let runtime = control::runtime().map_err(RunError::Runtime)?;
        let admin = runtime.block_on(async { Ok((self.register_admin()?, self.register_control()?)) })?;
        let mut crew = WorkerThreads::new();
        self.start_workers(&mut crew)?;
        self.log_started();
        runtime.block_on(self.control(admin, &mut crew, until))
    }

    fn register_admin(&self) -> Result<admin::Listener, RunError> {
        let register = || admin::Listener::register(self.admin_listener.try_clone()?);
        register().map_err(|source| RunError::Listener { address: LocalAddress::Tcp(self.admin), source })
    }

    fn register_control(&self) -> Result<Option<admin::Listener>, RunError> {
        let register = |bound: &BoundListener| admin::Listener::register_unix(bound.try_clone()?.try_into_unix()?);
        let registered = self.control_listener.as_ref().map(|bound| {
            register(bound).map_err(|source| RunError::Listener { address: bound.local().clone(), source })
        });
        registered.transpose()
    }

    fn start_workers(&self, crew: &mut WorkerThreads) -> Result<(), RunError> {
        let shared = self.current.load_full();
        let wanted = shared.config.limits.client_connections;
        let threads = worker_threads(shared.config.limits.worker_threads);
        let clients = descriptors::room_for(wanted, descriptors::Need::SIDECAR, threads);
        if clients < wanted {
            let rule = format!(
                "only {clients} client connections are accepted at a time, because regions and probes need descriptors, too; raise the limit on open \
                 files (ulimit -n), or lower limits.client_connections"
            );
            event::config_warning(&shared.metrics, "limits.client_connections", "the limit on open files", &rule);
        }
        let memory = shared.config.limits.memory.unwrap_or_else(memory::default_for_clients);
        let permits = ConnectionPermits::within(clients, memory, Some(shared.buffered.counter()));
        control::count_connections(&shared.metrics, &permits);
        let clone = |listener: &BoundListener| {
            let address = listener.local().clone();
            listener.try_clone().map_err(|source| RunError::Listener { address, source })
        };
        for number in 0..threads {
            let worker = worker::Worker {
                listeners: self.listeners.iter().map(clone).collect::<Result<_, _>>()?,
                current: Arc::clone(&self.current),
                drain: self.drain.clone(),
                permits: permits.clone(),
                stopped: crew.stopped(),
                drains: number == 0,
            };
            crew.start(|report| worker.work(report))?;
        }
        Ok(())
    }

    async fn control(
        &self,
        admin: (admin::Listener, Option<admin::Listener>),
        crew: &mut WorkerThreads,
        until: impl Future<Output = ()>,
    ) -> Result<DrainEnd, RunError> {
        let notes = Notes::default();
        let first_round = Rc::new(self.readiness.block("first round of probes"));
        control::refresh_before_scrapes(&self.current);
        let admin = control::spawn_admin(&self.current, &self.readiness, &notes, &self.world, admin);
        let reloader = Reloader {
            current: Arc::clone(&self.current),
            world: self.world.clone(),
            first_round: Rc::downgrade(&first_round),
            loops: control::start_loops(&self.current.load_full(), &self.world, &notes, Some(first_round)),
            notes,
        };
        let _discovering = discovery::start(&self.current, &self.world, &self.readiness);
        tokio::select! {
            () = reloader.run() => Err(RunError::Ended("the watch over files".to_owned())),
            end = self.drained(until) => Ok(end),
            error = crew.ended() => Err(error),
            _ = admin => Err(RunError::Ended("the admin listener".to_owned())),
        }
    }

    /// Waits for the order to end, then for the end of its clients.
    async fn drained(&self, until: impl Future<Output = ()>) -> DrainEnd {
        until.await;
        let shared = self.current.load_full();
        let shutdown = &shared.config.shutdown;
        self.readiness.set_draining();
        event::drain_started(&shared.metrics);
        self.drain.start();
        let closed = async {
            self.drain.closed().await;
            self.listeners.iter().for_each(BoundListener::refuse);
            std::future::pending::<DrainEnd>().await
        };
        let end = tokio::select! {
            end = self.drain.idle(shutdown.drain_idle, shutdown.drain_timeout, shared.config.limits.call_timeout) => end,
            end = closed => end,
        };
        event::drain_finished(end == DrainEnd::Idle);
        give_back(&self.current.load_full(), &self.world.clock).await;
        end
    }

    fn log_started(&self) {
        let clients: Vec<String> = self.clients.iter().map(ToString::to_string).collect();
        let shared = self.current.load();
        let (local, regions) = (shared.config.local_region.as_str(), shared.config.regions.len());
        event::started(&clients.join(" "), &self.admin.to_string(), local, regions);
    }
}

/// Gives the calls of fleet limits back to the hub, so that the next process of this pod has them at once, and lets the last changes of jobs leave.
async fn give_back(shared: &Shared, clock: &Clock) {
    let of_regions = shared.registry.regions().iter().map(|it| &**shared.concurrency.grant(it.index));
    let of_pools = shared.pools.all().filter_map(|pool| Some(pool.grant()?.grant()));
    let active = shared.quotas.active.table();
    let of_quotas = active.iter().map(|it| it.slots.grant.grant());
    let grants: Vec<&Grant> = of_regions.chain(of_pools).chain(of_quotas).collect();
    grants.iter().for_each(|grant| grant.end());
    let given_back = async {
        while !grants.iter().all(|grant| grant.is_given_back())
            || shared.outbox.counts().0 + shared.bodies.counts().0 > 0
        {
            clock.sleep(GIVE_BACK_LOOK).await;
        }
    };
    // Without an answer the hub counts them until their time is over.
    tokio::select! {
        () = given_back => {}
        () = clock.sleep(GIVE_BACK_WAIT) => {}
    }
}

fn worker_threads(configured: usize) -> usize {
    if configured > 0 {
        return configured;
    }
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(WORKERS_MAX))
}
