//! Whether flexible calls succeeded while a region was well. Pure.

use super::case::Epoch;
use super::ledger::{CLIENTS, End, Issue};
use super::shape::ANYWHERE;

/// How long the sidecar may take to find that a region is well again, and after its own start. Units: milliseconds.
pub(super) const RECOVERY_MS: u64 = 5_000;
/// Of a thousand calls so many may fail with another answer than that the outcome is unknown.
const FAILED_PER_MILLE: u64 = 1;
/// Of a thousand calls so many may end unknown, beside those that were under way when a region fell: their bytes were written.
const UNKNOWN_PER_MILLE: u64 = 10;

/// Failures that are named.
const EXAMPLES_MAX: usize = 5;

/// A time in which some region was left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// Units: milliseconds since the Unix epoch.
    pub(super) from_ms: u64,
    /// Units: milliseconds since the Unix epoch.
    pub(super) until_ms: u64,
}

/// The findings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Calls that should have succeeded.
    pub(super) calls: u64,
    /// Flexible calls that failed by the sidecar's own error, or without an answer.
    pub(super) failed: u64,
    /// Flexible calls with an unknown outcome.
    pub(super) unknown: u64,
    /// The longest of them. Units: milliseconds.
    pub(super) longest_ms: u64,
    /// The jobs of the first that failed, and which call it was.
    pub(super) examples: Vec<(usize, usize)>,
}

impl Found {
    pub(super) const fn is_kept(&self) -> bool {
        let refused = self.failed - self.unknown;
        let unknown = self.unknown.saturating_sub(CLIENTS as u64);
        refused * 1_000 <= self.calls * FAILED_PER_MILLE && unknown * 1_000 <= self.calls * UNKNOWN_PER_MILLE
    }
}

/// Looks at every call for a job that may go anywhere.
///
/// Shape: a call counts that began [`RECOVERY_MS`] after a region was left alone and after the process was started, and ended before either
/// was over. A region's own word, such as 429, is no failure of the sidecar's. Batches and ids that are used twice are left out, and so are
/// repetitions of a call whose outcome is unknown: only the region that may have the job can tell, and it is another one.
pub(super) fn judge(issues: &[Issue], windows: &[Window], epochs: &[Epoch]) -> Found {
    let mut found = Found::default();
    let is_batch = |place: usize, issue: &Issue| {
        let is_next = issues.get(place + 1).is_some_and(|next| next.first == issue.first);
        issue.first as usize != place || is_next
    };
    let within = |from_ms: u64, until_ms: u64, began_ms: u64, ended_ms: u64| {
        from_ms.saturating_add(RECOVERY_MS) <= began_ms && ended_ms <= until_ms
    };
    for (place, issue) in issues.iter().enumerate() {
        if issue.permitted != ANYWHERE || issue.shares_id || is_batch(place, issue) {
            continue;
        }
        for (number, send) in issue.sends.iter().enumerate() {
            let lived = epochs.get(usize::from(send.epoch));
            let was_up = lived
                .is_some_and(|epoch| epoch.able && within(epoch.from_ms, epoch.until_ms, send.began_ms, send.ended_ms));
            let was_well = windows.iter().any(|it| within(it.from_ms, it.until_ms, send.began_ms, send.ended_ms));
            let earlier = issue.sends.get(..number).unwrap_or(&[]);
            let has_name = issue.keyed || issue.own.is_some();
            let is_bound = has_name && earlier.iter().any(|send| matches!(send.end, End::Unknown(_) | End::Silent));
            if is_bound || !(was_up && was_well) {
                continue;
            }
            found.calls += 1;
            found.longest_ms = found.longest_ms.max(send.ended_ms.saturating_sub(send.began_ms));
            found.unknown += u64::from(matches!(send.end, End::Unknown(_)));
            let failed = matches!(send.end, End::Unknown(_) | End::Silent) || send.ours;
            found.failed += u64::from(failed);
            if failed && found.examples.len() < EXAMPLES_MAX {
                found.examples.push((place, number));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Send;
    use super::*;

    const WINDOWS: [Window; 1] = [Window { from_ms: 100_000, until_ms: 200_000 }];

    fn issue(first: u32, permitted: u8, sends: &[(u64, End, bool)]) -> Issue {
        let send = |(began_ms, end, ours): &(u64, End, bool)| Send {
            epoch: 0,
            began_ms: *began_ms,
            ended_ms: began_ms + 10,
            end: *end,
            ours: *ours,
        };
        let sends = sends.iter().map(send).collect();
        Issue { client: "", permitted, own: None, shares_id: false, keyed: false, hidden: false, first, sends }
    }

    fn check(issues: &[Issue], expected: (u64, u64, u64)) {
        let epochs = [Epoch { why: "", durable: true, generation: 0, able: true, from_ms: 0, until_ms: 300_000 }];
        let found = judge(issues, &WINDOWS, &epochs);
        assert_eq!((found.calls, found.failed, found.unknown), expected);
    }

    #[test]
    fn a_call_counts_that_could_use_a_region_that_was_well_for_all_of_its_time() {
        let end = End::Unknown(None);
        let at = |began_ms| issue(0, ANYWHERE, &[(began_ms, end, true)]);
        check(&[at(150_000)], (1, 1, 1));
        check(&[at(100_000 + RECOVERY_MS)], (1, 1, 1));
        for outside in [99_999 + RECOVERY_MS, 199_991, 10] {
            check(&[at(outside)], (0, 0, 0));
        }
        check(&[issue(0, 0b010, &[(150_000, end, true)])], (0, 0, 0));
        check(&[Issue { shares_id: true, ..at(150_000) }], (0, 0, 0));
        // A batch of two.
        check(&[at(150_000), issue(0, ANYWHERE, &[])], (0, 0, 0));
        let late_start =
            Epoch { why: "", durable: true, generation: 0, able: true, from_ms: 149_000, until_ms: 300_000 };
        assert_eq!(
            judge(&[at(150_000)], &WINDOWS, std::slice::from_ref(&late_start)).calls,
            0,
            "the process has just started"
        );
        let unable = Epoch { able: false, ..late_start };
        assert_eq!(judge(&[at(190_000)], &WINDOWS, &[unable]).calls, 0, "the process lacks descriptors");
    }

    #[test]
    fn failures_are_the_sidecars_own_and_few_are_kept() {
        let sends = [
            (150_000, End::Stored(1), false),
            (150_000, End::Refused(429), false),
            (150_000, End::Refused(503), true),
            (150_000, End::Silent, false),
            (150_000, End::Unknown(None), true),
        ];
        check(&[issue(0, ANYWHERE, &sends)], (5, 3, 1));
        // The one after a lost answer can be answered by the region that lost it only.
        check(&[Issue { keyed: true, ..issue(0, ANYWHERE, &sends) }], (4, 2, 0));
        let of =
            |calls, failed, unknown| Found { calls, failed: failed + unknown, unknown, ..Found::default() }.is_kept();
        assert!(of(1_000, 1, 0) && of(0, 0, 0) && !of(1_000, 2, 0) && !of(999, 1, 0));
        // Those that were under way at one fall, and one in a hundred.
        let at_once = CLIENTS as u64;
        assert!(
            of(0, 0, at_once) && of(1_000, 1, at_once + 10) && !of(1_000, 0, at_once + 11) && !of(1_000, 2, at_once)
        );
    }
}
