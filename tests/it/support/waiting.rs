//! Waiting for the program under test, with a bound.

use std::time::Duration;

/// Bounds every wait of a test; reached only when it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is true; panics with its name when that takes too long.
pub async fn eventually(what: &str, is_true: impl AsyncFnMut() -> bool) {
    eventually_every(Duration::from_millis(5), what, is_true).await;
}

async fn eventually_every(pause: Duration, what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < PATIENCE, "this did not come true: {what}");
        tokio::time::sleep(pause).await;
    }
}

/// Waits until a count is at its target, as long as it rises: thousands of jobs take longer than one wait may. Counts seldom, because each count
/// of thousands is work for the program under test.
pub async fn rises(what: &str, target: usize, count: impl AsyncFn() -> usize) {
    let mut before = 0;
    while before < target {
        let mut now = 0;
        eventually_every(Duration::from_millis(100), &format!("{what} than {before} of {target}"), async || {
            now = count().await;
            now > before || now >= target
        })
        .await;
        before = now;
        if before < target {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
