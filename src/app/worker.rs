//! One worker thread: a runtime of its own, pools of its own, every client listener.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::refused::refused;
use crate::api;
use crate::net::{Activity, BoundListener, ConnectionPermits, ServeOptions, accept_loop};
use crate::proxy::{Proxies, Shared};

/// Idle region connections are looked over this often; a fraction of how long they are kept.
const SWEEP: Duration = Duration::from_secs(5);

pub(super) struct Worker {
    pub(super) listeners: Vec<BoundListener>,
    pub(super) current: Arc<ArcSwap<Shared>>,
    pub(super) activity: Activity,
    pub(super) permits: ConnectionPermits,
    pub(super) stopped: watch::Receiver<()>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// Errors: the system's, when it has no thread for us.
    pub(super) fn spawn(self, number: usize) -> io::Result<JoinHandle<()>> {
        let runtime = super::control::runtime;
        std::thread::Builder::new().name(format!("ojs-worker-{number}")).spawn(move || match runtime() {
            Ok(runtime) => runtime.block_on(self.serve()),
            Err(error) => tracing::error!(target: "ojs_federation", %error, "a worker thread cannot make its runtime"),
        })
    }

    async fn serve(self) {
        let Self { listeners, current, activity, permits, mut stopped } = self;
        let shared = current.load_full();
        let metrics = Arc::clone(&shared.metrics);
        let options = ServeOptions {
            limits: shared.config.limits.clone(),
            activity,
            permits,
            on_refused: Rc::new(move |why| refused(&metrics, why)),
        };
        let proxies = Rc::new(Proxies::new(current));
        for listener in listeners {
            let (options, proxies) = (options.clone(), Rc::clone(&proxies));
            tokio::task::spawn_local(async move {
                let service = move |request, connection| api::handle(Rc::clone(&proxies), request, connection);
                if let Err(error) = accept_loop(listener, options, service).await {
                    tracing::error!(target: "ojs_federation", %error, "a listener cannot be served");
                }
            });
        }
        let sweeping = async {
            loop {
                tokio::time::sleep(SWEEP).await;
                proxies.current().sweep();
            }
        };
        tokio::select! {
            () = sweeping => {}
            // Told to stop, or the control thread is gone: either way nobody waits for us.
            _ = stopped.changed() => {}
        }
    }
}
