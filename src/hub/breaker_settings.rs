//! `breakers` and `incidents`: the job types that are stopped when their jobs fail, and the receiver of messages about that.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::base::Share;
use crate::base::text::parse_duration;
use crate::config::{RegionTls, RegionUrl, is_loopback, parse_url};
use crate::policy::{ANY, BreakerTerms};
use crate::replica::is_text;

/// Breakers in a configuration, and queues of one of them: each step of a job is compared with them.
const ENTRIES_MAX: usize = 64;
/// The longest window of all, of which the ends are kept.
pub(super) const WINDOW_MAX: Duration = Duration::from_secs(60 * 60);
const WINDOW_MIN: Duration = Duration::from_secs(10);
/// A shorter pause is over before all sidecars have heard of it.
const PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(24 * 60 * 60));
const PROBE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60 * 60));
/// More ends than a hub hears of in an hour.
const MINIMUM_MAX: u64 = 1_000_000;

/// A breaker of a job type. The first one that fits a type and a tenant is theirs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakerSettings {
    /// The exact type, or `*`: any, each by itself.
    pub(super) job_type: String,
    /// The exact tenant, or `*`: any, each by itself, and jobs without a tenant.
    #[serde(default = "any")]
    pub(super) tenant: String,
    /// It trips where at least this share of the ends are failures: 0.0001 to 1.
    #[serde(default = "half", deserialize_with = "ratio")]
    pub(super) ratio: Share,
    /// It does not trip by fewer ends.
    #[serde(default = "twenty")]
    pub(super) minimum: u64,
    /// The ends of so long count.
    #[serde(default = "minute", deserialize_with = "duration")]
    pub(super) window: Duration,
    /// How long it is open at first.
    #[serde(default = "minute", deserialize_with = "duration")]
    pub(super) pause: Duration,
    /// How long it is open at most: each failed probe doubles the time.
    #[serde(default = "half_an_hour", deserialize_with = "duration")]
    pub(super) pause_most: Duration,
    /// How long a sidecar may take to let one job through, and that job to end.
    #[serde(default = "minute", deserialize_with = "duration")]
    pub(super) probe: Duration,
    /// Queues that hold the jobs of this type and tenant alone: they are left out of FETCH.
    #[serde(default)]
    pub(super) queues: Vec<String>,
}

/// Messages about incidents.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncidentSettings {
    /// The receiver.
    pub(super) webhook: WebhookSettings,
}

/// The receiver of messages about incidents.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// `https`, or `http` on loopback.
    pub(super) url: String,
    /// PEM trust roots; those of the operating system when absent.
    pub(super) ca: Option<PathBuf>,
    /// The file with the bearer token of each message. Read for each.
    pub(super) token_file: Option<PathBuf>,
}

fn any() -> String {
    ANY.to_owned()
}

fn half() -> Share {
    Share::try_from(5_000).unwrap_or(Share::ALL)
}

const fn twenty() -> u64 {
    20
}

const fn minute() -> Duration {
    Duration::from_secs(60)
}

const fn half_an_hour() -> Duration {
    Duration::from_secs(30 * 60)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(|_| D::Error::custom("expected a duration, such as 60s"))
}

fn ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
    let number = f64::deserialize(deserializer)?;
    let expected = || D::Error::custom("expected a number from 0.0001 to 1, such as 0.5");
    if !(0.0001..=1.0).contains(&number) {
        return Err(expected());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 10 000")]
    let hundredths = (number * 10_000.0).round() as u16;
    Share::try_from(hundredths).map_err(|_| expected())
}

