//! Health probes: one loop a region, in rounds for all of them, on the control thread, so that no probe can delay a job.
//!
//! Closed: a probe every interval, jittered so that many sidecars do not ask at once. Open: silence until the cooldown
//! is over. Half-open: exactly one probe, whose result closes or reopens the breaker; never a client's job. While jobs
//! are refused for lack of any region, an unusable one is asked each `circuit_breaker.early_probe` at most, also while
//! its breaker is open. Fresh views of a hub stand for all of these but early probes, the half-open probe of a breaker that our own requests
//! opened, and one that checks a failure that only the hub may see: the first of several, and that of a half-open breaker.
//!
//! Spec: federation-spec §4.2, §4.3.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;

use super::ask::ask;
use super::ask_error::{AskError, HEALTH_PATH};
use super::report::ProbeReport;
use super::views::HubViews;
use super::{Region, Registry, Rounds, Trouble};
use crate::base::{Clock, Draw};
use crate::config::HealthCheck;
use crate::net::dial::DialError;
use crate::net::pool::{NotSent, Pool};
use crate::ojs::answer;
use crate::policy::silence::look_wait;
use crate::policy::{BreakerState, Health, Permit, RegionIndex};
use crate::telemetry::span::in_span;
use crate::telemetry::{Metrics, ProbeResult};

/// The pause after a half-open probe that could not be sent for lack of a resource on this machine.
const RETRY: Duration = Duration::from_secs(1);

/// An early probe comes up to this share of its interval late, so that a fleet does not ask in step.
const EARLY_SPREAD: f64 = 0.5;
/// The answer to an early probe may take as long as that to a look, and no less than this.
const EARLY_WAIT_MIN: Duration = Duration::from_secs(1);

/// A receiver of the results of probes, called once the registry has them.
pub type OnReport = Box<dyn Fn(ProbeReport)>;

/// Probes one region for ever.
pub struct Prober {
    /// Which region.
    pub index: RegionIndex,
    /// Where results go.
    pub registry: Arc<Registry>,
    /// The control thread's own connections to the region.
    pub pool: Pool,
    /// Timeouts and accepted statuses.
    pub config: HealthCheck,
    /// The least time between two early probes; 0: there are none.
    pub early: Duration,
    /// When all regions are probed.
    pub rounds: Rc<Rounds>,
    /// Where probes are counted.
    pub metrics: Arc<Metrics>,
    /// For the jitter.
    pub draw: Draw,
    /// The views of the hub that stand for probes of our own.
    pub views: Option<Rc<HubViews>>,
    /// Gets each result: for a hub, which probes for others.
    pub on_report: Option<OnReport>,
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").field("index", &self.index).finish_non_exhaustive()
    }
}

/// When a region was probed last, and is to be probed next.
struct Schedule {
    began: Instant,
    due: Instant,
    /// The random delay of the next early probe.
    spread: Duration,
}

impl Prober {
    /// Probes for ever; `first` runs once, after the first probe, with any result.
    pub async fn run(mut self, first: impl FnOnce()) {
        let clock = self.registry.clock().clone();
        if let Some(views) = &self.views {
            views.first(self.index).await;
        }
        let (began, is_followed) = (clock.now(), self.is_followed());
        if !is_followed {
            self.probe(self.config.timeout, self.registry.probe_permitted(self.index)).await;
        }
        first();
        let mut schedule = self.schedule(began);
        if is_followed {
            // The views alone say when the first probe is due.
            schedule.due = began;
        }
        let mut was_silent = false;
        loop {
            self.wait(&clock, &schedule).await;
            if self.state().0 == BreakerState::Open {
                // The cooldown may be over.
                self.registry.tick(self.index);
            }
            let now = clock.now();
            // A region that is heard again may have failed its probes meanwhile, and need not wait for the next one.
            let is_silent = self.registry.view().region(self.index).silent;
            let is_heard = std::mem::replace(&mut was_silent, is_silent) && !is_silent;
            let is_early = self.early_due(&schedule).is_some_and(|due| due <= now);
            let sent = match self.state().0 {
                BreakerState::Open if is_early => {
                    self.probe(self.early_timeout(), self.registry.early_probe_permitted(self.index)).await
                }
                BreakerState::Closed if is_early => {
                    self.probe(self.early_timeout(), self.registry.probe_permitted(self.index)).await
                }
                BreakerState::HalfOpen if self.is_followed() && !self.registry.is_by_requests(self.index) => false,
                state
                    if state == BreakerState::HalfOpen
                        || (is_heard && !self.is_followed())
                        || now >= self.due(&schedule) =>
                {
                    self.probe(self.config.timeout, self.registry.probe_permitted(self.index)).await
                }
                _ => false,
            };
            if sent {
                schedule = self.schedule(now);
            }
        }
    }

