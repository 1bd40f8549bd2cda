//! The decision about one copy of a job among those with its tracking id: whether it counts, and which copy has replaced it.
//!
//! The order of copies is that of [`Copy::writer`], which is the same in every hub. A copy is replaced only by a greater one, so that the
//! greatest stays, whichever facts a hub lacks. Spec: federation-spec §5.2; RFC-0001 §5.

use std::collections::BTreeMap;

use super::record::{Copy, Record};
use crate::base::RegionId;

/// The life of one copy, as far as workers are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// No worker has had it, and one may get it.
    Waits,
    /// A worker has it or has had it.
    Started,
    /// It was cancelled or discarded before any worker had it.
    EndedUnrun,
    /// Its state is no word of OJS.
    Odd,
}

impl Life {
    /// The life of a copy in a state, in the words of OJS. `is_started`: whether a worker is known to have had it.
    #[must_use]
    pub fn of(state: &str, is_started: bool) -> Self {
        match state {
            "scheduled" | "available" | "pending" if !is_started => Self::Waits,
            "cancelled" | "discarded" if !is_started => Self::EndedUnrun,
            "active" | "retryable" | "completed" => Self::Started,
            _ if is_started => Self::Started,
            _ => Self::Odd,
        }
    }
}

/// Whether a job in this state, in the words of OJS, has ended without success, so that it may be enqueued anew.
#[must_use]
pub fn has_failed(state: &str) -> bool {
    matches!(state, "cancelled" | "discarded")
}

/// The standing of a copy among those with its tracking id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'r> {
    /// No copy elsewhere was enqueued later, of those that have run or may run.
    Counts,
    /// It has ended before any worker had it: it neither counts nor stands in the way.
    Over,
    /// It was replicated from another region: other hubs do not see it, so that it counts for nothing.
    Replica,
    /// The time of a copy is not known yet.
    Untold,
    /// It counts less than this copy, and some other region has the same job: a re-send, which sidecars clear up by their own knowledge.
    Same(&'r Copy),
    /// It counts less than this copy, and some region has several jobs with the tracking id: a client uses it for a group of jobs.
    Grouped(&'r Copy),
    /// This copy has replaced it.
    Replaced(&'r Copy),
}

impl<'r> Standing<'r> {
    /// The copy that counts more; none where there is none, or none is known.
    #[must_use]
    pub const fn winner(self) -> Option<&'r Copy> {
        match self {
            Self::Counts | Self::Over | Self::Replica | Self::Untold => None,
            Self::Same(copy) | Self::Grouped(copy) | Self::Replaced(copy) => Some(copy),
        }
    }
}

impl Copy {
    /// Its life, as far as workers are concerned.
    #[must_use]
    pub fn life(&self) -> Life {
        Life::of(&self.state, self.is_started)
    }
}

/// The copies with one tracking id, of which it is known at once which one counts more than another: there may be thousands.
#[derive(Debug, Default)]
struct Group<'r> {
    /// The last writer among the copies whose time is known, and the last writer in another region than that of `last`.
    last: Option<&'r Copy>,
    last_elsewhere: Option<&'r Copy>,
    /// The number of copies by region, and of those whose time is not known.
    regions: BTreeMap<&'r RegionId, (usize, usize)>,
    copies: usize,
    untimed: usize,
}

impl<'r> Group<'r> {
    fn add(&mut self, copy: &'r Copy) {
        let is_timed = copy.stored_ms().is_some();
        let (copies, untimed) = self.regions.entry(&copy.region).or_default();
        *copies += 1;
        *untimed += usize::from(!is_timed);
        self.copies += 1;
        self.untimed += usize::from(!is_timed);
        let is_later = |than: Option<&Copy>| than.is_none_or(|it| copy.writer() > it.writer());
        match self.last {
            _ if !is_timed => {}
            Some(last) if is_later(Some(last)) => {
                self.last_elsewhere = if last.region == copy.region { self.last_elsewhere } else { Some(last) };
                self.last = Some(copy);
            }
            None => self.last = Some(copy),
            Some(last) if last.region != copy.region && is_later(self.last_elsewhere) => {
                self.last_elsewhere = Some(copy);
            }
            Some(_) => {}
        }
    }

    /// The last writer in another region than that of a copy.
    fn last_beside(&self, copy: &Copy) -> Option<&'r Copy> {
        self.last.filter(|it| it.region != copy.region).or(self.last_elsewhere)
    }

    /// The numbers of copies in other regions, and of those among them whose time is not known.
    fn beside(&self, copy: &Copy) -> (usize, usize) {
        let (copies, untimed) = self.regions.get(&copy.region).copied().unwrap_or_default();
        (self.copies - copies, self.untimed - untimed)
    }

    /// Whether some region has several of these copies.
    fn is_of_jobs(&self) -> bool {
        self.copies > self.regions.len()
    }
}

impl Record {
    /// The standing of each of its copies, in their order. Replicas are left out: other hubs do not see them, so that hubs cannot agree about
    /// them.
    #[must_use]
    pub fn standings(&self) -> Vec<Standing<'_>> {
        let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
        let mut jobs: BTreeMap<&str, u32> = BTreeMap::new();
        for copy in self.copies.iter().filter(|it| it.life() != Life::EndedUnrun) {
            *jobs.entry(&copy.job_id).or_default() += 1;
            if let Some(id) = copy.federation_id.as_deref().filter(|_| copy.replicated_from.is_none()) {
                groups.entry(id).or_default().add(copy);
            }
        }
        let is_elsewhere = |copy: &Copy| jobs.get(copy.job_id.as_str()).is_some_and(|regions| *regions > 1);
        let standing = |copy| standing(copy, &groups, is_elsewhere);
        self.copies.iter().map(standing).collect()
    }
}

/// `is_elsewhere`: whether another region has the same job, and it has not ended before any worker had it.
fn standing<'r>(copy: &Copy, groups: &BTreeMap<&str, Group<'r>>, is_elsewhere: impl Fn(&Copy) -> bool) -> Standing<'r> {
    if copy.life() == Life::EndedUnrun {
        return Standing::Over;
    }
    if copy.replicated_from.is_some() {
        return Standing::Replica;
    }
    let Some(group) = copy.federation_id.as_deref().and_then(|id| groups.get(id)) else { return Standing::Counts };
    let is_timed = copy.stored_ms().is_some();
    let winner = group.last_beside(copy).filter(|it| is_timed && it.writer() > copy.writer());
    let (others, untimed) = group.beside(copy);
    match winner {
        Some(winner) if is_elsewhere(copy) => Standing::Same(winner),
        Some(winner) if group.is_of_jobs() => Standing::Grouped(winner),
        Some(winner) => Standing::Replaced(winner),
        None if others == 0 || (is_timed && untimed == 0) => Standing::Counts,
        None => Standing::Untold,
    }
}

#[cfg(test)]
mod tests;
