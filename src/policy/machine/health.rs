//! From single probe results to a verdict that does not flap.

use crate::base::words;
use crate::config::HealthCheck;

words! {
    /// The verdict of a region's probes.
    Health {
        /// Never probed.
        Unknown = "unknown",
        /// Its health endpoint says so.
        Healthy = "healthy",
        /// It failed its probes.
        Unhealthy = "unhealthy",
    }
}

/// Turns consecutive probe results into a [`Health`].
///
/// The first result decides at once, because a region is unknown only until its first probe; later verdicts change after the
/// configured number of consecutive results to the contrary.
#[derive(Debug, Clone)]
pub struct HealthTracker {
    health: Health,
    /// Consecutive results that contradict `health`.
    contrary: u32,
    unhealthy_threshold: u32,
    healthy_threshold: u32,
}

impl HealthTracker {
    /// A region that was never probed.
    #[must_use]
    pub const fn new(config: &HealthCheck) -> Self {
        Self {
            health: Health::Unknown,
            contrary: 0,
            unhealthy_threshold: config.unhealthy_threshold,
            healthy_threshold: config.healthy_threshold,
        }
    }

    /// Takes over new thresholds; the verdict stays.
    pub const fn reconfigure(&mut self, config: &HealthCheck) {
        self.unhealthy_threshold = config.unhealthy_threshold;
        self.healthy_threshold = config.healthy_threshold;
    }

    /// The verdict so far.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.health
    }

    /// Takes a verdict back.
    pub(in crate::policy) const fn restore(&mut self, before: Health) {
        (self.health, self.contrary) = (before, 0);
    }

    /// Takes a probe result; `Some` with the new verdict when it changed.
    pub fn on_probe(&mut self, ok: bool) -> Option<Health> {
        let says = if ok { Health::Healthy } else { Health::Unhealthy };
        if says == self.health {
            self.contrary = 0;
            return None;
        }
        self.contrary = self.contrary.saturating_add(1);
        let needed = match (self.health, says) {
            (Health::Unknown, _) => 1,
            (_, Health::Healthy) => self.healthy_threshold,
            _ => self.unhealthy_threshold,
        };
        if self.contrary < needed {
            return None;
        }
        self.health = says;
        self.contrary = 0;
        Some(says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing;

    /// Feeds results (`+` good, `-` bad) and compares the verdict after each (`u`, `h`, `d` for down).
    fn check(unhealthy_threshold: u32, healthy_threshold: u32, results: &str, verdicts: &str) {
        let config = HealthCheck { unhealthy_threshold, healthy_threshold, ..testing::config(&["a"]).health_check };
        let mut tracker = HealthTracker::new(&config);
        let mut seen = String::new();
        for result in results.chars() {
            let before = tracker.health();
            let change = tracker.on_probe(result == '+');
            assert_eq!(change.is_some(), before != tracker.health());
            seen.push(match tracker.health() {
                Health::Unknown => 'u',
                Health::Healthy => 'h',
                Health::Unhealthy => 'd',
            });
        }
        assert_eq!(seen, verdicts, "{results}");
    }

    #[test]
    fn the_first_probe_decides_and_later_verdicts_need_consecutive_results() {
        check(1, 1, "+-+-", "hdhd");
        check(3, 2, "+--+---+-++", "hhhhhhddddh");
        check(3, 2, "-", "d");
    }
}
