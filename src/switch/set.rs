//! The switches in force.

use std::cmp::Reverse;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::text::rfc3339;
use crate::base::{Moment, RegionId, SwitchKind, SwitchSubject};

/// The most switches of a hub, and the most that are set at one sidecar: one for each region that a sidecar can know, and maintenance, or as
/// many pauses and throttles.
pub const SWITCHES_MAX: usize = 257;

/// One switch in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Its kind.
    pub kind: SwitchKind,
    /// Its subject; its kind takes it.
    #[serde(flatten)]
    pub subject: SwitchSubject,
    /// The most calls at once of each sidecar, for a throttle; none for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
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
    /// Its kind and subject, such as `drain eu-west-1`, `pause queue email`, `maintenance` or `throttle eu-west-1 to 20 calls`.
    #[must_use]
    pub fn name(&self) -> String {
        let calls = self.calls.map(|calls| format!(" to {calls} calls")).unwrap_or_default();
        format!("{} {}{calls}", self.kind.as_str(), self.subject).trim_end().to_owned()
    }

    /// The region that it keeps jobs from; none for a switch of another kind.
    #[must_use]
    pub fn closed_region(&self) -> Option<&RegionId> {
        self.subject.region().filter(|_| self.kind.strictness() > 0)
    }

    /// As lists of switches show it. `from`: where it was set, `hub` or `sidecar`.
    #[must_use]
    pub fn shown(&self, from: &str) -> serde_json::Value {
        let mut shown = serde_json::json!({
            "switch": self.kind.as_str(),
            "region": null,
            "since": rfc3339(self.set_unix_ms),
            "until": rfc3339(self.ends_unix_ms),
            "reason": self.reason,
            "ticket": self.ticket,
            "author": self.author,
            "from": from,
        });
        if let Some((key, name)) = self.subject.member() {
            shown[key] = name.into();
        }
        if let Some(calls) = self.calls {
            shown["calls"] = calls.into();
        }
        shown
    }

    /// Whether both cannot be in force together.
    fn excludes(&self, other: &Self) -> bool {
        self.subject == other.subject && !self.kind.is_beside(other.kind)
    }

    /// Grows with the strictness.
    fn rank(&self) -> (u8, Reverse<u64>, Moment) {
        (self.kind.strictness(), Reverse(self.calls.unwrap_or(0)), self.until)
    }
}

/// All switches in force. Shape: at most one for each subject, and a throttle beside it; callers keep to [`SWITCHES_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Switches(Vec<Switch>);

impl Switches {
    /// Sets a switch, in place of an earlier one for its subject; a throttle in place of an earlier throttle.
    pub fn set(&mut self, switch: Switch) {
        self.0.retain(|it| !it.excludes(&switch));
        self.0.push(switch);
    }

    /// Ends the switches of this kind for a subject, or of every kind but the throttle, and returns them.
    pub fn end(&mut self, kind: Option<SwitchKind>, subject: &SwitchSubject) -> Vec<Switch> {
        let ends = |of: SwitchKind| kind.map_or(of != SwitchKind::Throttle, |kind| kind == of);
        self.0.extract_if(.., |it| it.subject == *subject && ends(it.kind)).collect()
    }

    /// Ends the switches whose time is over, and returns them.
    pub fn expire(&mut self, now: Moment) -> Vec<Switch> {
        self.0.extract_if(.., |it| it.until <= now).collect()
    }

    /// Adds the switches of an earlier process; one that was set meanwhile for the same subject stays. Between two processes only the wall clock
    /// counts, and where it was set back, no more time is left than was ordered.
    pub fn merge(&mut self, other: Self, now: Moment, unix_ms: u64) {
        for mut switch in other.0 {
            let ordered = switch.ends_unix_ms.saturating_sub(switch.set_unix_ms);
            let left = switch.ends_unix_ms.saturating_sub(unix_ms).min(ordered);
            switch.until = now.after(Duration::from_millis(left));
            if !self.0.iter().any(|it| it.excludes(&switch)) {
                self.0.push(switch);
            }
        }
    }

    /// These together with others: where both have one for a subject, the stricter one, and of two alike the one that ends later. Of two
    /// throttles the one with fewer calls is the stricter one.
    #[must_use]
    pub fn joined(&self, others: &Self) -> Self {
        let mut all = self.clone();
        others.0.iter().for_each(|other| all.join(other.clone()));
        all
    }

