//! Health probes: one loop a region, on the control thread, so that no probe can delay a job.
//!
//! Closed: a probe every interval, jittered so that many sidecars do not ask at once. Open: silence until the cooldown is
//! over. Half-open: exactly one probe, whose result closes or reopens the breaker; never somebody's job.
//!
//! Spec: federation-spec §4.2, §4.3.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;

use super::ask::{AskError, HEALTH_PATH, ask};
use super::{Region, Registry, Trouble};
use crate::base::{Clock, Draw};
use crate::config::HealthCheck;
use crate::net::dial::DialError;
use crate::net::pool::{NotSent, Pool};
use crate::ojs::answer;
use crate::policy::silence::look_wait;
use crate::policy::{BreakerState, RegionIndex};
use crate::telemetry::{Metrics, ProbeResult};

/// The failure ratio of a closed breaker is read this often: a tenth of the default window.
const TICK: Duration = Duration::from_secs(1);

/// What a probe found.
#[derive(Debug, Clone, Copy)]
pub struct ProbeReport {
    /// 200 and an accepted status.
    pub healthy: bool,
    /// From the question to the whole answer; none without an answer.
    pub round_trip: Option<Duration>,
    /// A closed word for logs.
    pub why: &'static str,
}

/// Probes one region for ever.
#[derive(Debug)]
pub struct Prober {
    /// Which region.
    pub index: RegionIndex,
    /// Where results go.
    pub registry: Arc<Registry>,
    /// The control thread's own connections to the region.
    pub pool: Pool,
    /// Intervals, timeouts and accepted statuses.
    pub config: HealthCheck,
    /// Where probes are counted.
    pub metrics: Arc<Metrics>,
    /// For the jitter.
    pub draw: Draw,
}

impl Prober {
    /// Probes for ever; `first` runs once, after the first probe, whatever it found.
    pub async fn run(mut self, first: impl FnOnce()) {
        let clock = self.registry.clock().clone();
        self.probe().await;
        first();
        let mut due = self.next(&clock);
        let mut was_silent = false;
        loop {
            self.wait(&clock, due).await;
            self.registry.tick(self.index);
            let half_open = self.state().0 == BreakerState::HalfOpen;
            // A region that is heard again may have failed its probes meanwhile, and need not wait for the next one.
            let is_silent = self.registry.view().region(self.index).silent;
            let is_heard = std::mem::replace(&mut was_silent, is_silent) && !is_silent;
            if (is_heard || half_open || clock.now() >= due) && self.probe().await {
                due = self.next(&clock);
            }
        }
    }

    /// Waits until the next probe is due, the cooldown ends, the ratio is to be read, or the breaker changes.
    async fn wait(&self, clock: &Clock, due: Instant) {
        let now = clock.now();
        let until = match self.state() {
            (BreakerState::Closed, _) => due.min(now + TICK),
            (BreakerState::Open, Some(open_until)) => open_until,
            (BreakerState::Open, None) | (BreakerState::HalfOpen, _) => now + TICK,
        };
        tokio::select! {
            () = clock.sleep_until(until) => {}
            () = self.registry.changed(self.index) => {}
        }
    }

    fn state(&self) -> (BreakerState, Option<Instant>) {
        let view = self.registry.view();
        let region = view.region(self.index);
        (region.breaker, region.open_until)
    }

    /// When the next probe is due; noted for display, too.
    fn next(&mut self, clock: &Clock) -> Instant {
        let interval = self.interval();
        let ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        self.registry.region(self.index).set_next_probe(clock.unix_ms().saturating_add(ms));
        clock.now() + interval
    }

    /// The configured interval, give or take a tenth.
    fn interval(&mut self) -> Duration {
        self.config.interval.mul_f64(0.9 + 0.2 * self.draw.unit())
    }

    /// Sends a probe if the breaker permits one; false when it does not.
    async fn probe(&self) -> bool {
        let Some(permit) = self.registry.probe_permitted(self.index) else { return false };
        if self.state().0 == BreakerState::HalfOpen {
            // What was connected before the region failed may be dead; a recovery is proved on a fresh connection.
            self.pool.retire();
        }
        let region = Arc::clone(self.registry.region(self.index));
        let started = Instant::now();
        let mut asked = std::pin::pin!(ask(&region, &self.pool, HEALTH_PATH, self.config.timeout));
        let wait =
            look_wait(region.usual_connect(), self.registry.view().region(self.index).latency, self.config.timeout);
        let asked = tokio::select! {
            biased;
            asked = &mut asked => asked,
            () = self.registry.clock().sleep_for_socket(wait) => {
                self.registry.doubt(self.index);
                asked.await
            }
        };
        let elapsed = started.elapsed();
        let (result, report) = judge(&asked, &self.config.accepted_status, elapsed);
        if let Ok((_, body)) = &asked
            && report.healthy
            && let Some(version) = answer::health(body).version
        {
            region.note_ojs_version(version);
        }
        let metrics = self.metrics.region(self.index.get());
        metrics.probes[result].inc();
        metrics.probe_duration.observe(elapsed.as_secs_f64());
        let trouble = (!report.healthy).then(|| {
            let accepted = &self.config.accepted_status;
            Trouble::of(&region, &asked, report.why, accepted, self.registry.clock().unix_ms())
        });
        if let Some(trouble) = &trouble {
            log_failure(&region, trouble);
        }
        if matches!(&asked, Err(AskError::NotSent(why)) if why.is_own()) {
            // The region was not asked: what was known of it stays, and the place of a half-open probe is free again.
            return true;
        }
        region.set_trouble(trouble);
        self.registry.on_probe(self.index, permit, report);
        true
    }
}

fn judge(
    asked: &Result<(StatusCode, bytes::Bytes), AskError>,
    accepted: &[String],
    elapsed: Duration,
) -> (ProbeResult, ProbeReport) {
    let failed = |result, why| (result, ProbeReport { healthy: false, round_trip: None, why });
    match asked {
        Ok((StatusCode::OK, body)) => {
            let healthy = answer::health(body).status.is_some_and(|status| accepted.contains(&status));
            let (result, why) =
                if healthy { (ProbeResult::Healthy, "ok") } else { (ProbeResult::Unhealthy, "health_status") };
            (result, ProbeReport { healthy, round_trip: Some(elapsed), why })
        }
        Ok(_) => failed(ProbeResult::Unhealthy, "http_status"),
        Err(AskError::Timeout | AskError::NotSent(NotSent::Dial(DialError::Timeout))) => {
            failed(ProbeResult::Timeout, "timeout")
        }
        Err(AskError::NotSent(why)) => failed(ProbeResult::Failed, why.label()),
        Err(AskError::Broken(_)) => failed(ProbeResult::Failed, "connection_broken"),
        Err(AskError::TooLong) => failed(ProbeResult::Unhealthy, "answer_too_long"),
    }
}

/// Each failure, for a region that fails again and again; the first one is in the line about its health.
fn log_failure(region: &Region, trouble: &Trouble) {
    let Trouble { reason, message, address, .. } = trouble;
    tracing::debug!(target: "ojs_federation", region = region.id.as_str(), reason, address, detail = message, "a health probe failed");
}
