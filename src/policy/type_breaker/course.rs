//! The course of one breaker from its trip to its close: open, half-open with one probe at a time, open again or closed.

use serde::{Deserialize, Serialize};

use super::terms::BreakerTerms;

/// A half-open breaker for which no job has gone for so many of its pauses is idle.
const IDLE_PAUSES: u64 = 8;
/// And for at least so long. Units: milliseconds.
const IDLE_MIN_MS: u64 = 60 * 60 * 1_000;

/// The phase of a tripped breaker. Units of times: milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Jobs wait until then.
    Open {
        /// The end of the pause.
        until_ms: u64,
    },
    /// One job may go.
    HalfOpen {
        /// The sidecar with the permission; none where none is known.
        trial: Option<Trial>,
        /// When the permission is given up, or the search for a sidecar begins anew.
        until_ms: u64,
    },
    /// Jobs go as ever.
    Closed,
}

/// The permission to let one job through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Its number among those of the course, from 1.
    pub number: u64,
    /// The sidecar that has it.
    pub sidecar: String,
    /// The job that went; none before one did.
    pub job: Option<ProbeJob>,
    /// Whether a worker has the job: its time counts from then on.
    #[serde(default)]
    pub is_begun: bool,
    /// Whether the job got its time a second time, because it waits in its queue.
    #[serde(default)]
    pub is_extended: bool,
}

/// The job that a half-open breaker has let through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeJob {
    /// The job.
    pub job_id: String,
    /// Its region.
    pub region: String,
    /// The failures that it had before it was let through.
    pub failures: u64,
    /// Whether it is bound to some regions, or may be: its id is shown nowhere then.
    #[serde(default)]
    pub is_bound: bool,
}

/// A tripped breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// The phase.
    #[serde(flatten)]
    pub phase: Phase,
    /// The present pause. Units: milliseconds.
    pub pause_ms: u64,
    /// Failed probes: the breaker has opened anew after each.
    pub reopened: u64,
    /// Permissions that were given.
    pub trials: u64,
    /// Since when a permission is out, or sought, and no job has gone; none at other times. Units: milliseconds since the Unix epoch.
    #[serde(default)]
    pub idle_from_ms: Option<u64>,
}

impl Course {
    /// A breaker that has just tripped.
    #[must_use]
    pub const fn tripped(terms: &BreakerTerms, now_ms: u64) -> Self {
        let phase = Phase::Open { until_ms: now_ms.saturating_add(terms.pause_ms) };
        Self { phase, pause_ms: terms.pause_ms, reopened: 0, trials: 0, idle_from_ms: None }
    }

    /// Whether it is closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether one job may go, or has gone and has not ended.
    #[must_use]
    pub const fn is_half_open(&self) -> bool {
        matches!(self.phase, Phase::HalfOpen { .. })
    }

    /// The permission that is out.
    #[must_use]
    pub const fn trial(&self) -> Option<&Trial> {
        match &self.phase {
            Phase::HalfOpen { trial, .. } => trial.as_ref(),
            _ => None,
        }
    }

    /// When the jobs that wait are looked at again; none where none wait. Units: milliseconds since the Unix epoch.
    #[must_use]
    pub const fn until_ms(&self) -> Option<u64> {
        match &self.phase {
            Phase::Open { until_ms } | Phase::HalfOpen { until_ms, .. } => Some(*until_ms),
            Phase::Closed => None,
        }
    }

    /// Time has passed: a pause may be over, and a probe that did not end is given up. One that no worker has yet gets its time once more, because
    /// it waits behind others in its queue. `sidecar` names the one that gets the permission with
    /// this number, if there is one. Returns whether anything has changed.
    pub fn pass(&mut self, terms: &BreakerTerms, now_ms: u64, sidecar: impl FnOnce(u64) -> Option<String>) -> bool {
        let is_due = self.until_ms().is_some_and(|until_ms| now_ms >= until_ms);
        let is_sought = matches!(self.phase, Phase::HalfOpen { trial: None, .. });
        if !is_due && !is_sought {
            return false;
        }
        if let Phase::HalfOpen { trial: Some(trial), until_ms } = &mut self.phase
            && trial.job.is_some()
            && !trial.is_begun
            && !trial.is_extended
        {
            trial.is_extended = true;
            *until_ms = now_ms.saturating_add(terms.probe_ms);
            return true;
        }
        let number = self.trials.saturating_add(1);
        let trial =
            sidecar(number).map(|sidecar| Trial { number, sidecar, job: None, is_begun: false, is_extended: false });
        if trial.is_none() && !is_due {
            return false;
        }
        self.idle_from_ms = self.idle_from_ms.or(Some(now_ms));
        self.trials = if trial.is_some() { number } else { self.trials };
        self.phase = Phase::HalfOpen { trial, until_ms: now_ms.saturating_add(terms.probe_ms) };
        true
    }

    /// The sidecar with this permission has let a job through. Returns whether that is news: an earlier permission, and a second job, are not.
    pub fn went(&mut self, terms: &BreakerTerms, number: u64, job: ProbeJob, now_ms: u64) -> bool {
        let Phase::HalfOpen { trial: Some(trial), until_ms } = &mut self.phase else { return false };
        if trial.number != number || trial.job.is_some() {
            return false;
        }
        trial.job = Some(job);
        *until_ms = now_ms.saturating_add(terms.probe_ms);
        self.idle_from_ms = None;
        true
    }

    /// A worker has a job. That of the probe has its whole time from now on. Returns whether that is news.
    pub fn began(&mut self, terms: &BreakerTerms, job_id: &str, now_ms: u64) -> bool {
        let Phase::HalfOpen { trial: Some(trial), until_ms } = &mut self.phase else { return false };
        if trial.is_begun || trial.job.as_ref().is_none_or(|job| job.job_id != job_id) {
            return false;
        }
        trial.is_begun = true;
        *until_ms = now_ms.saturating_add(terms.probe_ms);
        true
    }

    /// Whether no job has gone for a number of its pauses although one may: there is nothing to try.
    #[must_use]
    pub fn is_idle(&self, now_ms: u64) -> bool {
        let wait_ms = self.pause_ms.saturating_mul(IDLE_PAUSES).max(IDLE_MIN_MS);
        self.is_half_open() && self.idle_from_ms.is_some_and(|from_ms| now_ms.saturating_sub(from_ms) >= wait_ms)
    }

    /// A job has ended. Only that of the probe counts: it closes the breaker, or opens it for twice as long.
    pub fn ended(&mut self, terms: &BreakerTerms, job_id: &str, is_success: bool, now_ms: u64) -> bool {
        let job = self.trial().and_then(|trial| trial.job.as_ref());
        if job.is_none_or(|job| job.job_id != job_id) {
            return false;
        }
        if is_success {
            self.phase = Phase::Closed;
            return true;
        }
        self.reopened = self.reopened.saturating_add(1);
        self.pause_ms = self.pause_ms.saturating_mul(2).min(terms.pause_most_ms);
        self.phase = Phase::Open { until_ms: now_ms.saturating_add(self.pause_ms) };
        true
    }

    /// An operator closes it. Returns whether it was not closed.
    pub fn close(&mut self) -> bool {
        let was_open = !self.is_closed();
        self.phase = Phase::Closed;
        was_open
    }
}
