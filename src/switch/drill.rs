//! A failover drill on its way to sidecars, and their counts on the way back.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::order::is_text;
use crate::base::{RegionId, Share};

/// The longest name of a drill. Units: bytes.
const ID_BYTES_MAX: usize = 64;
/// Minutes of a drill show enough, and one that is forgotten is over within a day.
pub const DRILL_LASTS_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// As many regions as a sidecar can know.
const REGIONS_MAX: usize = 256;
/// The longest time that a group can have waited, and the most jobs: sums of many sidecars stay numbers.
const NUMBER_MAX: u64 = 1 << 40;

/// An event `drill` of a feed: the drill in force, at the beginning and after each change of it. Shape: JSON; a later hub may add members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedDrill {
    /// None while there is none.
    pub drill: Option<SentDrill>,
}

/// A drill on its way to a sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentDrill {
    /// Its name.
    pub id: String,
    /// The region whose flexible jobs go elsewhere.
    pub region: RegionId,
    /// The share of them.
    pub share: Share,
    /// How long it still lasts: the clocks of hub and sidecar need not agree. Units: milliseconds.
    pub ends_in_ms: u64,
}

impl SentDrill {
    /// How long it still lasts, never longer than a drill can.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        Duration::from_millis(self.ends_in_ms).min(DRILL_LASTS_MAX)
    }
}

/// How the first try of a job in a drill ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrillEnd {
    /// The region has stored it.
    Stored,
    /// The region has answered with a status of 400 to 499.
    Refused,
    /// The region could not be reached, or has answered with a status from 500 on.
    Failed,
    /// The answer was lost.
    Unknown,
}

/// The jobs of a drill that were tried first in one region.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrillGroup {
    /// By [`DrillEnd::Stored`].
    pub stored: u64,
    /// By [`DrillEnd::Refused`].
    pub refused: u64,
    /// By [`DrillEnd::Failed`].
    pub failed: u64,
    /// By [`DrillEnd::Unknown`].
    pub unknown: u64,
    /// The time that all of them have waited for regions. Units: microseconds.
    pub waited_us: u64,
    /// The longest wait of one. Units: microseconds.
    pub waited_us_max: u64,
}

impl DrillGroup {
    /// Adds a job.
    pub fn note(&mut self, end: DrillEnd, waited: Duration) {
        let count = match end {
            DrillEnd::Stored => &mut self.stored,
            DrillEnd::Refused => &mut self.refused,
            DrillEnd::Failed => &mut self.failed,
            DrillEnd::Unknown => &mut self.unknown,
        };
        *count = count.saturating_add(1);
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waited_us = self.waited_us.saturating_add(us);
        self.waited_us_max = self.waited_us_max.max(us);
    }

    /// Adds the jobs of another group.
    pub const fn add(&mut self, other: &Self) {
        self.stored = self.stored.saturating_add(other.stored);
        self.refused = self.refused.saturating_add(other.refused);
        self.failed = self.failed.saturating_add(other.failed);
        self.unknown = self.unknown.saturating_add(other.unknown);
        self.waited_us = self.waited_us.saturating_add(other.waited_us);
        if other.waited_us_max > self.waited_us_max {
            self.waited_us_max = other.waited_us_max;
        }
    }

    /// All jobs of the group.
    #[must_use]
    pub const fn jobs(&self) -> u64 {
        self.stored.saturating_add(self.troubled())
    }

    /// Those that the region has not stored, as far as is known.
    #[must_use]
    pub const fn troubled(&self) -> u64 {
        self.refused.saturating_add(self.failed).saturating_add(self.unknown)
    }

    /// The mean wait of a job; none without jobs.
    #[must_use]
    pub const fn mean(&self) -> Option<Duration> {
        match self.waited_us.checked_div(self.jobs()) {
            Some(us) => Some(Duration::from_micros(us)),
            None => None,
        }
    }

    const fn is_possible(&self) -> bool {
        let numbers = [self.stored, self.refused, self.failed, self.unknown, self.waited_us, self.waited_us_max];
        let mut place = 0;
        while place < numbers.len() {
            if numbers[place] > NUMBER_MAX {
                return false;
            }
            place += 1;
        }
        true
    }
}

/// Jobs that went to the drilled region as without a drill, by the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrillStays {
    /// A pin, a rule or a tenant binds them to it.
    pub bound: u64,
    /// No other region was usable.
    pub no_other_region: u64,
    /// Failover is off.
    pub no_failover: u64,
    /// Their clients may send them again under a name.
    pub named: u64,
}

/// The state by which a region counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unwell {
    /// Its probes fail.
    Unhealthy,
    /// Its breaker is open.
    BreakerOpen,
}

/// The counts of one sidecar in a drill, or of all of them together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrillCounts {
    /// The diverted jobs, by the region that they were tried in first.
    pub diverted: BTreeMap<RegionId, DrillGroup>,
    /// The flexible jobs that were not drawn, in the drilled region.
    pub control: DrillGroup,
    /// Those of the diverted that the drilled region has stored in the end.
    pub returned: u64,
    /// The jobs that could not go elsewhere.
    pub stayed: DrillStays,
    /// The regions that were seen well there since the drill began, and were not well later.
    pub unwell: BTreeMap<RegionId, Unwell>,
}