impl BreakerSettings {
    /// The mistakes in a list, each beginning with its key. `is_ledger`: whether the hub keeps a ledger.
    pub(super) fn mistakes(all: &[Self], is_ledger: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        if !all.is_empty() && !is_ledger {
            wrong.push("breakers: expected `ledger`, too, because the ends of jobs are those of the ledger".to_owned());
        }
        if all.len() > ENTRIES_MAX {
            wrong.push(format!("breakers: expected at most {ENTRIES_MAX} of them"));
        }
        for (place, it) in all.iter().enumerate() {
            let mistakes = it.own_mistakes();
            wrong.extend(mistakes.into_iter().map(|mistake| format!("breakers[{place}].{mistake}")));
            if all.iter().take(place).any(|before| before.fits(&it.job_type, Some(&it.tenant))) {
                wrong.push(format!(
                    "breakers[{place}].job_type: an earlier one fits the same types and tenants: put this one first"
                ));
            }
            let is_listed = |queue: &&String| all.iter().take(place).any(|before| before.queues.contains(queue));
            if let Some(queue) = it.queues.iter().find(is_listed) {
                wrong.push(format!(
                    "breakers[{place}].queues: an earlier one lists {queue}, too: expected queues that hold the jobs of one breaker alone"
                ));
            }
        }
        wrong
    }

    fn own_mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, text) in [("job_type", &self.job_type), ("tenant", &self.tenant)] {
            if !is_text(text) {
                wrong.push(format!("{key}: expected * or 1 to 255 bytes without control characters"));
            }
        }
        if !(1..=MINIMUM_MAX).contains(&self.minimum) {
            wrong.push(format!("minimum: expected 1 to {MINIMUM_MAX}"));
        }
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&self.window) {
            wrong.push("window: expected 10s to 1h".to_owned());
        }
        if !(PAUSE.0..=PAUSE.1).contains(&self.pause) {
            wrong.push("pause: expected 2s to 24h".to_owned());
        }
        if !(self.pause..=PAUSE.1).contains(&self.pause_most) {
            wrong.push("pause_most: expected `pause` to 24h".to_owned());
        }
        if !(PROBE.0..=PROBE.1).contains(&self.probe) {
            wrong.push("probe: expected 1s to 1h".to_owned());
        }
        if self.queues.len() > ENTRIES_MAX || self.queues.iter().any(|queue| !is_text(queue)) {
            wrong.push(format!(
                "queues: expected at most {ENTRIES_MAX} queues of 1 to 255 bytes without control characters"
            ));
        }
        if !self.queues.is_empty() && self.job_type == ANY {
            wrong.push("queues: expected an exact `job_type` beside them: a queue must hold one type alone".to_owned());
        }
        wrong
    }

    /// Whether it is the breaker of a type and a tenant.
    pub(super) fn fits(&self, job_type: &str, tenant: Option<&str>) -> bool {
        (self.job_type == ANY || self.job_type == job_type)
            && (self.tenant == ANY || tenant == Some(self.tenant.as_str()))
    }

    /// The queues that are left out for a tenant: with any tenant those are of jobs without one, because others may be in them, too.
    pub(super) fn queues_of(&self, tenant: Option<&str>) -> &[String] {
        if self.tenant == ANY && tenant.is_some() { &[] } else { &self.queues }
    }

    /// Its terms.
    pub(super) fn terms(&self) -> BreakerTerms {
        let ms = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        BreakerTerms {
            ratio: self.ratio,
            minimum: self.minimum,
            window_ms: ms(self.window),
            pause_ms: ms(self.pause),
            pause_most_ms: ms(self.pause_most),
            probe_ms: ms(self.probe),
        }
    }
}

impl IncidentSettings {
    /// The mistake in it, beginning with its key.
    pub(super) fn mistake(&self) -> Option<String> {
        let expected = "webhook.url: expected an https URL without query and percent signs, or http on loopback, such as https://ops.example.com/hooks/ojs";
        self.webhook.url().is_none().then(|| expected.to_owned())
    }

    /// The paths in it.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.webhook.ca.iter_mut().chain(self.webhook.token_file.as_mut())
    }
}

impl WebhookSettings {
    /// The URL; none for one that cannot be used. Its path may be a secret.
    pub(super) fn url(&self) -> Option<RegionUrl> {
        let Some(rest) = self.url.strip_prefix("http://") else {
            return parse_url(&self.url).ok().filter(|url| url.tls);
        };
        let url = parse_url(&format!("https://{rest}")).ok().filter(|url| is_loopback(&url.host))?;
        let says_port =
            rest.split('/').next().is_some_and(|it| it.rsplit(']').next().is_some_and(|it| it.contains(':')));
        Some(RegionUrl { tls: false, port: if says_port { url.port } else { 80 }, ..url })
    }

