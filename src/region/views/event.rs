//! The views of a hub, as its feed carries them. All times are ages, so that the clocks of hub and sidecar need not agree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The views of all regions that a hub knows. Shape: JSON, one event of the feed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedViews {
    /// How long ago the event was made, which is added when it is sent. Units: milliseconds.
    #[serde(default, skip_serializing)]
    pub age_ms: u64,
    /// The figure that the hub polls, as `load.source` names it.
    pub load: String,
    /// A view for each region that the hub has probed.
    pub regions: Vec<FeedView>,
}

/// The view of one region. Its ages are those at the moment at which the event was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedView {
    /// The region's identifier.
    pub id: String,
    /// The number of the hub's last probe of it, so that a sidecar counts each probe once.
    pub probe: u64,
    /// How long ago that probe ended. Units: milliseconds.
    pub age_ms: u64,
    /// Whether it was answered with an accepted status.
    pub healthy: bool,
    /// From its question to the whole answer; none without an answer. Units: microseconds.
    pub round_trip_us: Option<u64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<FeedTrouble>,
    /// The version of OJS that the region names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ojs_version: Option<String>,
    /// The region's total load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<FeedFigure>,
    /// The load of queues.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queues: BTreeMap<String, FeedFigure>,
}

/// Why a probe of the hub failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedTrouble {
    /// One line.
    pub message: String,
    /// The HTTP status, where there was an answer.
    pub status: Option<u16>,
}

/// One polled figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedFigure {
    /// Jobs waiting or being worked on.
    pub depth: u64,
    /// How long ago it was polled. Units: milliseconds.
    pub age_ms: u64,
}

impl FeedViews {
    /// The JSON of the event without its age: made once for all feeds.
    #[must_use]
    pub fn text(&self) -> String {
        // A struct of texts and numbers always has a JSON form.
        serde_json::to_string(self).unwrap_or_else(|_| r#"{"load":"","regions":[]}"#.to_owned())
    }

    /// The event with a text that was made `age_ms` ago.
    #[must_use]
    pub fn event(text: &str, age_ms: u64) -> String {
        let members = text.strip_prefix('{').unwrap_or(text);
        format!("event: views\ndata: {{\"age_ms\":{age_ms},{members}\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_arrives_as_it_was_made_with_the_age_of_the_moment_at_which_it_was_sent() {
        let figure = FeedFigure { depth: 7, age_ms: 40 };
        let view = FeedView {
            id: "a".to_owned(),
            probe: 3,
            age_ms: 20,
            healthy: false,
            round_trip_us: None,
            trouble: Some(FeedTrouble { message: "line\none".to_owned(), status: Some(503) }),
            ojs_version: None,
            total: Some(figure),
            queues: BTreeMap::from([("mail".to_owned(), figure)]),
        };
        let made = FeedViews { age_ms: 0, load: "queue".to_owned(), regions: vec![view] };
        let event = FeedViews::event(&made.text(), 1_500);
        let data = event.strip_prefix("event: views\ndata: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
        assert!(!data.contains('\n'), "one line: {data}");
        let arrived: FeedViews = serde_json::from_str(data).unwrap();
        assert_eq!(arrived, FeedViews { age_ms: 1_500, ..made });
    }

    #[test]
    fn a_view_of_a_later_hub_is_read_without_what_is_unknown() {
        let data = r#"{"age_ms":1,"load":"queue","later":{},"regions":[{"id":"a","probe":1,"age_ms":2,"healthy":true,"round_trip_us":5,"later":1}]}"#;
        let arrived: FeedViews = serde_json::from_str(data).unwrap();
        assert_eq!((arrived.age_ms, arrived.regions.len()), (1, 1));
    }
}
