//! Control loops that go on behind a panic.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::base::Clock;

/// The pause before a control loop that ended by a panic starts again.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Runs the loop that `make` gives, and makes it anew when it ends by a panic: a region without probes would keep its last state
/// for ever. The pause keeps a defect that strikes at once from filling the log.
pub(super) async fn restarted<F: Future<Output = ()>>(clock: Clock, mut make: impl FnMut() -> F) {
    while AssertUnwindSafe(make()).catch_unwind().await.is_err() {
        clock.sleep(RESTART_AFTER).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;
    use crate::base::SteeredTime;

    #[tokio::test]
    async fn a_loop_that_ends_by_a_panic_starts_again_and_one_that_ends_does_not() {
        let time = SteeredTime::starting_at(0);
        let (clock, runs) = (Clock::new(Arc::new(Arc::clone(&time))), Cell::new(0));
        let run = || {
            let number = runs.replace(runs.get() + 1);
            async move { assert!(number >= 2, "run {number} ends by a panic") }
        };
        let whole = restarted(clock, run);
        let steer = async {
            loop {
                tokio::task::yield_now().await;
                time.advance(RESTART_AFTER);
            }
        };
        tokio::select! { () = whole => {}, () = steer => {} }
        assert_eq!(runs.get(), 3);
    }
}
