//! One worker thread: a runtime of its own, pools of its own, every client listener.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::control;
use super::error::RunError;
use super::refused::refused;
use super::restarted::restarted;
use super::worker_threads::Report;
use crate::api;
use crate::net::{
    Acceptor, BoundListener, ConnectionPermits, Drain, REST_AFTER, ServeOptions, accept_loop, keep_sending,
};
use crate::proxy::{Proxies, Shared, drain_spool};

/// Idle region connections are looked over this often; a fraction of how long they are kept.
const SWEEP: Duration = Duration::from_secs(5);

pub(super) struct Worker {
    pub(super) listeners: Vec<BoundListener>,
    pub(super) current: Arc<ArcSwap<Shared>>,
    pub(super) drain: Drain,
    pub(super) permits: ConnectionPermits,
    pub(super) stopped: watch::Receiver<()>,
    /// Whether this thread drains the outage spool.
    pub(super) drains: bool,
}

impl Worker {
    /// The whole life of the thread that calls it; `report` gets one message, whether every listener is being served.
    pub(super) fn work(self, report: &Report) {
        match control::runtime() {
            Ok(runtime) => runtime.block_on(self.serve(report)),
            Err(error) => report.started(Err(RunError::Runtime(error))),
        }
    }

    async fn serve(self, report: &Report) {
        let Self { listeners, current, drain, permits, mut stopped, drains } = self;
        let acceptors = match register(listeners) {
            Ok(acceptors) => acceptors,
            Err(error) => return report.started(Err(error)),
        };
        let shared = current.load_full();
        let in_force = Arc::clone(&current);
        let options = ServeOptions {
            limits: shared.config.limits.clone(),
            rest_after: REST_AFTER,
            activity: drain.worker(),
            permits,
            on_refused: Rc::new(move |why| refused(&in_force.load(), why)),
        };
        let proxies = Rc::new(Proxies::new(current));
        // A task of its own: other work in the same task would be polled for each message.
        let mut sending = JoinSet::new();
        sending.spawn_local(keep_sending());
        let mut accepting = JoinSet::new();
        for acceptor in acceptors {
            let (options, proxies) = (options.clone(), Rc::clone(&proxies));
            let service = move |request, connection| api::handle(&proxies, request, connection);
            accepting.spawn_local(accept_loop(acceptor, options, service));
        }
        let mut spooled = JoinSet::new();
        if let Some(spool) = shared.spool.clone().filter(|_| drains) {
            let (clock, proxies) = (shared.registry.clock().clone(), Rc::clone(&proxies));
            let go_on = move || drain_spool(Rc::clone(&proxies), Arc::clone(&spool));
            spooled.spawn_local(restarted(clock, go_on));
        }
        report.started(Ok(()));
        let sweeping = async {
            loop {
                tokio::time::sleep(SWEEP).await;
                proxies.current().sweep();
            }
        };
        tokio::select! {
            () = sweeping => {}
            // It accepts for ever, so it has panicked: a worker that is deaf on one address must not pass for a whole one.
            _ = accepting.join_next() => {}
            // The order to stop, or the end of the control thread: in both cases no thread waits for this one.
            _ = stopped.changed() => {}
        }
    }
}

/// Hands every listener to this thread's runtime.
fn register(listeners: Vec<BoundListener>) -> Result<Vec<Acceptor>, RunError> {
    let register = |listener: BoundListener| {
        let address = listener.local().clone();
        listener.register().map_err(|source| RunError::Listener { address, source })
    };
    listeners.into_iter().map(register).collect()
}
