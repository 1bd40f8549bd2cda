//! Looks at a region that is doubted: a health request beside its probes, to find out within a second whether it answers at all.
//!
//! Calls without an answer, and connections that are not made, are a reason to ask; only a region that does not answer
//! this question either counts as silent. Probes keep their interval, timeout and thresholds: a look does not count for
//! the breaker, and none is sent while the breaker is not closed.

use std::sync::Arc;
use std::time::Duration;

use super::Registry;
use super::ask::ask;
use super::ask_error::HEALTH_PATH;
use crate::base::Draw;
use crate::config::HealthCheck;
use crate::net::pool::Pool;
use crate::policy::silence::{LOOK_EVERY, look_wait};
use crate::policy::{BreakerState, RegionIndex};

/// Looks at one region whenever it is doubted, for ever.
#[derive(Debug)]
pub struct Looker {
    /// Which region.
    pub index: RegionIndex,
    /// Where doubts come from and findings go.
    pub registry: Arc<Registry>,
    /// Connections of its own, of which none is kept.
    pub pool: Pool,
    /// How long a probe may take at most.
    pub config: HealthCheck,
    /// For the jitter.
    pub draw: Draw,
}

impl Looker {
    /// Looks whenever there is doubt, and again every second while the region is silent.
    pub async fn run(mut self) {
        let clock = self.registry.clock().clone();
        loop {
            self.registry.doubted(self.index).await;
            loop {
                let began = clock.now();
                if self.breaker() != BreakerState::Closed {
                    break;
                }
                self.look().await;
                // Also where it has answered: a slow region is not asked without a pause.
                clock.sleep_until(began + self.pause()).await;
                if !self.registry.view().region(self.index).silent {
                    break;
                }
            }
        }
    }

    fn breaker(&self) -> BreakerState {
        self.registry.view().region(self.index).breaker
    }

    /// [`LOOK_EVERY`], give or take a tenth.
    fn pause(&mut self) -> Duration {
        LOOK_EVERY.mul_f64(0.9 + 0.2 * self.draw.unit())
    }

    async fn look(&self) {
        let region = self.registry.region(self.index);
        // A connection that was there may be the only thing that is wrong.
        self.pool.retire();
        let round_trip = self.registry.view().region(self.index).latency;
        let wait = look_wait(region.usual_connect(), round_trip, self.config.timeout);
        let asked = tokio::select! {
            asked = ask(region, &self.pool, HEALTH_PATH, self.config.timeout) => asked,
            () = self.registry.clock().sleep_for_socket(wait) => return self.registry.on_look(self.index, false),
        };
        // Any answer shows that it is not silent. A region that refuses or breaks off is left to its probes.
        if asked.is_ok() {
            self.registry.on_look(self.index, true);
        }
    }
}
