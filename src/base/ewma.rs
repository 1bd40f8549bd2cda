//! A decaying mean that forgets by time, not by the number of samples.

use std::time::{Duration, Instant};

/// An exponentially weighted moving average: a sample's weight halves about every 0.7 of `decay`.
#[derive(Debug, Clone, Copy)]
pub struct Ewma {
    mean: f64,
    at: Instant,
    decay: Duration,
}

impl Ewma {
    /// Starts at the first sample.
    #[must_use]
    pub const fn starting(sample: f64, at: Instant, decay: Duration) -> Self {
        Self { mean: sample, at, decay }
    }

    /// Takes a further sample, seen at `at`.
    pub fn add(&mut self, sample: f64, at: Instant) {
        let elapsed = at.saturating_duration_since(self.at).as_secs_f64();
        // Even two samples of one instant both count: the older keeps at most 80 %.
        let keep = libm::exp(-elapsed / self.decay.as_secs_f64().max(f64::MIN_POSITIVE)).min(0.8);
        self.mean = self.mean * keep + sample * (1.0 - keep);
        self.at = at;
    }

    /// The mean, in the unit of the samples.
    #[must_use]
    pub const fn mean(&self) -> f64 {
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_moves_towards_new_samples_and_faster_after_a_pause() {
        let start = Instant::now();
        let decay = Duration::from_secs(30);
        let mut soon = Ewma::starting(10.0, start, decay);
        soon.add(20.0, start + Duration::from_secs(1));
        let mut late = Ewma::starting(10.0, start, decay);
        late.add(20.0, start + Duration::from_secs(300));
        assert!(soon.mean() > 10.0 && soon.mean() < 15.0);
        assert!(late.mean() > 19.9);
    }
}
