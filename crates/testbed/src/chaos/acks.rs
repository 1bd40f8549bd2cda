//! Whether acknowledgements reached the region that had leased the job, and none other. Pure.

use std::collections::HashSet;

use super::case::Copy;
use super::ledger::JobId;

/// An acknowledgement that a worker got an answer of success for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ack(pub(super) JobId);

/// The findings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) told: u64,
    /// Answered with success, and no region has taken it.
    pub(super) lost: Vec<JobId>,
    /// Arrived at a region that never handed the job out.
    pub(super) astray: Vec<(JobId, u8)>,
}

/// Compares the workers' answers, and the sockets where acknowledgements arrived, with the regions' jobs.
pub(super) fn judge<'c>(told: &[Ack], arrived: &HashSet<(JobId, u8)>, copies: impl Iterator<Item = &'c Copy>) -> Found {
    let (mut leased, mut taken) = (HashSet::new(), HashSet::new());
    for copy in copies {
        if copy.runs > 0 {
            leased.insert((copy.id, copy.region));
        }
        if copy.acknowledged > 0 {
            taken.insert(copy.id);
        }
    }
    Found {
        told: told.len() as u64,
        lost: told.iter().map(|ack| ack.0).filter(|id| !taken.contains(id)).collect(),
        astray: arrived.iter().copied().filter(|place| !leased.contains(place)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(region: u8, id: JobId, runs: u32, acknowledged: u32) -> Copy {
        Copy { region, id, cancelled: false, stored: 1, runs, acknowledged, created_ms: 1 }
    }

    #[test]
    fn an_acknowledgement_that_no_region_took_is_lost_and_one_at_another_region_is_astray() {
        let copies = [copy(0, 7, 1, 1), copy(1, 7, 0, 0), copy(2, 8, 1, 0)];
        let found = |told: &[Ack], arrived: &[(JobId, u8)]| {
            let found = judge(told, &arrived.iter().copied().collect(), copies.iter());
            (found.lost, found.astray)
        };
        assert_eq!(found(&[Ack(7)], &[(7, 0)]), (vec![], vec![]));
        assert_eq!(found(&[Ack(8), Ack(9)], &[]), (vec![8, 9], vec![]));
        assert_eq!(found(&[], &[(7, 1)]), (vec![], vec![(7, 1)]), "the same id, and never handed out there");
        assert_eq!(found(&[], &[(8, 2), (8, 0)]), (vec![], vec![(8, 0)]));
    }
}
