//! How many connections a pool makes at once.
//!
//! A handshake costs about a millisecond at either end. Thousands at once, of clients that do not read their answers,
//! would all take longer than `limits.connect_timeout`, as if the region did not answer.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Connections that are made at once to one region by one thread: the last of them has waited a fraction of a second for the others.
const AT_ONCE: usize = 64;
/// The turns for streamed calls, so that turns are left for jobs.
const STREAMED_AT_ONCE: usize = 16;

/// The turns of one pool.
#[derive(Debug)]
pub(super) struct Turns {
    all: Semaphore,
    streamed: Semaphore,
}

/// A turn, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Turn<'a> {
    _all: Option<SemaphorePermit<'a>>,
    _streamed: Option<SemaphorePermit<'a>>,
    /// Whether it had to be waited for.
    pub(super) has_waited: bool,
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Semaphore::new(AT_ONCE), streamed: Semaphore::new(STREAMED_AT_ONCE) }
    }
}

impl Turns {
    /// The next turn, in the order in which they were asked for.
    ///
    /// Cancel: the turn goes to the next one.
    pub(super) async fn next(&self, is_streamed: bool) -> Turn<'_> {
        let is_free = |turns: &Semaphore| turns.available_permits() > 0;
        let has_waited = !is_free(&self.all) || is_streamed && !is_free(&self.streamed);
        // Never closed, so that no turn is missing.
        let streamed = if is_streamed { self.streamed.acquire().await.ok() } else { None };
        let all = self.all.acquire().await.ok();
        Turn { _all: all, _streamed: streamed, has_waited }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn streamed_calls_leave_turns_at_connecting_to_jobs() {
        let turns = Turns::default();
        let mut taken = Vec::new();
        while let Some(turn) = turns.next(true).now_or_never() {
            taken.push(turn);
        }
        assert_eq!(taken.len(), STREAMED_AT_ONCE);
        while let Some(turn) = turns.next(false).now_or_never() {
            assert!(!turn.has_waited);
            taken.push(turn);
        }
        assert_eq!(taken.len(), AT_ONCE);
        let mut waiting = Box::pin(turns.next(false));
        assert!(waiting.as_mut().now_or_never().is_none());
        taken.pop();
        assert!(waiting.await.has_waited);
    }
}
