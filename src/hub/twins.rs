//! Several processes that report under one name, distinguished by the times of their starts.

/// A process that has not reported for so long has ended: statuses come every ten seconds, and those of other hubs once a minute. Units:
/// milliseconds.
const ENDED_AFTER_MS: u64 = 2 * 60 * 1_000;
/// For so long processes may report beside each other: in an upgrade the old one finishes beside the new one. Units: milliseconds.
const OVERLAP_MS: u64 = 3 * 60 * 1_000;

/// The processes that report under one name.
#[derive(Debug, Clone, Default)]
pub(super) struct Twins {
    /// The start of the newest process, and when it has reported last.
    newest: (u64, u64),
    /// When an older one has reported first beside it, and last.
    older: Option<(u64, u64)>,
    /// Whether they have reported beside each other for longer than in an upgrade.
    is_noted: bool,
}

impl Twins {
    /// Notes a status of a process that has started at `started`. Returns true once for processes that report beside each other for too long.
    pub(super) fn note(&mut self, started: u64, seen: u64) -> bool {
        let (newest, newest_seen) = self.newest;
        // A clock that was set back makes a new process look older, until the other one has ended.
        if started >= newest || newest_seen.saturating_add(ENDED_AFTER_MS) <= seen {
            self.newest = (started, seen);
            return false;
        }
        let begun = self.older.filter(|(_, last)| last.saturating_add(ENDED_AFTER_MS) > seen).map(|(first, _)| first);
        let was_noted = self.is_noted && begun.is_some();
        let first = begun.unwrap_or(seen);
        self.older = Some((first, seen));
        self.is_noted = first.saturating_add(OVERLAP_MS) <= seen;
        self.is_noted && !was_noted
    }

    /// Whether several processes report now.
    pub(super) fn are_several(&self, now: u64) -> bool {
        self.is_noted && self.older.is_some_and(|(_, last)| last.saturating_add(ENDED_AFTER_MS) > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes statuses of processes in turn, one each ten seconds; returns how often that was worth a word.
    fn noted(twins: &mut Twins, starts: &[u64], seconds: std::ops::Range<u64>) -> usize {
        let times = seconds.step_by(10).map(|second| second * 1_000);
        times.zip(starts.iter().cycle()).filter(|(seen, started)| twins.note(**started, *seen)).count()
    }

    #[test]
    fn processes_that_go_on_beside_each_other_are_noted_once_until_one_is_left() {
        for starts in [&[7, 9][..], &[9, 7], &[1, 2, 3], &[3, 2, 1, 2]] {
            let mut twins = Twins::default();
            assert_eq!(noted(&mut twins, starts, 0..900), 1, "{starts:?}");
            assert!(twins.are_several(900_000));
            assert_eq!(noted(&mut twins, &[9], 900..1_200), 0);
            assert!(!twins.are_several(1_200_000));
        }
    }

    #[test]
    fn restarts_upgrades_and_clocks_that_are_set_back_are_not_several_processes() {
        let mut twins = Twins::default();
        let times = [(&[5][..], 0..100), (&[6], 100..200), (&[6, 7], 200..320), (&[7], 320..600), (&[2], 600..1_500)];
        for (starts, seconds) in times {
            assert_eq!(noted(&mut twins, starts, seconds.clone()), 0, "{starts:?} {seconds:?}");
            assert!(!twins.are_several(seconds.end * 1_000));
        }
    }
}