    /// Sets a switch, unless one of these that is as strict excludes it; see [`Self::joined`].
    pub fn join(&mut self, other: Switch) {
        if self.0.iter().find(|it| it.excludes(&other)).is_none_or(|own| own.rank() < other.rank()) {
            self.set(other);
        }
    }

    /// The kind of the switch that is set for a region, beside a throttle.
    #[must_use]
    pub fn of_region(&self, region: &RegionId) -> Option<SwitchKind> {
        self.0.iter().map(|it| (it.kind, it.subject.region())).find_map(|(kind, of)| {
            let is_it = of == Some(region) && kind != SwitchKind::Throttle;
            is_it.then_some(kind)
        })
    }

    /// The most calls at once to a region by its throttle; none without one.
    #[must_use]
    pub fn throttle_of(&self, region: &RegionId) -> Option<u64> {
        self.0.iter().find(|it| it.kind == SwitchKind::Throttle && it.subject.region() == Some(region))?.calls
    }

    /// Whether there are more than a hub, or a sidecar of its own, may have.
    #[must_use]
    pub const fn are_too_many(&self) -> bool {
        self.0.len() > SWITCHES_MAX
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
        let subject = region.map_or(SwitchSubject::Sidecar, |id| SwitchSubject::Region(RegionId::parse(id).unwrap()));
        let text = || "x".to_owned();
        let (set_unix_ms, ends_unix_ms) = (1_000, 1_000 + until);
        let until = Moment(until);
        let (reason, ticket, author) = (text(), text(), text());
        Switch { kind, subject, calls: None, until, set_unix_ms, ends_unix_ms, reason, ticket, author }
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
        assert_eq!(all.end(None, &SwitchSubject::Region(a)).len(), 1);
        assert_eq!(all, Switches::default());
    }

    #[test]
    fn a_throttle_is_in_force_beside_a_drain_and_of_two_the_one_with_fewer_calls() {
        let (mut own, mut hub, a) = (Switches::default(), Switches::default(), RegionId::parse("a").unwrap());
        let throttle = |calls, until| Switch { calls: Some(calls), ..switch(SwitchKind::Throttle, Some("a"), until) };
        own.set(switch(SwitchKind::Drain, Some("a"), 20));
        own.set(throttle(9, 50));
        own.set(throttle(7, 40));
        hub.set(throttle(8, 60));
        for joined in [own.joined(&hub), hub.joined(&own)] {
            assert_eq!((joined.of_region(&a), joined.throttle_of(&a)), (Some(SwitchKind::Drain), Some(7)));
            assert_eq!(joined.iter().count(), 2);
        }
        let region = SwitchSubject::Region(a.clone());
        assert_eq!(own.end(None, &region).len(), 1, "to undrain a region does not end its throttle");
        assert_eq!((own.of_region(&a), own.throttle_of(&a)), (None, Some(7)));
        assert_eq!(own.end(Some(SwitchKind::Throttle), &region).len(), 1);
        assert_eq!(own, Switches::default());
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
                let found = joined.iter().find(|it| it.subject.region() == Some(&region)).unwrap();
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

    #[test]
    fn switches_that_an_earlier_version_wrote_are_read_and_a_pause_is_read_as_it_is_written() {
        let common = r#""until":5,"set_unix_ms":1,"ends_unix_ms":6,"reason":"r","ticket":"t","author":"a""#;
        let text = format!(
            r#"[{{"kind":"drain","region":"eu-west-1",{common}}},{{"kind":"maintenance","region":null,{common}}}]"#
        );
        let mut all: Switches = serde_json::from_str(&text).unwrap();
        let names = |all: &Switches| all.iter().map(Switch::name).collect::<Vec<_>>();
        assert_eq!(names(&all), ["drain eu-west-1", "maintenance"]);
        assert_eq!(serde_json::to_string(&all).unwrap(), text, "an earlier version reads them");
        let pause = switch(SwitchKind::Pause, None, 5);
        all.set(Switch { subject: SwitchSubject::Queue("email".to_owned()), ..pause.clone() });
        all.set(Switch { subject: SwitchSubject::Type("email".to_owned()), ..pause });
        let again: Switches = serde_json::from_str(&serde_json::to_string(&all).unwrap()).unwrap();
        assert_eq!(again, all);
        assert_eq!(
            names(&again)[2..],
            ["pause queue email", "pause type email"],
            "a queue and a type are two subjects"
        );
    }
}