    /// Waits until the next probe is due, the cooldown ends, the breaker changes, or a job is refused.
    async fn wait(&self, clock: &Clock, schedule: &Schedule) {
        let now = clock.now();
        let until = match self.state() {
            (BreakerState::Closed, _) => self.due(schedule),
            (BreakerState::Open, Some(open_until)) => open_until,
            (BreakerState::Open, None) | (BreakerState::HalfOpen, _) => now + RETRY,
        };
        let until = self.early_due(schedule).map_or(until, |early| early.min(until));
        tokio::select! {
            () = clock.sleep_until(until) => {}
            () = self.registry.changed(self.index) => {}
            () = self.registry.lack(self.index) => {}
            () = self.views_changed() => {}
        }
    }

    /// When the region is probed in turn: not before the views of the hub are too old, or one is to be checked.
    fn due(&self, schedule: &Schedule) -> Instant {
        self.views.as_ref().map_or(schedule.due, |views| schedule.due.max(views.own_from(self.index)))
    }

    fn is_followed(&self) -> bool {
        self.views.as_ref().is_some_and(|views| views.is_followed(self.index))
    }

    async fn views_changed(&self) {
        match &self.views {
            Some(views) => views.changed(self.index).await,
            None => std::future::pending().await,
        }
    }

    /// When the region is probed out of turn; none while it is usable, or no job was refused for lack of it.
    fn early_due(&self, schedule: &Schedule) -> Option<Instant> {
        if self.early.is_zero() || !self.registry.is_lacked(self.index) {
            return None;
        }
        let view = self.registry.view();
        let region = view.region(self.index);
        let from = match (region.breaker, region.health) {
            (BreakerState::Open, _) => self.registry.early_from(self.index)?,
            (BreakerState::Closed, Health::Unhealthy) => schedule.began + self.early,
            (BreakerState::Closed | BreakerState::HalfOpen, _) => return None,
        };
        Some(from + schedule.spread)
    }

    /// An early probe is repeated so soon that it need not wait for an answer as long as others do.
    fn early_timeout(&self) -> Duration {
        let region = self.registry.region(self.index);
        let latency = self.registry.view().region(self.index).latency;
        let wait = look_wait(region.usual_connect(), latency, self.config.timeout);
        wait.max(EARLY_WAIT_MIN).min(self.config.timeout)
    }

    fn schedule(&mut self, began: Instant) -> Schedule {
        let clock = self.registry.clock();
        let (now, unix_ms) = (clock.now(), clock.unix_ms());
        let due = self.rounds.after(now);
        // For display.
        let ms = u64::try_from(due.saturating_duration_since(now).as_millis()).unwrap_or(u64::MAX);
        self.registry.region(self.index).set_next_probe(unix_ms.saturating_add(ms));
        Schedule { began, due, spread: self.early.mul_f64(EARLY_SPREAD * self.draw.unit()) }
    }

    fn state(&self) -> (BreakerState, Option<Instant>) {
        let view = self.registry.view();
        let region = view.region(self.index);
        (region.breaker, region.open_until)
    }

    /// Sends a probe if the breaker permits one; false when it does not.
    async fn probe(&self, timeout: Duration, permit: Option<Permit>) -> bool {
        let Some(permit) = permit else { return false };
        let region = Arc::clone(self.registry.region(self.index));
        in_span!("probe", region = region.id.as_str(); self.send_probe(&region, timeout, permit))
    }

    async fn send_probe(&self, region: &Region, timeout: Duration, permit: Permit) -> bool {
        let was_closed = self.state().0 == BreakerState::Closed;
        if !was_closed {
            // A connection from before the failure may be dead; a recovery is proved on a fresh connection.
            self.pool.retire();
        }
        let started = Instant::now();
        let mut asked = std::pin::pin!(ask(region, &self.pool, HEALTH_PATH, timeout));
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
            let addresses = region.addresses();
            let place = (&region.config().url, addresses.as_slice());
            Trouble::of(place, &asked, report.why, accepted, self.registry.clock().unix_ms())
        });
        if let Some(trouble) = &trouble {
            log_failure(region, trouble);
        }
        if matches!(&asked, Err(AskError::NotSent(why)) if why.is_own()) {
            // The region was not asked: its state stays, and the place of a half-open probe is free again.
            return true;
        }
        // Where requests have opened the breaker meanwhile, a probe of before says nothing of why.
        if trouble.is_some() || !was_closed || self.state().0 == BreakerState::Closed {
            region.set_trouble(trouble);
        }
        self.registry.on_probe(self.index, permit, report);
        if let Some(views) = &self.views {
            views.on_own_probe(self.index, report.healthy);
        }
        if let Some(on_report) = &self.on_report {
            on_report(report);
        }
        true
    }
}

fn judge(
    asked: &Result<(StatusCode, bytes::Bytes), AskError>,
    accepted: &[String],
    elapsed: Duration,
) -> (ProbeResult, ProbeReport) {
    let failed = |result, why| (result, ProbeReport { healthy: false, round_trip: None, why, of_hub: None });
    match asked {
        Ok((StatusCode::OK, body)) => {
            let healthy = answer::health(body).status.is_some_and(|status| accepted.contains(&status));
            let (result, why) =
                if healthy { (ProbeResult::Healthy, "ok") } else { (ProbeResult::Unhealthy, "health_status") };
            (result, ProbeReport { healthy, round_trip: Some(elapsed), why, of_hub: None })
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
