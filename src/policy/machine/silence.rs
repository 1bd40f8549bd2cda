//! When a region counts as silent, and how long a job waits for a region that may be.
//!
//! A region can fall silent without refusing anything: its packets are dropped, or its process is stopped while the
//! kernel still accepts. Only time shows it. So three limits are kept here: how long a connection may take before the
//! next candidate is dialled, how long calls may stay without any answer before the region is asked for its health at
//! once, and how long that answer may take.

use std::time::Duration;

/// The waits are this many times the usual time.
const USUAL_TIMES: u32 = 3;
/// A wait is never shorter, so that a busy machine or one slow handshake moves no job.
const WAIT_MIN: Duration = Duration::from_millis(250);
/// The longest wait for a connection, unless the usual time is longer.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(1);
/// A region whose connections were too slow so recently is not waited for again, unless a connection was made since.
pub const PASSED_OVER_FOR: Duration = Duration::from_secs(1);
/// The least that the answer to a look may take: a handshake and a request, on a machine that has other work.
const LOOK_WAIT_MIN: Duration = Duration::from_millis(500);
/// Without a measured round trip, the answer to a look may take this long.
const LOOK_WAIT_UNKNOWN: Duration = Duration::from_secs(1);
/// Calls of which none is answered are doubted after so many rounds: 150 ms, or twice as many as it took lately.
const ROUNDS_MIN: u32 = 3;
/// A region that is usually slower than so many rounds is doubted no later for that.
const GAP_MAX: u32 = 20;
/// Looks at a region that answered none begin this far apart.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often calls under way are looked over.
pub const WATCH_EVERY: Duration = Duration::from_millis(50);
/// Without a call for so many of these rounds the watch ends.
const IDLE_ROUNDS: u32 = 20;

/// How long a flexible job waits for a connection before the next candidate is dialled as well.
///
/// `usual`: how long connecting to the region takes on average; `round_trip`: that of its probes, which stands in where it never connected.
/// `passed_over`: how long ago a job last went elsewhere because no connection came, where none has come since.
#[must_use]
pub fn connect_wait(usual: Option<Duration>, round_trip: Option<Duration>, passed_over: Option<Duration>) -> Duration {
    if passed_over.is_some_and(|ago| ago < PASSED_OVER_FOR) {
        return Duration::ZERO;
    }
    // TCP and TLS take two round trips, and the server's signature some time.
    let Some(usual) = usual.or(round_trip.map(|trip| trip * 2)) else { return CONNECT_WAIT_MAX };
    let wait = (usual * USUAL_TIMES).clamp(WAIT_MIN, CONNECT_WAIT_MAX);
    wait.max(usual + usual / 2)
}

/// How long the answer to a look may take before the region counts as silent, connecting included, and at most `timeout`.
#[must_use]
pub fn look_wait(usual: Option<Duration>, round_trip: Option<Duration>, timeout: Duration) -> Duration {
    let known = usual.zip(round_trip).map(|(usual, trip)| ((usual + trip) * USUAL_TIMES).max(LOOK_WAIT_MIN));
    known.unwrap_or(LOOK_WAIT_UNKNOWN).min(timeout)
}

/// Calls to one region, counted by one thread; each count wraps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Under way, without an answer yet.
    pub waiting: u32,
    /// Begun so far.
    pub begun: u32,
    /// Answered so far.
    pub answered: u32,
}

/// The evidence of one thread's calls to one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Nothing special.
    None,
    /// Calls wait, and none was answered for too long: the region is to be asked for its health.
    Doubt,
    /// Nothing was under way for a while: there is nothing to watch.
    Idle,
}

/// Watches the calls of one thread to one region.
#[derive(Debug, Default)]
pub struct Watch {
    seen: Calls,
    /// For how many rounds calls have waited without an answer to any.
    rounds: u32,
    /// The most such rounds lately that ended with an answer.
    gap: u32,
    doubted: bool,
    idle: u32,
}

