//! The switches in force.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::text::rfc3339;
use crate::base::{Moment, RegionId, SwitchKind};

/// One switch in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Its kind.
    pub kind: SwitchKind,
    /// The region that it is about; none for [`SwitchKind::Maintenance`].
    pub region: Option<RegionId>,
    /// When it ends by itself, on the clock of this process.
    pub until: Moment,
    /// When it was set, by the wall clock. Units: milliseconds since the Unix epoch.
    pub set_unix_ms: u64,
    /// When it ends, by the wall clock as it was then. Units: milliseconds since the Unix epoch.
    pub ends_unix_ms: u64,
    /// Why it was set, in the author's words.
    pub reason: String,
    /// The ticket that the author named.
    pub ticket: String,
    /// The name of the operator that set it.
    pub author: String,
}

impl Switch {
    /// Its kind and region, such as `drain eu-west-1`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.region {
            Some(region) => format!("{} {region}", self.kind.as_str()),
            None => self.kind.as_str().to_owned(),
        }
    }

    /// As lists of switches show it. `from`: where it was set, `hub` or `sidecar`.
    #[must_use]
    pub fn shown(&self, from: &str) -> serde_json::Value {
        serde_json::json!({
            "switch": self.kind.as_str(),
            "region": self.region.as_ref().map(RegionId::as_str),
            "since": rfc3339(self.set_unix_ms),
            "until": rfc3339(self.ends_unix_ms),
            "reason": self.reason,
            "ticket": self.ticket,
            "author": self.author,
            "from": from,
        })
    }

    fn is_about(&self, kind: Option<SwitchKind>, region: Option<&RegionId>) -> bool {
        kind.is_none_or(|kind| kind == self.kind) && self.region.as_ref() == region
    }
}

/// All switches in force. Shape: at most one for each region, and one of maintenance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Switches(Vec<Switch>);

impl Switches {
    /// Sets a switch, in place of an earlier one for its region.
    pub fn set(&mut self, switch: Switch) {
        self.0.retain(|it| it.region != switch.region);
        self.0.push(switch);
    }

    /// Ends the switches of this kind, or of every kind, for a region, and returns them.
    pub fn end(&mut self, kind: Option<SwitchKind>, region: Option<&RegionId>) -> Vec<Switch> {
        self.0.extract_if(.., |it| it.is_about(kind, region)).collect()
    }

    /// Ends the switches whose time is over, and returns them.
    pub fn expire(&mut self, now: Moment) -> Vec<Switch> {
        self.0.extract_if(.., |it| it.until <= now).collect()
    }

    /// Adds the switches of an earlier process; one that was set meanwhile for the same region stays. Between two processes only the wall clock
    /// counts, and where it was set back, no more time is left than was ordered.
    pub fn merge(&mut self, other: Self, now: Moment, unix_ms: u64) {
        for mut switch in other.0 {
            let ordered = switch.ends_unix_ms.saturating_sub(switch.set_unix_ms);
            let left = switch.ends_unix_ms.saturating_sub(unix_ms).min(ordered);
            switch.until = now.after(Duration::from_millis(left));
            if !self.0.iter().any(|it| it.region == switch.region) {
                self.0.push(switch);
            }
        }
    }

    /// These together with others: where both have one for a region, the stricter one, and of two alike the one that ends later.
    #[must_use]
    pub fn joined(&self, others: &Self) -> Self {
        let mut all = self.clone();
        for other in &others.0 {
            let rank = |it: &Switch| (it.kind.strictness(), it.until);
            if self.0.iter().find(|it| it.region == other.region).is_none_or(|own| rank(own) < rank(other)) {
                all.set(other.clone());
            }
        }
        all
    }

    /// The kind of the switch that is set for a region.
    #[must_use]
    pub fn of_region(&self, region: &RegionId) -> Option<SwitchKind> {
        self.0.iter().find(|it| it.region.as_ref() == Some(region)).map(|it| it.kind)
    }

    /// Whether one is set for a region, or, without a region, one of maintenance.
    #[must_use]
    pub fn has_any(&self, region: Option<&RegionId>) -> bool {
        self.0.iter().any(|it| it.is_about(None, region))
    }

