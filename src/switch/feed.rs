//! The switches of a hub, as its feed carries them and as a sidecar keeps them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::order::LASTS_MAX;
use super::set::{SWITCHES_MAX, Switch, Switches};
use crate::base::{Moment, SwitchKind, SwitchSubject};

/// Names a state of a hub's record. Each state has a name that no other one has, so that a record that was restored from a copy, or another
/// record, is not taken for the one that sidecars know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The name of the state, random; empty before any change.
    #[serde(alias = "run")]
    pub name: String,
    /// The number of its last change, from 1; 0 before any.
    pub change: u64,
}

/// A state of a hub has more switches than [`SWITCHES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl Version {
    /// Reads the form that [`std::fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, change) = text.rsplit_once('-')?;
        Some(Self { name: name.to_owned(), change: change.parse().ok()? })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.name, self.change)
    }
}

/// All switches of a hub on their way to a sidecar. Shape: JSON, one event of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// Its subject.
    #[serde(flatten)]
    pub subject: SwitchSubject,
    /// The most calls at once of each sidecar, for a throttle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// How long ago it was set: the clocks of hub and sidecar need not agree. Units: milliseconds.
    pub set_ms_ago: u64,
    /// How long it still lasts, never longer than was ordered. Units: milliseconds.
    pub ends_in_ms: u64,
    /// Why it was set.
    pub reason: String,
    /// The ticket.
    pub ticket: String,
    /// The operator.
    pub author: String,
}

/// The longest word of a switch that cannot be read, as logs show it. Units: bytes.
const WORD_BYTES_MAX: usize = 64;

impl FeedSwitch {
    /// Whether it has all members of its kind.
    fn is_whole(&self) -> bool {
        self.switch.takes(&self.subject) && (self.switch == SwitchKind::Throttle) == self.calls.is_some()
    }
}

impl FeedSwitches {
    /// Reads an event, and returns it with the words of the switches in it that this version of the program cannot read. A later version of the
    /// hub may send these, and the others count all the same. Without them the state is not the hub's: it has no version, so that the hub
    /// sends it again to the next connection, which may be that of a later version.
    ///
    /// Errors: the event is not a state of a hub.
    pub fn read(data: &str) -> serde_json::Result<(Self, Vec<String>)> {
        #[derive(Deserialize)]
        struct Event {
            version: Version,
            switches: Vec<Value>,
        }
        let Event { version, switches: all } = serde_json::from_str(data)?;
        let (mut switches, mut unknown) = (Vec::new(), Vec::new());
        for it in all {
            match FeedSwitch::deserialize(&it) {
                Ok(switch) if switch.is_whole() => switches.push(switch),
                _ => unknown.push(word(&it)),
            }
        }
        let version = if unknown.is_empty() { version } else { Version::default() };
        Ok((Self { version, switches }, unknown))
    }

    /// The event for a state of the hub, whose moments are its wall clock.
    #[must_use]
    pub fn of(version: Version, switches: &Switches, unix_ms: u64) -> Self {
        let sent = |it: &Switch| FeedSwitch {
            switch: it.kind,
            subject: it.subject.clone(),
            calls: it.calls,
            set_ms_ago: unix_ms.saturating_sub(it.set_unix_ms),
            // A clock that was set back adds no time.
            ends_in_ms: it.ends_unix_ms.saturating_sub(unix_ms.max(it.set_unix_ms)),
            reason: it.reason.clone(),
            ticket: it.ticket.clone(),
            author: it.author.clone(),
        };
        Self { version, switches: switches.iter().map(sent).collect() }
    }

    /// The part that a sidecar keeps, by its own clocks.
    ///
    /// Errors: [`TooMany`].
    pub fn received(self, now: Moment, unix_ms: u64) -> Result<HubState, TooMany> {
        if self.switches.len() > SWITCHES_MAX {
            return Err(TooMany);
        }
        let mut switches = Switches::default();
        for it in self.switches {
            let lasts = Duration::from_millis(it.ends_in_ms).min(LASTS_MAX);
            switches.set(Switch {
                kind: it.switch,
                subject: it.subject,
                calls: it.calls,
                until: now.after(lasts),
                set_unix_ms: unix_ms.saturating_sub(it.set_ms_ago),
                ends_unix_ms: Moment(unix_ms).after(lasts).0,
                reason: it.reason,
                ticket: it.ticket,
                author: it.author,
            });
        }
        Ok(HubState { version: self.version, switches })
    }
}

