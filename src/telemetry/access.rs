//! One line for a request, if the operator wants to see it.

use std::time::Duration;

use tracing::{info, warn};

use super::AttemptOutcome;
use super::event::TARGET;
use super::ration::{Kind, Rations};
use crate::base::{RefusalReason, Strategy};
use crate::config::AccessLog;

/// The loggable facts of one request: how it was handled, never its content.
///
/// There is no member for a path, a header or a body, so that none can be logged by mistake.
#[derive(Debug, Clone, Copy)]
pub struct AccessEvent<'a> {
    /// Echoed or minted; in visible ASCII, which is looked at only where the line is written.
    pub request_id: &'a [u8],
    /// The HTTP method.
    pub method: &'a str,
    /// The operation's name, from the table of operations; stands for the path.
    pub operation: &'static str,
    /// The status that the client got; 0 when it disconnected first.
    pub status: u16,
    /// The region that answered, or the last one tried.
    pub region: Option<&'a str>,
    /// The region that an enqueue was meant for, where that region's state moved it elsewhere before the first try.
    pub moved_from: Option<&'a str>,
    /// The strategy that chose it, for an enqueue.
    pub strategy: Option<Strategy>,
    /// Tries at regions.
    pub attempts: u32,
    /// How the last try ended.
    pub outcome: Option<AttemptOutcome>,
    /// Why we answered with an error of our own.
    pub refusal: Option<RefusalReason>,
    /// From the end of the head until the answer begins; a streamed answer may go on for long.
    pub duration: Duration,
    /// The part of it that was spent waiting for regions.
    pub upstream: Duration,
}

/// The loggable facts of the job of a request.
#[derive(Debug, Clone, Default)]
pub struct AccessJob<'a> {
    /// Its id, the client's or the minted one.
    pub job_id: Option<&'a str>,
    /// Its tracking id.
    pub federation_id: Option<&'a str>,
    /// Its queue.
    pub queue: Option<&'a str>,
    /// Its type.
    pub job_type: Option<&'a str>,
    /// The region that it names.
    pub pin: Option<&'a str>,
    /// The region that it left, the one that it went to, and why.
    pub moved: Option<[&'a str; 3]>,
    /// The picture of the regions that decided, where it was not the view.
    pub decided_by: Option<&'a str>,
    /// The regions that fell out, each with the reason: `eu-west-1:unhealthy`, with commas between.
    pub refusals: Option<String>,
}

/// A line that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Whether it is one of trouble.
    warns: bool,
    /// How many like it were not written since the last one.
    suppressed: u64,
}

impl AccessEvent<'_> {
    /// The line, if `setting` asks for one and `rations` have room for one of its kind.
    #[must_use]
    pub fn line(&self, setting: AccessLog, rations: &Rations) -> Option<Line> {
        let kind = self.kind();
        match setting {
            AccessLog::Off => return None,
            AccessLog::Errors if kind.is_none() => return None,
            AccessLog::Errors | AccessLog::All => {}
        }
        // A job that another region has taken is no trouble: the first region's faults have lines of their own.
        let warns = kind.is_some_and(|kind| kind != Kind::Moved);
        let suppressed = kind.map_or(Some(0), |kind| rations.take(kind))?;
        Some(Line { warns, suppressed })
    }

    /// Whether it went as planned; else `log.access: errors` shows it: refusals, failovers, unknown outcomes and 5xx.
    #[must_use]
    pub fn went_as_planned(&self) -> bool {
        self.kind().is_none()
    }

    fn kind(&self) -> Option<Kind> {
        if let Some(reason) = self.refusal {
            return Some(Kind::Refused(reason));
        }
        if matches!(self.outcome, Some(AttemptOutcome::Unknown)) {
            return Some(Kind::Unknown);
        }
        if self.status >= 500 {
            return Some(Kind::ServerError);
        }
        (self.attempts > 1 || self.moved_from.is_some()).then_some(Kind::Moved)
    }

    /// Writes the line; `job` is the request's job, where it had one.
    pub fn write(&self, line: Line, job: &AccessJob<'_>) {
        let request_id = std::str::from_utf8(self.request_id).unwrap_or_default();
        let strategy = self.strategy.map(Strategy::as_str);
        let outcome = self.outcome.map(AttemptOutcome::as_str);
        let refusal = self.refusal.map(RefusalReason::as_str);
        let (duration_ms, upstream_ms) = (milliseconds(self.duration), milliseconds(self.upstream));
        let suppressed = (line.suppressed > 0).then_some(line.suppressed);
        let moved = |place: usize| job.moved.and_then(|moved| moved.get(place).copied());
        let (moved_from, moved_to, moved_because) = (self.moved_from.or(moved(0)), moved(1), moved(2));
        // The two arms differ in the level only, which `tracing` wants as a constant.
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    target: TARGET,
                    event = "ojs.federation.access",
                    request_id,
                    method = self.method,
                    operation = self.operation,
                    status = self.status,
                    job_id = job.job_id,
                    federation_id = job.federation_id,
                    queue = job.queue,
                    job_type = job.job_type,
                    pin = job.pin,
                    region = self.region,
                    moved_from,
                    moved_to,
                    moved_because,
                    strategy,
                    decided_by = job.decided_by,
                    attempts = self.attempts,
                    outcome,
                    refusal,
                    refusals = job.refusals.as_deref(),
                    duration_ms,
                    upstream_ms,
                    suppressed,
                    "request"
                )
            };
        }
        if line.warns {
            line!(warn);
        } else {
            line!(info);
        }
    }
}

/// Milliseconds with three decimals: a line is read by people.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: AccessEvent<'static> = AccessEvent {
        request_id: b"r",
        method: "POST",
        operation: "enqueue",
        status: 201,
        region: Some("eu-west-1"),
        moved_from: None,
        strategy: Some(Strategy::Affinity),
        attempts: 1,
        outcome: Some(AttemptOutcome::Answered),
        refusal: None,
        duration: Duration::from_millis(3),
        upstream: Duration::from_millis(2),
    };

    #[test]
    fn errors_shows_refusals_failovers_unknown_outcomes_and_5xx_and_nothing_else() {
        let check = |name: &str, event: AccessEvent<'_>, shown: bool| {
            assert_eq!(!event.went_as_planned(), shown, "{name}");
        };
        check("stored", GOOD, false);
        check("a region's 404", AccessEvent { status: 404, ..GOOD }, false);
        check("a region's 502", AccessEvent { status: 502, ..GOOD }, true);
        check("failover", AccessEvent { attempts: 2, ..GOOD }, true);
        check("failover at the decision", AccessEvent { moved_from: Some("us-east-1"), ..GOOD }, true);
        check("unknown", AccessEvent { outcome: Some(AttemptOutcome::Unknown), ..GOOD }, true);
        check("refused", AccessEvent { status: 400, refusal: Some(RefusalReason::InvalidRequest), ..GOOD }, true);
        check("client went away", AccessEvent { status: 0, ..GOOD }, false);
    }

    #[test]
    fn durations_keep_microseconds() {
        assert!((milliseconds(Duration::from_nanos(1_234_567)) - 1.235).abs() < 1e-9);
    }
}
