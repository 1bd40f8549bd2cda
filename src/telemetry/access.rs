//! One line for a request, if the operator wants to see it.

use std::time::Duration;

use tracing::{info, warn};

use super::event::TARGET;
use super::{AttemptOutcome, RefusalReason};
use crate::base::Strategy;
use crate::config::AccessLog;

/// What may be told of one request: how it was handled, never what it said.
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
    /// What the client was answered; 0 when it went away first.
    pub status: u16,
    /// The region that answered, or the last one tried.
    pub region: Option<&'a str>,
    /// The region that an enqueue was meant for, where that region's state moved it elsewhere before the first try.
    pub moved_from: Option<&'a str>,
    /// The strategy that chose it, for an enqueue.
    pub strategy: Option<Strategy>,
    /// Tries at regions.
    pub attempts: usize,
    /// How the last try ended.
    pub outcome: Option<AttemptOutcome>,
    /// Why we answered with an error of our own.
    pub refusal: Option<RefusalReason>,
    /// From the end of the head until the answer begins; a streamed answer may go on for long.
    pub duration: Duration,
    /// The part of it that was spent waiting for regions.
    pub upstream: Duration,
}

impl AccessEvent<'_> {
    /// Writes the line if `setting` asks for it.
    pub fn log(&self, setting: AccessLog) {
        let failed = self.is_failure();
        match setting {
            AccessLog::Off => {}
            AccessLog::Errors if !failed => {}
            AccessLog::Errors | AccessLog::All => self.write(failed),
        }
    }

    /// Whether `log.access: errors` shows it: refusals, failovers, unknown outcomes and 5xx.
    const fn is_failure(&self) -> bool {
        self.status >= 500
            || self.refusal.is_some()
            || self.attempts > 1
            || self.moved_from.is_some()
            || matches!(self.outcome, Some(AttemptOutcome::Unknown))
    }

    fn write(&self, failed: bool) {
        let request_id = std::str::from_utf8(self.request_id).unwrap_or_default();
        let strategy = self.strategy.map(Strategy::as_str);
        let outcome = self.outcome.map(AttemptOutcome::as_str);
        let refusal = self.refusal.map(RefusalReason::as_str);
        let (duration_ms, upstream_ms) = (milliseconds(self.duration), milliseconds(self.upstream));
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
                    region = self.region,
                    moved_from = self.moved_from,
                    strategy,
                    attempts = self.attempts,
                    outcome,
                    refusal,
                    duration_ms,
                    upstream_ms,
                    "request"
                )
            };
        }
        if failed {
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
        let check = |name: &str, event: AccessEvent<'_>, shown: bool| assert_eq!(event.is_failure(), shown, "{name}");
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
