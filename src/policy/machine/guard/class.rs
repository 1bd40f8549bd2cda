//! The classes of a guard, and the result of one call.

use std::time::Duration;

use crate::base::words;
use crate::ojs::Operation;

words! {
    /// A kind of calls that can fail while the others work. Those that a guard may refuse come first.
    GuardClass {
        /// Calls that create jobs.
        Enqueue = "enqueue",
        /// A worker asks for jobs.
        Fetch = "fetch",
        /// Look-ups, lists, aggregates, event streams.
        Read = "read",
        /// Changes to jobs, queues and definitions.
        Admin = "admin",
        /// A job succeeded or made progress.
        Ack = "ack",
        /// A job failed.
        Nack = "nack",
        /// A worker is alive.
        Heartbeat = "heartbeat",
    }
}

impl GuardClass {
    /// How many of them a guard may refuse. Words about jobs that the region leased are never refused: it would run the jobs
    /// again.
    pub const REFUSABLE: usize = 4;

    /// The class of an operation; `None` for operations that no region answers and for unknown ones.
    #[must_use]
    pub const fn of(operation: Operation) -> Option<Self> {
        use Operation as Op;
        Some(match operation {
            Op::Enqueue | Op::Batch | Op::Bulk | Op::CronWrite | Op::WorkflowWrite | Op::Recreate => Self::Enqueue,
            Op::Fetch => Self::Fetch,
            Op::Ack | Op::JobSettle | Op::Progress => Self::Ack,
            Op::Nack => Self::Nack,
            Op::Heartbeat | Op::WorkerState => Self::Heartbeat,
            Op::JobGet | Op::JobResults | Op::QueueStats | Op::Queues | Op::AdminStats | Op::List => Self::Read,
            Op::JobEvents | Op::QueueEvents | Op::Events | Op::Manifest | Op::System => Self::Read,
            Op::JobCancel | Op::JobScoped | Op::JobsById | Op::Cron | Op::Workflow | Op::Definition => Self::Admin,
            Op::QueuePause | Op::QueueResume | Op::QueuePurge | Op::QueueDelete | Op::QueueScoped => Self::Admin,
            Op::WebSocket | Op::Health | Op::Unknown => return None,
            Op::FederationRegions | Op::FederationRoute | Op::FederationHealth | Op::FederationOther => return None,
            Op::FederationOutcomes | Op::FederationDecisions | Op::FederationJob | Op::UwerSubmit | Op::UwerTask => {
                return None;
            }
        })
    }

    /// Its place in [`GuardClass::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether a guard may refuse such calls.
    #[must_use]
    pub const fn is_refusable(self) -> bool {
        self.index() < Self::REFUSABLE
    }
}

/// One attempt at a region, as far as it says something of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The class of the call.
    pub class: GuardClass,
    /// The status of the region's answer; none when no whole answer came.
    pub status: Option<u16>,
    /// Whether the answer carries `X-OJS-Queue-Status`, so that it speaks of one queue.
    pub queue_status: bool,
    /// The answer's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// A hash of the possible cause of a 500 besides the region: the job type of an enqueue, the id of a look-up.
    /// `None`: only the region.
    pub source: Option<u64>,
}

/// The effect of an attempt on its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The region did its work.
    Success,
    /// It did not: no answer, or a gateway's word.
    Failure,
    /// It broke over this call; another one may be served.
    ServerError,
    /// Nothing for or against it.
    Nothing,
}

impl Attempt {
    /// The effect on its class.
    #[must_use]
    pub const fn shown(&self) -> Shown {
        match self.status {
            None | Some(502 | 504) => Shown::Failure,
            Some(503) if self.queue_status => Shown::Nothing,
            Some(503) => Shown::Failure,
            // Backpressure: a region that refuses work shows neither that it works nor that it fails.
            Some(429) => Shown::Nothing,
            Some(200..=499) => Shown::Success,
            // 501 speaks of the operation: servers of a lower conformance level answer it in perfect health.
            Some(500 | 505..=599) => Shown::ServerError,
            Some(_) => Shown::Nothing,
        }
    }

    /// Whether the region asks for less.
    #[must_use]
    pub const fn asks_for_less(&self) -> bool {
        self.retry_after.is_some()
            || matches!(self.status, Some(429))
            || self.queue_status && matches!(self.status, Some(503))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_numbered_in_order_and_the_refusable_ones_come_first() {
        for (place, class) in GuardClass::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), place);
            assert_eq!(class.is_refusable(), place < 4, "{}", class.as_str());
        }
    }

    #[test]
    fn words_about_leased_jobs_are_of_classes_that_nobody_refuses() {
        use Operation as Op;
        for operation in [Op::Ack, Op::Nack, Op::Progress, Op::Heartbeat, Op::WorkerState, Op::JobSettle] {
            assert!(!GuardClass::of(operation).unwrap().is_refusable(), "{}", operation.as_str());
        }
        for (operation, class) in [
            (Op::Batch, Some(GuardClass::Enqueue)),
            (Op::Fetch, Some(GuardClass::Fetch)),
            (Op::JobGet, Some(GuardClass::Read)),
            (Op::JobCancel, Some(GuardClass::Admin)),
            (Op::FederationRoute, None),
        ] {
            assert_eq!(GuardClass::of(operation), class);
        }
    }

    #[test]
    fn backpressure_is_no_failure_and_only_gateways_and_silence_are() {
        let check = |status, queue_status, shown, asks| {
            let attempt = Attempt { class: GuardClass::Read, status, queue_status, retry_after: None, source: None };
            assert_eq!((attempt.shown(), attempt.asks_for_less()), (shown, asks), "{status:?}");
            let attempt = Attempt { retry_after: Some(Duration::from_secs(1)), ..attempt };
            assert_eq!((attempt.shown(), attempt.asks_for_less()), (shown, true), "{status:?}");
        };
        for status in [None, Some(502), Some(503), Some(504)] {
            check(status, false, Shown::Failure, false);
        }
        for status in [200, 201, 302, 404, 409, 422] {
            check(Some(status), false, Shown::Success, false);
        }
        check(Some(429), false, Shown::Nothing, true);
        check(Some(503), true, Shown::Nothing, true);
        check(Some(500), false, Shown::ServerError, false);
        check(Some(501), false, Shown::Nothing, false);
        check(Some(101), false, Shown::Nothing, false);
    }
}