/// The word of a switch, where it can be shown.
fn word(switch: &Value) -> String {
    let word = switch["switch"].as_str().filter(|it| it.len() <= WORD_BYTES_MAX);
    word.filter(|it| it.bytes().all(|byte| byte.is_ascii_graphic())).unwrap_or("unreadable").to_owned()
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
    use crate::base::RegionId;

    #[test]
    fn a_switch_lasts_as_long_at_the_sidecar_as_at_the_hub_whatever_their_clocks_show() {
        let mut all = Switches::default();
        let text = || "x".to_owned();
        let (reason, ticket, author) = (text(), text(), text());
        let (set_unix_ms, ends_unix_ms, until) = (1_000, 61_000, Moment(61_000));
        let subject = SwitchSubject::Region(RegionId::parse("a").unwrap());
        let (kind, calls) = (SwitchKind::Drain, None);
        all.set(Switch { kind, subject, calls, until, set_unix_ms, ends_unix_ms, reason, ticket, author });
        let version = Version { name: "r".to_owned(), change: 3 };
        let sent = FeedSwitches::of(version.clone(), &all, 11_000);
        let (sent, unknown) = FeedSwitches::read(&serde_json::to_string(&sent).unwrap()).unwrap();
        assert_eq!(unknown, [""; 0]);
        let state = sent.received(Moment(500), 9_000_900).unwrap();
        assert_eq!(state.version, version);
        assert_eq!(state.switches.first_end(), Some(Moment(50_500)));
        let kept = state.switches.iter().next().unwrap();
        assert_eq!((kept.set_unix_ms, kept.ends_unix_ms), (8_990_900, 9_050_900), "by the sidecar's clock");
        let set_back = FeedSwitches::of(version, &all, 0);
        assert_eq!(set_back.switches[0].ends_in_ms, 60_000, "a hub's clock that is set back adds no time");
    }

    #[test]
    fn a_version_is_read_as_it_is_written() {
        let at = |name: &str, change| Version { name: name.to_owned(), change };
        assert_eq!(Version::parse(&at("a-b", 7).to_string()), Some(at("a-b", 7)));
        assert_eq!(["", "7", "a-", "a-x"].map(Version::parse), [const { None }; 4]);
    }

    #[test]
    fn a_state_with_more_switches_than_a_hub_can_have_is_refused_and_none_lasts_for_ever() {
        let switch = |region: String, ends_in_ms| FeedSwitch {
            switch: SwitchKind::Drain,
            subject: SwitchSubject::Region(RegionId::parse(&region).unwrap()),
            calls: None,
            set_ms_ago: 0,
            ends_in_ms,
            reason: String::new(),
            ticket: String::new(),
            author: String::new(),
        };
        let state = |switches| FeedSwitches { version: Version::default(), switches };
        let many = (0..=SWITCHES_MAX).map(|at| switch(format!("r{at}"), 1)).collect();
        assert_eq!(state(many).received(Moment(0), 0), Err(TooMany));
        let long = state(vec![switch("a".to_owned(), u64::MAX)]).received(Moment(0), 0).unwrap();
        assert_eq!(long.switches.first_end(), Some(Moment(0).after(LASTS_MAX)));
    }

    #[test]
    fn switches_of_a_later_hub_that_cannot_be_read_are_left_out_and_named() {
        let switch = |what: &str| {
            format!(r#"{{{what},"set_ms_ago":1,"ends_in_ms":2,"reason":"r","ticket":"t","author":"a","later":[1]}}"#)
        };
        let of = |all: &[&str]| {
            let all: Vec<String> = all.iter().map(|what| switch(what)).collect();
            format!(r#"{{"version":{{"run":"r","change":4}},"switches":[{}],"later":{{}}}}"#, all.join(","))
        };
        let read = |all: &[&str]| FeedSwitches::read(&of(all)).unwrap();
        let (state, unknown) =
            read(&[r#""switch":"drain","region":"a""#, r#""switch":"pause","region":null,"queue":"q""#]);
        assert_eq!((state.version.change, state.switches.len(), unknown.len()), (4, 2, 0));
        let (state, unknown) = read(&[
            r#""switch":"slow","region":"a""#,
            r#""switch":"drain","region":"a""#,
            r#""switch":"pause","region":null,"origin":"o""#,
            r#""switch":"pause","queue":"q","tenant":"t""#,
            r#""switch":"a\nb""#,
            r#""region":"a""#,
        ]);
        assert_eq!(state.switches.len(), 1);
        assert_eq!(unknown, ["slow", "pause", "pause", "unreadable", "unreadable"]);
        assert_eq!(state.version, Version::default(), "the hub sends it again");
        for wrong in ["", "[]", "{}", r#"{"version":{"run":"r","change":4}}"#] {
            assert!(FeedSwitches::read(wrong).is_err(), "{wrong}");
        }
    }
}
