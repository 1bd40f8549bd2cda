//! The result of an attempt: for the job, and for the region's breaker.
//!
//! The two are different questions. A 502 leaves the job's fate open and is a failure of the region; a 503 for one paused
//! queue is a plain answer and says nothing against the region.

use crate::policy::machine::RequestOutcome;

/// The three ways in which an attempt can end for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// No byte of the request was written, or the peer proved that it did not process it.
    NotSent,
    /// The region itself answered, and not a balancer before it.
    Answered,
    /// Bytes were written, and there is no answer that shows whether the job is stored.
    Unknown,
}

/// The meaning of an answered enqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The region's own answer: the client gets it.
    Pass,
    /// The region refused and nothing is stored: another region may be tried.
    TryNext,
    /// The answer of a balancer, which may have forwarded the job before.
    Unknown,
}

/// The end of an attempt, as the connection and the answer show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing was sent.
    NotSent,
    /// There is an answer.
    Answered(Answer),
    /// Bytes were written and no answer came.
    NoAnswer,
}

impl Ending {
    /// The outcome of the attempt.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::NotSent => Outcome::NotSent,
            Self::Answered(Answer::Pass | Answer::TryNext) => Outcome::Answered,
            Self::Answered(Answer::Unknown) | Self::NoAnswer => Outcome::Unknown,
        }
    }
}

/// The meaning of an answer to an enqueue.
///
/// `is_error_document`: the body is an OJS error document, so that a 503 comes from the region and not from a balancer before
/// it. `queue_status`: the answer carries `X-OJS-Queue-Status`, so that it concerns one queue.
/// `pinned`: the job may go to no other region.
#[must_use]
pub const fn classify_enqueue(status: u16, is_error_document: bool, queue_status: bool, pinned: bool) -> Answer {
    match status {
        // An interim status, 101 included, as the answer to a call that did not ask for an upgrade proves nothing. A redirect comes from a
        // balancer: passed on, it would have the client send the job to the host that it names.
        ..200 | 300..=399 | 502 | 504 => Answer::Unknown,
        503 if !is_error_document => Answer::Unknown,
        503 if !queue_status && !pinned => Answer::TryNext,
        _ => Answer::Pass,
    }
}

/// Whether an enqueue was turned away before anything was done with it: 307 and 308 ask for the same call at another address. Callers ask
/// this before [`classify_enqueue`], and treat such an attempt as not sent. Spec: RFC 9110, 15.4.8.
#[must_use]
pub const fn is_turned_away(status: u16) -> bool {
    matches!(status, 307 | 308)
}

/// The effect of an answer's status on the region's breaker: `None` when it has none.
///
/// Every final answer below 500 shows a working region, a 429 included: backpressure is no failure. A redirect, too: whatever sent it works.
#[must_use]
pub const fn effect(status: u16, queue_status: bool) -> Option<RequestOutcome> {
    match status {
        200..=499 => Some(RequestOutcome::Success),
        502 | 504 => Some(RequestOutcome::Failure),
        503 if queue_status => None,
        503 => Some(RequestOutcome::Failure),
        // 501 concerns the operation: healthy servers of a lower conformance level answer it. 508 reports a loop on the way of the call.
        500 | 505..=507 | 509..=599 => Some(RequestOutcome::RatioOnly),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regions_own_503_moves_a_flexible_job_and_a_balancers_word_never_does() {
        fn check(status: u16, [document, queue_status, pinned]: [bool; 3], answer: Answer) {
            assert_eq!(classify_enqueue(status, document, queue_status, pinned), answer, "{status}");
        }
        check(201, [false, false, false], Answer::Pass);
        check(409, [true, false, false], Answer::Pass);
        check(429, [true, false, false], Answer::Pass);
        check(500, [true, false, false], Answer::Pass);
        check(503, [true, false, false], Answer::TryNext);
        check(503, [true, false, true], Answer::Pass);
        check(503, [true, true, false], Answer::Pass);
        check(503, [false, false, false], Answer::Unknown);
        check(503, [false, true, true], Answer::Unknown);
        check(502, [true, false, false], Answer::Unknown);
        check(504, [true, false, true], Answer::Unknown);
        check(101, [true, false, false], Answer::Unknown);
        check(307, [true, false, true], Answer::Unknown);
    }

    #[test]
    fn an_ending_has_one_of_three_outcomes() {
        assert_eq!(Ending::NotSent.outcome(), Outcome::NotSent);
        assert_eq!(Ending::NoAnswer.outcome(), Outcome::Unknown);
        assert_eq!(Ending::Answered(Answer::Unknown).outcome(), Outcome::Unknown);
        assert_eq!(Ending::Answered(Answer::TryNext).outcome(), Outcome::Answered);
        assert_eq!(Ending::Answered(Answer::Pass).outcome(), Outcome::Answered);
    }

    #[test]
    fn a_regions_breaker_counts_gateway_errors_and_never_a_client_error() {
        fn check(status: u16, queue_status: bool, expected: Option<RequestOutcome>) {
            assert_eq!(effect(status, queue_status), expected, "{status}");
        }
        for status in [200, 201, 302, 400, 404, 409, 422, 429] {
            check(status, false, Some(RequestOutcome::Success));
        }
        for status in [502, 503, 504] {
            check(status, false, Some(RequestOutcome::Failure));
        }
        check(503, true, None);
        check(500, false, Some(RequestOutcome::RatioOnly));
        check(520, false, Some(RequestOutcome::RatioOnly));
        check(501, false, None);
        check(508, false, None);
        check(101, false, None);
    }
}
