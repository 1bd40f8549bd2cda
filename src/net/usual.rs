//! How long connecting to a region usually takes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A new connection moves the mean by this part of the difference.
const WEIGHT: u64 = 8;

/// The mean time of connecting, TLS included; shared by all threads that connect to a region.
#[derive(Debug, Default)]
pub struct UsualConnect {
    /// Units: microseconds; 0 before the first connection.
    mean: AtomicU64,
}

impl UsualConnect {
    /// The mean; none before the first connection.
    #[must_use]
    pub fn get(&self) -> Option<Duration> {
        let mean = self.mean.load(Relaxed);
        (mean > 0).then(|| Duration::from_micros(mean))
    }

    /// Takes how long a connection took. Of two threads that do so at once one may be forgotten, which changes little.
    pub fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let mean = match self.mean.load(Relaxed) {
            0 => time,
            mean => (mean - mean / WEIGHT).saturating_add(time / WEIGHT).max(1),
        };
        self.mean.store(mean, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_is_the_mean_and_later_ones_move_it() {
        let usual = UsualConnect::default();
        assert_eq!(usual.get(), None);
        usual.took(Duration::from_millis(80));
        assert_eq!(usual.get(), Some(Duration::from_millis(80)));
        usual.took(Duration::from_millis(160));
        assert_eq!(usual.get(), Some(Duration::from_millis(90)));
        for _ in 0..100 {
            usual.took(Duration::ZERO);
        }
        assert!(usual.get().is_some_and(|mean| mean < Duration::from_millis(1)));
    }
}
