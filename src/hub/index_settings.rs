//! The settings of the index of jobs, and of the hubs that it is replicated from.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::body_settings::BodySettings;
use super::event_settings::EventSettings;
use crate::base::RegionId;
use crate::base::text::parse_duration;
use crate::config::{RegionTls, RegionUrl, ServerIdentity, parse_url};

/// Hubs that one pulls from: as many as a federation has regions.
const SOURCES_MAX: usize = 256;
/// Replicas of one hub.
const URLS_MAX: usize = 16;
/// A look-up within minutes needs an hour; a year of changes is a matter of a data warehouse.
const RETENTION: (Duration, Duration) = (Duration::from_secs(60 * 60), Duration::from_secs(366 * 24 * 60 * 60));
/// Below, ordinary jitter of clocks stops a pair.
const SKEW: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60 * 60));
/// Sidecars without a feed keep the known switches; for longer, a lost source would decide about a region that is well.
const RETURN_WAIT_MAX: Duration = Duration::from_secs(5 * 60);

/// Below, a hub could decide before the decision of another one, which takes up to four seconds, has reached it. For longer, copies would run.
const CONFLICTS_AFTER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60 * 60));
/// For longer, a promotion that is over would keep workers from a region that works.
const RETURN_MAX: Duration = Duration::from_secs(60 * 60);

/// A member of the description of a job that is bound to some regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BoundField {
    /// Its type.
    Type,
    /// Its queue.
    Queue,
    /// Its tenant.
    Tenant,
}

/// The treatment of copies of a job in this hub's region that count less than a copy elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConflictMode {
    /// They are counted and logged.
    #[default]
    Report,
    /// Those that no worker has had are cancelled.
    Cancel,
}

/// The index of jobs of one region's hub.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSettings {
    /// The region whose sidecars report to this hub.
    pub region: RegionId,
    /// How long a fact is kept.
    #[serde(default = "week", deserialize_with = "duration")]
    pub(super) retention: Duration,
    /// The further members of jobs that are bound to some regions which other hubs get, beside ids, states and times.
    #[serde(default)]
    pub(super) bound_fields: Vec<BoundField>,
    /// The most that the clock of another hub may differ.
    #[serde(default = "five_seconds", deserialize_with = "duration")]
    pub(super) max_skew: Duration,
    /// The treatment of copies that count less than a copy elsewhere.
    #[serde(default)]
    pub(super) conflicts: ConflictMode,
    /// For how long the facts about copies must not have changed before anything is decided about these.
    #[serde(default = "half_a_minute", deserialize_with = "duration")]
    pub(super) conflicts_after: Duration,
    /// How long a lost region must be healthy before a promotion takes it for back.
    #[serde(default = "minute", deserialize_with = "duration")]
    pub(super) return_after: Duration,
    /// The bodies of jobs; none where this hub keeps none.
    pub(super) bodies: Option<BodySettings>,
    /// The event streams of the region that are read; none where sidecars are the only source.
    pub(super) events: Option<EventSettings>,
    /// The hubs that this one pulls facts from.
    #[serde(default)]
    pub(super) from: Vec<SourceSettings>,
    /// How long feeds wait at the start for the first answer of each of them; 0: not at all.
    #[serde(default = "ten_seconds", deserialize_with = "duration")]
    pub(super) return_wait: Duration,
}

/// The hub of another region.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceSettings {
    /// Its region.
    pub(super) region: RegionId,
    /// Its replicas.
    pub(super) urls: Vec<String>,
    /// The certificate of this hub there, and the expected one.
    pub(super) tls: SourceTls,
    /// Whether the bodies of jobs are pulled, too.
    #[serde(default)]
    pub(super) bodies: bool,
    /// Whether the isolations that are set at it hold here, too.
    #[serde(default = "yes")]
    pub(super) isolations: bool,
}

/// TLS to another hub. Files are read at each connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceTls {
    /// PEM trust roots.
    pub(super) ca: PathBuf,
    /// PEM client certificate chain, which gives this hub the role `hub` there.
    pub(super) cert: PathBuf,
    /// PEM private key of the certificate.
    pub(super) key: PathBuf,
    /// The URI that the certificate of the other hub must show; else the host of the URL.
    uri_san: Option<String>,
}

const fn week() -> Duration {
    Duration::from_secs(7 * 24 * 60 * 60)
}

const fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}

const fn minute() -> Duration {
    Duration::from_secs(60)
}

const fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

const fn yes() -> bool {
    true
}

const fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(|_| D::Error::custom("expected a duration, such as 24h"))
}

impl SourceSettings {
    /// The URLs that can be read.
    pub(super) fn urls(&self) -> Vec<RegionUrl> {
        self.urls.iter().filter_map(|url| parse_url(url).ok().filter(|url| url.tls)).collect()
    }

