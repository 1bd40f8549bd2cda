//! Repetitions at the same region, operation by operation, all in this one place.
//!
//! Another region is not considered here: a job's owner is one region, and [`super::next`] decides about other regions
//! for an enqueue.
//!
//! Spec: ojs-protocol 5.3.

use std::time::Duration;

use crate::base::Draw;
use crate::ojs::Operation;

/// How many times one call is sent. SDKs try four times themselves, so that more would only multiply.
pub const TRIES_MAX: u32 = 3;
/// The mean wait after the first try; it doubles.
const BACKOFF: Duration = Duration::from_millis(100);
/// A region that asks for more patience gets this much: the client is waiting.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// How a call behaves when it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// It may do something twice, or it is not ours to repeat.
    Never,
    /// A repeated success is refused with a 409, which then means that the first one was received.
    Ack,
    /// A repeated failure is refused with a 409 which may mean anything: the job has moved on.
    Nack,
    /// Repeating it changes nothing.
    Freely,
}

/// How one try of a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// No byte of it left.
    NotSent,
    /// It was sent, and no whole answer came.
    NoAnswer,
    /// The region, or a balancer before it, answered with this status.
    Status(u16),
}

/// The step after a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The client gets the last answer.
    Stop,
    /// Once more to the same region.
    Again,
    /// The region says that there is nothing to acknowledge, and an earlier try may be why: ask for the job's state.
    Confirm,
}

/// The tries of one call so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tries {
    done: u32,
    /// Whether one of the tries may have been carried out without an answer.
    maybe: bool,
}

impl Repeat {
    /// How an operation behaves. `nack`: the path of an acknowledgement says that the job failed.
    #[must_use]
    pub const fn of(operation: Operation, nack: bool) -> Self {
        match operation {
            Operation::Nack => Self::Nack,
            Operation::JobSettle if nack => Self::Nack,
            Operation::Ack | Operation::JobSettle => Self::Ack,
            Operation::Progress | Operation::Heartbeat => Self::Freely,
            _ => Self::Never,
        }
    }

    /// Whether a try that ended so may be followed by another one.
    const fn again(self, end: End) -> bool {
        match (self, end) {
            (Self::Never, _) => false,
            (_, End::NotSent | End::NoAnswer | End::Status(500 | 502..=504)) => true,
            (Self::Ack, End::Status(429)) => true,
            (_, End::Status(_)) => false,
        }
    }
}

impl Tries {
    /// The step after one more try, which ended so.
    pub const fn after(&mut self, repeat: Repeat, end: End) -> Then {
        self.done += 1;
        if self.maybe && matches!((repeat, end), (Repeat::Ack, End::Status(409))) {
            return Then::Confirm;
        }
        self.maybe |= matches!(end, End::NoAnswer | End::Status(500 | 502..=504));
        if self.done < TRIES_MAX && repeat.again(end) { Then::Again } else { Then::Stop }
    }

    /// How many tries are left, the next one included; at least one.
    #[must_use]
    pub const fn left(self, repeat: Repeat) -> u32 {
        match TRIES_MAX.saturating_sub(self.done) {
            _ if matches!(repeat, Repeat::Never) => 1,
            0 => 1,
            left => left,
        }
    }

    /// Whether an earlier try may have been acted on.
    #[must_use]
    pub const fn maybe(self) -> bool {
        self.maybe
    }

    /// The pause before the next try: half to one and a half of a mean that doubles, or the time that the region asked
    /// for.
    #[must_use]
    pub fn pause(self, asked: Option<Duration>, draw: &mut Draw) -> Duration {
        let mean = BACKOFF * 2_u32.saturating_pow(self.done.saturating_sub(1));
        asked.unwrap_or(mean.mul_f64(0.5 + draw.unit())).min(PATIENCE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The step behind the last of these tries.
    fn check(repeat: Repeat, ends: &[End], expected: Then) {
        let mut tries = Tries::default();
        let mut then = Then::Stop;
        for end in ends {
            then = tries.after(repeat, *end);
        }
        assert_eq!(then, expected, "{repeat:?} after {ends:?}");
    }

    const CONFLICT: End = End::Status(409);

    #[test]
    fn what_may_be_repeated_is_repeated_after_what_settles_nothing() {
        for repeat in [Repeat::Ack, Repeat::Nack, Repeat::Freely] {
            for end in
                [End::NotSent, End::NoAnswer, End::Status(500), End::Status(502), End::Status(503), End::Status(504)]
            {
                check(repeat, &[end], Then::Again);
                check(repeat, &[end, end], Then::Again);
                check(repeat, &[end, end, end], Then::Stop);
                check(Repeat::Never, &[end], Then::Stop);
            }
            for status in [200, 400, 401, 404, 409, 422, 501] {
                check(repeat, &[End::Status(status)], Then::Stop);
            }
        }
        check(Repeat::Ack, &[End::Status(429)], Then::Again);
        check(Repeat::Nack, &[End::Status(429)], Then::Stop);
    }

    #[test]
    fn only_a_conflict_that_an_earlier_ack_explains_is_confirmed() {
        check(Repeat::Ack, &[End::NoAnswer, CONFLICT], Then::Confirm);
        check(Repeat::Ack, &[End::Status(504), End::NotSent, CONFLICT], Then::Confirm);
        check(Repeat::Ack, &[CONFLICT], Then::Stop);
        check(Repeat::Ack, &[End::NotSent, CONFLICT], Then::Stop);
        check(Repeat::Ack, &[End::Status(429), CONFLICT], Then::Stop);
        check(Repeat::Nack, &[End::NoAnswer, CONFLICT], Then::Stop);
    }

    #[test]
    fn waits_double_and_a_regions_wish_is_heard_within_reason() {
        let mut draw = Draw::from_seed(1);
        let mut tries = Tries::default();
        for (low, high) in [(50, 150), (100, 300)] {
            tries.after(Repeat::Ack, End::NoAnswer);
            for _ in 0..100 {
                let pause = tries.pause(None, &mut draw).as_millis();
                assert!((low..=high).contains(&pause), "{pause}");
            }
        }
        assert_eq!(tries.pause(Some(Duration::from_millis(500)), &mut draw), Duration::from_millis(500));
        assert_eq!(tries.pause(Some(Duration::from_secs(60)), &mut draw), PATIENCE_MAX);
    }

    #[test]
    fn operations_that_create_or_claim_are_never_repeated() {
        for operation in [Operation::Enqueue, Operation::Batch, Operation::Fetch, Operation::JobCancel] {
            assert_eq!(Repeat::of(operation, false), Repeat::Never);
        }
        assert_eq!(Repeat::of(Operation::JobSettle, true), Repeat::Nack);
        assert_eq!(Repeat::of(Operation::JobSettle, false), Repeat::Ack);
    }
}