impl Watch {
    /// Takes the counts as they are now; to be called every [`WATCH_EVERY`].
    pub fn look(&mut self, calls: Calls) -> Sign {
        let seen = std::mem::replace(&mut self.seen, calls);
        if calls.waiting == 0 && (calls.begun, calls.answered) == (seen.begun, seen.answered) {
            (self.rounds, self.doubted) = (0, false);
            self.idle += 1;
            return if self.idle >= IDLE_ROUNDS { Sign::Idle } else { Sign::None };
        }
        self.idle = 0;
        if calls.answered != seen.answered {
            self.gap = self.rounds.min(GAP_MAX).max(self.gap - self.gap.div_ceil(8));
            (self.rounds, self.doubted) = (0, false);
        } else if self.doubted && calls.begun != seen.begun {
            // The doubt may have concerned only that connection; these are new.
            (self.rounds, self.doubted) = (0, false);
        } else if calls.waiting > 0 {
            self.rounds = self.rounds.saturating_add(1);
        }
        if self.doubted || calls.waiting == 0 || self.rounds < ROUNDS_MIN.max(self.gap * 2) {
            return Sign::None;
        }
        self.doubted = true;
        Sign::Doubt
    }

    /// The watch begins anew after a pause, and keeps the learned times of the region.
    pub const fn resume(&mut self, calls: Calls) {
        self.seen = calls;
        self.rounds = 0;
        self.doubted = false;
        self.idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_connection_is_waited_for_by_what_is_usual_within_bounds() {
        let check = |usual: Option<u64>, trip: Option<u64>, ago: Option<u64>, expected: u64| {
            let wait = connect_wait(usual.map(ms), trip.map(ms), ago.map(ms));
            assert_eq!(wait, ms(expected), "{usual:?} {trip:?} {ago:?}");
        };
        check(None, None, None, 1000);
        check(None, Some(40), None, 250);
        check(None, Some(82), None, 492);
        check(Some(2), Some(82), None, 250);
        check(Some(170), None, None, 510);
        check(Some(600), None, None, 1000);
        check(Some(900), None, None, 1350);
        check(Some(170), None, Some(999), 0);
        check(Some(170), None, Some(1000), 510);
    }

    #[test]
    fn a_look_is_answered_within_what_is_usual_or_the_region_is_silent() {
        let check = |usual: Option<u64>, trip: Option<u64>, timeout: u64, expected: u64| {
            assert_eq!(look_wait(usual.map(ms), trip.map(ms), ms(timeout)), ms(expected), "{usual:?} {trip:?}");
        };
        check(None, None, 5000, 1000);
        check(Some(5), Some(1), 5000, 500);
        check(Some(170), Some(82), 5000, 756);
        check(Some(170), Some(2000), 5000, 5000);
        check(Some(170), Some(82), 600, 600);
    }

    /// Rounds of (waiting, begun, answered), one each [`WATCH_EVERY`]; in which of them there is doubt.
    fn doubts(rounds: &[[u32; 3]]) -> Vec<usize> {
        let (mut watch, mut doubts) = (Watch::default(), Vec::new());
        for (round, &[waiting, begun, answered]) in rounds.iter().enumerate() {
            if watch.look(Calls { waiting, begun, answered }) == Sign::Doubt {
                doubts.push(round);
            }
        }
        doubts
    }

    #[test]
    fn calls_of_which_none_is_answered_are_doubted_once() {
        assert_eq!(doubts(&[[1, 1, 0]; 30]), [2]);
        assert_eq!(doubts(&[[1, 1, 0], [2, 2, 0], [3, 3, 0], [4, 4, 0], [4, 4, 0], [4, 4, 0]]), [2]);
        // Calls that begin later are doubted anew.
        let mut rounds = vec![[1, 1, 0]; 5];
        rounds.extend([[2, 2, 0]; 5]);
        assert_eq!(doubts(&rounds), [2, 8]);
    }

    #[test]
    fn a_region_that_answers_anything_is_not_doubted() {
        assert_eq!(doubts(&[[2, 2, 0], [2, 3, 1], [2, 4, 2], [2, 5, 3], [2, 6, 4], [2, 7, 5]]), [0; 0]);
        assert_eq!(doubts(&[[0, 1, 1]; 30]), [0; 0], "nothing waits");
    }

    #[test]
    fn a_region_that_is_usually_slow_is_given_more_time() {
        let slow = |number: u32| {
            let waits = std::iter::repeat_n([1, number, number - 1], 5);
            waits.chain([[0, number, number]])
        };
        let rounds: Vec<_> = (1..=4).flat_map(slow).collect();
        assert_eq!(doubts(&rounds), [2], "only the first time");
    }

    #[test]
    fn a_watch_without_calls_ends() {
        let mut watch = Watch::default();
        let signs: Vec<_> = (0..20).map(|_| watch.look(Calls::default())).collect();
        assert_eq!(signs.last(), Some(&Sign::Idle));
        assert!(signs[..19].iter().all(|sign| *sign == Sign::None));
    }
}