    /// Whether no worker gets a job.
    #[must_use]
    pub fn is_maintenance(&self) -> bool {
        self.0.iter().any(|it| it.kind == SwitchKind::Maintenance)
    }

    /// When the first one ends.
    #[must_use]
    pub fn first_end(&self) -> Option<Moment> {
        self.0.iter().map(|it| it.until).min()
    }

    /// Each of them, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = &Switch> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(kind: SwitchKind, region: Option<&str>, until: u64) -> Switch {
        let region = region.map(|id| RegionId::parse(id).unwrap());
        let text = || "x".to_owned();
        let (set_unix_ms, ends_unix_ms) = (1_000, 1_000 + until);
        let until = Moment(until);
        Switch { kind, region, until, set_unix_ms, ends_unix_ms, reason: text(), ticket: text(), author: text() }
    }

    #[test]
    fn the_last_switch_decides_about_a_region_until_it_ends() {
        let (mut all, a) = (Switches::default(), RegionId::parse("a").unwrap());
        all.set(switch(SwitchKind::Evacuate, Some("a"), 20));
        all.set(switch(SwitchKind::Drain, Some("a"), 30));
        all.set(switch(SwitchKind::Maintenance, None, 10));
        assert_eq!(all.of_region(&a), Some(SwitchKind::Drain));
        assert_eq!(all.of_region(&RegionId::parse("b").unwrap()), None);
        assert!(all.is_maintenance());
        assert_eq!(all.first_end(), Some(Moment(10)));
        assert_eq!(all.expire(Moment(20)).len(), 1);
        assert_eq!((all.of_region(&a), all.is_maintenance()), (Some(SwitchKind::Drain), false));
        all.set(switch(SwitchKind::Drain, Some("a"), 40));
        assert_eq!(all.first_end(), Some(Moment(40)), "the new one took the place of the old one");
        assert_eq!(all.end(None, Some(&a)).len(), 1);
        assert_eq!(all, Switches::default());
    }

    #[test]
    fn of_two_switches_for_a_region_the_stricter_one_is_in_force() {
        let (mut own, mut hub) = (Switches::default(), Switches::default());
        own.set(switch(SwitchKind::Evacuate, Some("a"), 20));
        own.set(switch(SwitchKind::Drain, Some("b"), 20));
        own.set(switch(SwitchKind::Forbid, Some("c"), 90));
        hub.set(switch(SwitchKind::Drain, Some("a"), 90));
        hub.set(switch(SwitchKind::Drain, Some("b"), 30));
        hub.set(switch(SwitchKind::Drain, Some("c"), 10));
        hub.set(switch(SwitchKind::Maintenance, None, 40));
        for joined in [own.joined(&hub), hub.joined(&own)] {
            let of = |region: &str| {
                let region = RegionId::parse(region).unwrap();
                let found = joined.iter().find(|it| it.region.as_ref() == Some(&region)).unwrap();
                (found.kind, found.until.0)
            };
            assert_eq!(
                [of("a"), of("b"), of("c")],
                [(SwitchKind::Evacuate, 20), (SwitchKind::Drain, 30), (SwitchKind::Drain, 10)]
            );
            assert!(joined.is_maintenance());
        }
    }

    #[test]
    fn a_switch_that_was_set_before_the_file_was_read_stays() {
        let mut all = Switches::default();
        all.set(switch(SwitchKind::Drain, Some("a"), 40));
        let mut file = Switches::default();
        file.set(switch(SwitchKind::Drain, Some("a"), 20));
        file.set(switch(SwitchKind::Drain, Some("b"), 20));
        all.merge(file, Moment(500), 1_005);
        let ends: Vec<u64> = all.iter().map(|it| it.until.0).collect();
        assert_eq!(ends, [40, 515]);
    }

    #[test]
    fn after_a_restart_the_wall_clock_says_how_much_time_is_left() {
        let left = |unix_ms: u64| {
            let (mut all, mut file) = (Switches::default(), Switches::default());
            file.set(switch(SwitchKind::Drain, Some("a"), 50));
            all.merge(file, Moment(500), unix_ms);
            all.first_end().unwrap().since(Moment(500)).as_millis()
        };
        assert_eq!([left(1_010), left(1_050), left(9_999)], [40, 0, 0]);
        assert_eq!(left(3), 50, "a clock that was set back adds nothing");
    }
}
