//! How often a worker has got a job and has failed, by two sources: the reports of sidecars, and the events of the region. Both may show one attempt,
//! and each may miss some: sidecars are killed, and streams break off. The order in which they are heard does not matter.

use serde::{Deserialize, Serialize};

use crate::replica::NEAR_MS;

/// Times that are kept of each source; of a job with more attempts the earlier ones are a count.
const TIMES_MAX: usize = 32;

/// The attempts of a job. Units of times: milliseconds since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Attempts {
    /// When leases began, by the clock of the region.
    reported: Vec<u64>,
    observed: Vec<u64>,
    /// The leases of reported failures, or their own times, where the lease is not known.
    reported_failures: Vec<u64>,
    /// The times of observed failures.
    observed_failures: Vec<u64>,
    /// The attempts, and the failures, whose times are no longer kept.
    earlier: (u32, u32),
}

impl Attempts {
    /// A lease begins.
    pub(super) fn lease(&mut self, began_ms: u64, is_observed: bool) {
        let times = if is_observed { &mut self.observed } else { &mut self.reported };
        self.earlier.0 += u32::from(insert(times, began_ms));
    }

    /// A worker has failed. `lease_ms`: the begin of its lease, or the time of the failure.
    pub(super) fn fail(&mut self, lease_ms: u64, is_observed: bool) {
        let times = if is_observed { &mut self.observed_failures } else { &mut self.reported_failures };
        self.earlier.1 += u32::from(insert(times, lease_ms));
    }

    /// How often a worker has got it.
    pub(super) fn leases(&self) -> u32 {
        self.earlier.0.saturating_add(count(self.begins().len()))
    }

    /// How often a worker has failed.
    pub(super) fn failures(&self) -> u32 {
        let begins = self.begins();
        let lease = |at_ms: u64| begins.iter().rev().copied().find(|began| *began <= at_ms + NEAR_MS).unwrap_or(at_ms);
        let times = self.reported_failures.iter().chain(&self.observed_failures);
        let mut failed: Vec<u64> = times.map(|at_ms| lease(*at_ms)).collect();
        failed.sort_unstable();
        failed.dedup();
        self.earlier.1.saturating_add(count(failed.len()))
    }

    /// When each lease began, in order: an observed one that is near a reported one is the same.
    fn begins(&self) -> Vec<u64> {
        let is_reported = |at_ms: &u64| self.reported.iter().any(|it| it.abs_diff(*at_ms) <= NEAR_MS);
        let mut all = self.reported.clone();
        all.extend(self.observed.iter().filter(|at_ms| !is_reported(at_ms)));
        all.sort_unstable();
        all
    }
}

/// Adds a time, each once. Returns whether the earliest one had to go.
fn insert(times: &mut Vec<u64>, at_ms: u64) -> bool {
    let Err(place) = times.binary_search(&at_ms) else { return false };
    times.insert(place, at_ms);
    if times.len() > TIMES_MAX {
        times.remove(0);
        return true;
    }
    false
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_attempt_that_both_sources_show_counts_once_and_each_may_miss_some() {
        let mut attempts = Attempts::default();
        // The first sidecar was killed behind a failure, the second one before the end.
        attempts.lease(1_000, true);
        attempts.fail(1_032, true);
        attempts.lease(2_438, false);
        assert_eq!((attempts.leases(), attempts.failures()), (2, 1));
        // Both show the second attempt, and its failure.
        attempts.lease(2_439, true);
        attempts.fail(2_438, false);
        attempts.fail(2_470, true);
        assert_eq!((attempts.leases(), attempts.failures()), (2, 2));
        attempts.lease(9_000, false);
        assert_eq!((attempts.leases(), attempts.failures()), (3, 2));
    }

    #[test]
    fn a_thousand_attempts_are_counted_and_take_bounded_room() {
        let mut attempts = Attempts::default();
        for number in 0..1_000 {
            attempts.lease(number * 1_000, false);
            attempts.fail(number * 1_000, false);
        }
        assert_eq!((attempts.leases(), attempts.failures()), (1_000, 1_000));
        assert!(serde_json::json!(attempts).to_string().len() < 1_000);
    }

    proptest! {
        #[test]
        fn the_order_in_which_sources_are_heard_does_not_matter(
            steps in Just((0..5_u64).flat_map(|it| [(it, true), (it, false)]).collect::<Vec<_>>()).prop_shuffle(),
            heard in 1..=10_usize,
        ) {
            let count = |steps: &[(u64, bool)]| {
                let mut attempts = Attempts::default();
                for (number, is_observed) in steps {
                    attempts.lease(number * 1_000 + u64::from(*is_observed), *is_observed);
                    attempts.fail(number * 1_000 + if *is_observed { 300 } else { 0 }, *is_observed);
                }
                (attempts.leases(), attempts.failures())
            };
            let mut sorted = steps[..heard].to_vec();
            sorted.sort_unstable();
            sorted.dedup_by_key(|it| it.0);
            let expected = u32::try_from(sorted.len()).unwrap();
            prop_assert_eq!(count(&steps[..heard]), (expected, expected));
        }
    }
}
