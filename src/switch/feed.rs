//! The switches of a hub, as its feed carries them and as a sidecar keeps them.

use serde::{Deserialize, Serialize};

use super::set::{Switch, Switches};
use crate::base::{Moment, RegionId, SwitchKind};

/// More switches than any fleet has: one for each region that a sidecar can know, and maintenance.
const SWITCHES_MAX: usize = 257;

/// Names a state of a hub's record: the record, and the number of its last change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The record's own name, random, made with the record.
    pub record: String,
    /// The number of its last change, from 1; 0 before any.
    pub change: u64,
}

impl Version {
    /// Whether a state of `other` was superseded by this one: the same record had it before.
    #[must_use]
    pub fn supersedes(&self, other: &Self) -> bool {
        self.record == other.record && self.change > other.change
    }

    /// Reads the form that [`std::fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (record, change) = text.rsplit_once('-')?;
        Some(Self { record: record.to_owned(), change: change.parse().ok()? })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.record, self.change)
    }
}

/// All switches of a hub on their way to a sidecar. Shape: JSON, one event of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedSwitches {
    /// The state that this is.
    pub version: Version,
    /// The switches in force.
    pub switches: Vec<FeedSwitch>,
}

/// A switch on its way to a sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedSwitch {
    /// Its kind.
    pub switch: SwitchKind,
    /// Its region; none for [`SwitchKind::Maintenance`].
    pub region: Option<RegionId>,
    /// When it was set, by the hub's clock. Units: milliseconds since the Unix epoch.
    pub set_unix_ms: u64,
    /// How long it still lasts: the clocks of hub and sidecar need not agree. Units: milliseconds.
    pub ends_in_ms: u64,
    /// Why it was set.
    pub reason: String,
    /// The ticket.
    pub ticket: String,
    /// The operator.
    pub author: String,
}

impl FeedSwitches {
    /// The event for a state of the hub, whose moments are its wall clock.
    #[must_use]
    pub fn of(version: Version, switches: &Switches, unix_ms: u64) -> Self {
        let sent = |it: &Switch| FeedSwitch {
            switch: it.kind,
            region: it.region.clone(),
            set_unix_ms: it.set_unix_ms,
            ends_in_ms: it.ends_unix_ms.saturating_sub(unix_ms),
            reason: it.reason.clone(),
            ticket: it.ticket.clone(),
            author: it.author.clone(),
        };
        Self { version, switches: switches.iter().map(sent).collect() }
    }

    /// The part that a sidecar keeps, by its own clocks. More switches than a hub can have are cut off.
    #[must_use]
    pub fn received(self, now: Moment, unix_ms: u64) -> HubState {
        let mut switches = Switches::default();
        for it in self.switches.into_iter().take(SWITCHES_MAX) {
            switches.set(Switch {
                kind: it.switch,
                region: it.region,
                until: now.after(std::time::Duration::from_millis(it.ends_in_ms)),
                set_unix_ms: it.set_unix_ms.min(unix_ms),
                ends_unix_ms: unix_ms.saturating_add(it.ends_in_ms),
                reason: it.reason,
                ticket: it.ticket,
                author: it.author,
            });
        }
        HubState { version: self.version, switches }
    }
}

/// The last state that a sidecar has received from its hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubState {
    /// The state that it is.
    pub version: Version,
    /// Its switches that have not ended.
    pub switches: Switches,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_lasts_as_long_at_the_sidecar_as_at_the_hub_whatever_their_clocks_show() {
        let mut all = Switches::default();
        let text = || "x".to_owned();
        let (reason, ticket, author) = (text(), text(), text());
        let (set_unix_ms, ends_unix_ms, until) = (1_000, 61_000, Moment(61_000));
        let region = Some(RegionId::parse("a").unwrap());
        all.set(Switch { kind: SwitchKind::Drain, region, until, set_unix_ms, ends_unix_ms, reason, ticket, author });
        let version = Version { record: "r".to_owned(), change: 3 };
        let sent = FeedSwitches::of(version.clone(), &all, 11_000);
        let sent: FeedSwitches = serde_json::from_str(&serde_json::to_string(&sent).unwrap()).unwrap();
        let state = sent.received(Moment(500), 900);
        assert_eq!(state.version, version);
        assert_eq!(state.switches.first_end(), Some(Moment(50_500)));
        let kept = state.switches.iter().next().unwrap();
        assert_eq!((kept.set_unix_ms, kept.ends_unix_ms), (900, 50_900), "the sidecar's clock is an hour behind");
    }

    #[test]
    fn a_version_is_read_as_it_is_written_and_compares_within_its_record() {
        let at = |record: &str, change| Version { record: record.to_owned(), change };
        assert_eq!(Version::parse(&at("a-b", 7).to_string()), Some(at("a-b", 7)));
        assert_eq!(["", "7", "a-", "a-x"].map(Version::parse), [const { None }; 4]);
        assert!(at("a", 2).supersedes(&at("a", 1)) && !at("a", 1).supersedes(&at("a", 1)));
        assert!(!at("a", 2).supersedes(&at("b", 1)), "another record says nothing of this one");
    }
}
