//! Connecting to the next candidates while a connection to the first one does not come about.
//!
//! As long as nothing of a request is written, which region takes it is open: the job goes to the first one that is connected. A region
//! that was too slow is left alone by the jobs that come right behind, until a connection to it came about or a second has passed.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::failover::is_usable;
use crate::base::Boxed;
use crate::net::dial::Elsewhere;
use crate::policy::RegionIndex;
use crate::policy::silence::connect_wait;
use crate::proxy::state::Proxy;

/// The candidates behind the one that is connected to, as places for the same job.
pub(crate) struct Race<'a> {
    pub(crate) proxy: &'a Proxy,
    pub(crate) from: RegionIndex,
    /// Best first.
    pub(crate) others: &'a [RegionIndex],
}

impl fmt::Debug for Race<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Race").field("from", &self.from).field("others", &self.others).finish_non_exhaustive()
    }
}

impl Elsewhere for Race<'_> {
    fn is_ready(&self) -> Boxed<'_, ()> {
        Box::pin(async {
            let clock = self.proxy.shared.registry.clock();
            let wait = self.wait(self.from);
            if !wait.is_zero() {
                clock.sleep_for_socket(wait).await;
            }
            self.connect_others().await;
            self.proxy.passed_over(self.from).note(clock.now(), self.proxy.pool(self.from));
            self.proxy.shared.registry.doubt(self.from);
        })
    }
}

impl Race<'_> {
    /// Resolves when one of the other candidates is connected.
    async fn connect_others(&self) {
        let clock = self.proxy.shared.registry.clock();
        let mut connecting = FuturesUnordered::new();
        for &index in self.others.iter().filter(|index| self.may_take(**index)) {
            let pool = self.proxy.pool(index);
            if pool.has_connection(self.proxy.region(index).connections_number(), Instant::now()) {
                return;
            }
            connecting.push(self.warm(index));
            tokio::select! {
                biased;
                Some(true) = connecting.next() => return,
                () = clock.sleep_for_socket(self.wait(index)) => {}
            }
        }
        while let Some(connected) = connecting.next().await {
            if connected {
                return;
            }
        }
        // No other one can be reached: only the first is left, however long it takes.
        std::future::pending().await
    }

    fn may_take(&self, index: RegionIndex) -> bool {
        let view = self.proxy.shared.registry.view();
        let region = view.region(index);
        is_usable(region) && !region.silent
    }

    /// How long a connection to a region may take before the next one is tried as well.
    fn wait(&self, index: RegionIndex) -> Duration {
        let registry = &self.proxy.shared.registry;
        let ago = self.proxy.passed_over(index).ago(registry.clock().now(), self.proxy.pool(index));
        connect_wait(registry.region(index).usual_connect(), registry.view().region(index).latency, ago)
    }

    /// Makes a connection to a region; it stays for others where this job goes elsewhere.
    async fn warm(&self, index: RegionIndex) -> bool {
        let (region, pool) = (Arc::clone(self.proxy.region(index)), self.proxy.pool(index).clone());
        let timeout = self.proxy.connect_timeout();
        let warm = async move { pool.warm(&region.reach(timeout).await.endpoint(timeout)).await };
        let warming = tokio::task::spawn_local(warm);
        // A task fails only with its thread.
        warming.await.unwrap_or(false)
    }
}