    /// TLS as a connection takes it.
    pub(super) fn tls(&self) -> RegionTls {
        let SourceTls { ca, cert, key, uri_san } = self.tls.clone();
        let identity = uri_san.map_or(ServerIdentity::UrlHost, ServerIdentity::Uri);
        RegionTls { ca: Some(ca), cert: Some(cert), key: Some(key), identity }
    }

    fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !(1..=URLS_MAX).contains(&self.urls.len()) {
            wrong.push(format!("urls: expected 1 to {URLS_MAX} URLs"));
        }
        if self.urls().len() < self.urls.len() {
            wrong.push("urls: expected the https URLs of a hub, such as https://hub.example.com:8443".to_owned());
        }
        wrong
    }
}

impl IndexSettings {
    /// The mistakes, each beginning with its key.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !(RETENTION.0..=RETENTION.1).contains(&self.retention) {
            wrong.push("retention: expected 1h to 366d".to_owned());
        }
        if !(SKEW.0..=SKEW.1).contains(&self.max_skew) {
            wrong.push("max_skew: expected 100ms to 1h".to_owned());
        }
        if !(CONFLICTS_AFTER.0..=CONFLICTS_AFTER.1).contains(&self.conflicts_after) {
            wrong.push("conflicts_after: expected 5s to 1h".to_owned());
        }
        if self.return_after > RETURN_MAX {
            wrong.push("return_after: expected 0s to 1h".to_owned());
        }
        if self.return_wait > RETURN_WAIT_MAX {
            wrong.push("return_wait: expected 0s to 5m".to_owned());
        }
        if self.from.len() > SOURCES_MAX {
            wrong.push(format!("from: expected at most {SOURCES_MAX} hubs"));
        }
        let of_bodies = self.bodies.iter().flat_map(BodySettings::mistakes);
        wrong.extend(of_bodies.map(|mistake| format!("bodies.{mistake}")));
        let of_events = self.events.iter().flat_map(EventSettings::mistakes);
        wrong.extend(of_events.map(|mistake| format!("events.{mistake}")));
        let mut seen = HashSet::from([&self.region]);
        for (place, source) in self.from.iter().enumerate() {
            if !seen.insert(&source.region) {
                wrong.push(format!("from[{place}].region: expected another region than this hub's, each once"));
            }
            if source.bodies && self.bodies.is_none() {
                wrong.push(format!("from[{place}].bodies: expected index.bodies, too: the bodies have no place here"));
            }
            wrong.extend(source.mistakes().into_iter().map(|mistake| format!("from[{place}].{mistake}")));
        }
        wrong
    }

    /// The files that it names.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let keys = self.bodies.iter_mut().map(|it| &mut it.key_file);
        self.from.iter_mut().flat_map(|it| [&mut it.tls.ca, &mut it.tls.cert, &mut it.tls.key]).chain(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<String> {
        serde_saphyr::from_str::<IndexSettings>(text).unwrap().mistakes()
    }

    const TLS: &str = "tls: { ca: a, cert: b, key: c }";

    #[test]
    fn every_mistake_begins_with_its_key() {
        assert_eq!(mistakes("region: us"), [""; 0]);
        assert_eq!(
            mistakes(&format!("{{ region: us, from: [{{ region: eu, urls: [\"https://h:1\"], {TLS} }}] }}")),
            [""; 0]
        );
        for (text, key) in [
            ("{ region: us, retention: 5s }".to_owned(), "retention:"),
            ("{ region: us, max_skew: 0s }".to_owned(), "max_skew:"),
            ("{ region: us, conflicts_after: 4s }".to_owned(), "conflicts_after:"),
            ("{ region: us, return_wait: 6m }".to_owned(), "return_wait:"),
            (format!("{{ region: us, from: [{{ region: us, urls: [\"https://h:1\"], {TLS} }}] }}"), "from[0].region:"),
            (format!("{{ region: us, from: [{{ region: eu, urls: [], {TLS} }}] }}"), "from[0].urls:"),
            ("{ region: us, bodies: { key_file: k, bytes_max: 1KiB } }".to_owned(), "bodies.bytes_max:"),
            ("{ region: us, events: { queues: [] } }".to_owned(), "events.queues:"),
            (
                format!("{{ region: us, from: [{{ region: eu, urls: [\"https://h:1\"], bodies: true, {TLS} }}] }}"),
                "from[0].bodies:",
            ),
            (
                format!("{{ region: us, from: [{{ region: eu, urls: [\"http://127.0.0.1:1\"], {TLS} }}] }}"),
                "from[0].urls:",
            ),
        ] {
            let wrong = mistakes(&text);
            assert!(wrong.len() == 1 && wrong[0].starts_with(key), "{text}: {wrong:?}");
        }
        assert_eq!(mistakes("{ region: us, bodies: { key_file: k, bytes_max: 20MiB } }"), [""; 0]);
        assert!(serde_saphyr::from_str::<IndexSettings>("{ region: us, bodies: {} }").is_err());
        assert!(serde_saphyr::from_str::<IndexSettings>("{ region: us, bound_fields: [args] }").is_err());
    }
}