impl DrillCounts {
    /// Adds those of another sidecar.
    pub fn add(&mut self, other: &Self) {
        for (region, group) in &other.diverted {
            self.diverted.entry(region.clone()).or_default().add(group);
        }
        self.control.add(&other.control);
        self.returned = self.returned.saturating_add(other.returned);
        let (all, more) = (&mut self.stayed, &other.stayed);
        all.bound = all.bound.saturating_add(more.bound);
        all.no_other_region = all.no_other_region.saturating_add(more.no_other_region);
        all.no_failover = all.no_failover.saturating_add(more.no_failover);
        all.named = all.named.saturating_add(more.named);
        self.unwell.extend(other.unwell.iter().map(|(region, state)| (region.clone(), *state)));
    }

    /// All diverted jobs.
    #[must_use]
    pub fn all_diverted(&self) -> DrillGroup {
        let mut all = DrillGroup::default();
        self.diverted.values().for_each(|group| all.add(group));
        all
    }

    /// Whether a sidecar can have counted so.
    fn is_possible(&self) -> bool {
        let few = self.diverted.len() <= REGIONS_MAX && self.unwell.len() <= REGIONS_MAX;
        let DrillStays { bound, no_other_region, no_failover, named } = self.stayed;
        let small = [self.returned, bound, no_other_region, no_failover, named].iter().all(|it| *it <= NUMBER_MAX);
        few && small && self.control.is_possible() && self.diverted.values().all(DrillGroup::is_possible)
    }
}

/// The counts of one sidecar for its hub, from the beginning of the drill on. Shape: JSON; a later sidecar may add members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrillReport {
    /// The name of the sidecar in the inventory.
    pub sidecar: String,
    /// When its process started: another one counts anew. Units: milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// Later reports of the process have a higher number: they replace those before, also where they come first.
    #[serde(default)]
    pub seq: u64,
    /// The name of the drill.
    pub drill: String,
    /// The counts.
    pub counts: DrillCounts,
}

impl DrillReport {
    /// The longest report, as JSON: 512 rows with the name of a region and six numbers. Units: bytes.
    pub const BYTES_MAX: usize = 256 * 1024;

    /// The first member that is not right, and the expected form. The name of the sidecar is checked where it is looked up.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        if !is_text(&self.drill, ID_BYTES_MAX) {
            return Some("`drill`: expected the name of a drill");
        }
        if i64::try_from(self.started_unix_ms).is_err() {
            return Some("`started_unix_ms`: expected a number below 2^63");
        }
        if i64::try_from(self.seq).is_err() {
            return Some("`seq`: expected a number below 2^63");
        }
        (!self.counts.is_possible()).then_some("`counts`: expected at most 256 regions, and numbers up to 2^40")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(stored: u64, failed: u64, waited_us: u64) -> DrillGroup {
        DrillGroup { stored, failed, waited_us, waited_us_max: waited_us, ..DrillGroup::default() }
    }

    fn report(counts: DrillCounts) -> DrillReport {
        DrillReport { sidecar: "pod".to_owned(), started_unix_ms: 1, seq: 0, drill: "d".to_owned(), counts }
    }

    #[test]
    fn counts_of_sidecars_are_summed() {
        let eu = RegionId::parse("eu").unwrap();
        let mut one = DrillCounts { returned: 1, control: group(4, 0, 9), ..DrillCounts::default() };
        one.diverted.insert(eu.clone(), group(2, 1, 30));
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.returned, sum.control.jobs(), sum.all_diverted().troubled()), (2, 8, 2));
        assert_eq!((sum.diverted[&eu].mean(), sum.diverted[&eu].waited_us_max), (Some(Duration::from_micros(10)), 30));
        assert_eq!(DrillGroup::default().mean(), None);
        let mut most = group(u64::MAX, u64::MAX, u64::MAX);
        most.add(&most.clone());
        assert_eq!((most.jobs(), most.troubled()), (u64::MAX, u64::MAX), "sums end at the largest number");
    }

    #[test]
    fn the_largest_report_fits_and_an_impossible_one_is_named() {
        let most = group(NUMBER_MAX, NUMBER_MAX, NUMBER_MAX);
        let mut counts = DrillCounts { control: most.clone(), ..DrillCounts::default() };
        for place in 0..REGIONS_MAX {
            let region = RegionId::parse(&format!("{place:063}")).unwrap();
            counts.diverted.insert(region.clone(), most.clone());
            counts.unwell.insert(region, Unwell::BreakerOpen);
        }
        let all = report(counts.clone());
        assert_eq!(all.mistake(), None);
        let text = serde_json::to_string(&all).unwrap();
        assert!(text.len() < DrillReport::BYTES_MAX, "{}", text.len());
        assert_eq!(serde_json::from_str::<DrillReport>(&text).unwrap(), all);
        counts.control.failed += 1;
        assert!(report(counts).mistake().is_some_and(|it| it.starts_with("`counts`")));
        let wrong = DrillReport { drill: String::new(), ..report(DrillCounts::default()) };
        assert!(wrong.mistake().is_some_and(|it| it.starts_with("`drill`")));
        let later = r#"{"sidecar":"pod","started_unix_ms":1,"drill":"d","later":1,"counts":{"later":{}}}"#;
        assert_eq!(serde_json::from_str::<DrillReport>(later).unwrap(), report(DrillCounts::default()));
    }
}