    /// TLS as a connection takes it.
    pub(super) fn tls(&self) -> RegionTls {
        RegionTls { ca: self.ca.clone(), ..RegionTls::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> BreakerSettings {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn the_first_that_fits_a_type_and_a_tenant_is_theirs_and_queues_are_of_one_tenant() {
        let one = read("{ job_type: mail, tenant: acme, queues: [m] }");
        assert!(one.fits("mail", Some("acme")) && !one.fits("mail", None) && !one.fits("sms", Some("acme")));
        assert_eq!(one.queues_of(Some("acme")), ["m"]);
        let each = read("{ job_type: mail, queues: [m] }");
        assert!(each.fits("mail", None) && each.fits("mail", Some("x")));
        assert_eq!((each.queues_of(None).len(), each.queues_of(Some("x")).len()), (1, 0));
        let terms = read("{ job_type: \"*\", ratio: 0.25 }").terms();
        assert_eq!((u16::from(terms.ratio), terms.minimum, terms.window_ms), (2_500, 20, 60_000));
    }

    #[test]
    fn every_mistake_begins_with_its_key() {
        for (text, key) in [
            ("{ job_type: \"\" }", "job_type:"),
            ("{ job_type: a, tenant: \"\" }", "tenant:"),
            ("{ job_type: a, minimum: 0 }", "minimum:"),
            ("{ job_type: a, window: 9s }", "window:"),
            ("{ job_type: a, pause: 1s }", "pause:"),
            ("{ job_type: a, pause: 2m, pause_most: 1m }", "pause_most:"),
            ("{ job_type: a, probe: 2h }", "probe:"),
            ("{ job_type: a, queues: [\"\"] }", "queues:"),
            ("{ job_type: \"*\", queues: [q] }", "queues:"),
        ] {
            let wrong = BreakerSettings::mistakes(&[read(text)], true);
            assert!(wrong.len() == 1 && wrong[0].starts_with(&format!("breakers[0].{key}")), "{text}: {wrong:?}");
        }
        for text in ["{ job_type: a, ratio: 0 }", "{ job_type: a, ratio: 1.5 }", "{ job_type: a, pause: soon }", "{}"] {
            assert!(serde_saphyr::from_str::<BreakerSettings>(text).is_err(), "{text}");
        }
        let right = read("{ job_type: a }");
        assert!(
            BreakerSettings::mistakes(std::slice::from_ref(&right), false)[0]
                .starts_with("breakers: expected `ledger`")
        );
        let twice = BreakerSettings::mistakes(&[read("{ job_type: \"*\" }"), right], true);
        assert!(twice.len() == 1 && twice[0].starts_with("breakers[1].job_type"), "{twice:?}");
        let one_queue =
            [read("{ job_type: a, tenant: x, queues: [p, q] }"), read("{ job_type: b, tenant: x, queues: [q] }")];
        let mistakes = BreakerSettings::mistakes(&one_queue, true);
        assert!(
            mistakes.len() == 1 && mistakes[0].starts_with("breakers[1].queues: an earlier one lists q"),
            "{mistakes:?}"
        );
    }

    #[test]
    fn a_webhook_is_of_https_or_on_this_machine() {
        let url = |text: &str| {
            let settings = WebhookSettings { url: text.to_owned(), ca: None, token_file: None };
            settings.url().map(|url| (url.tls, url.port, url.base_path))
        };
        assert_eq!(url("https://ops.example.com/a/b"), Some((true, 443, "/a/b".to_owned())));
        assert_eq!(url("http://127.0.0.1:8080/x"), Some((false, 8080, "/x".to_owned())));
        assert_eq!(url("http://localhost/x"), Some((false, 80, "/x".to_owned())));
        assert_eq!(url("http://[::1]/x"), Some((false, 80, "/x".to_owned())));
        for wrong in ["http://ops.example.com/x", "ftp://localhost/x", "ops", "https://a:b@c/x", "https://a/x?b=c"] {
            assert_eq!(url(wrong), None, "{wrong}");
        }
    }
}
