//! Waiting for the program under test, with a bound.

use std::time::Duration;

/// Bounds every wait of a test; reached only when it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is true; panics with its name when that takes too long.
pub async fn eventually(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < PATIENCE, "this did not come true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a count is at its target, as long as it rises: thousands of jobs take longer than one wait may.
pub async fn rises(what: &str, target: usize, count: impl AsyncFn() -> usize) {
    let mut before = 0;
    while before < target {
        let mut now = 0;
        eventually(&format!("{what} than {before} of {target}"), async || {
            now = count().await;
            now > before || now >= target
        })
        .await;
        before = now;
    }
}
