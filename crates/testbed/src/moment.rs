//! A point in time as clients write it: a date, or how long from now.

use serde::de::{Deserialize, Deserializer, Error as _};

use crate::text::rfc3339;

/// A point in time that may not be known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Moment {
    /// Milliseconds since the Unix epoch, and the text that it came as.
    At(u64, String),
    /// So many milliseconds after the job is stored, as the public cases write it: `+PT5S`.
    In(u64),
}

impl Moment {
    pub(super) const RULE: &str = "is a time as in RFC 3339, or a wait such as +PT5S";

    /// Milliseconds since the Unix epoch, for a job that was stored then.
    pub(super) fn unix_ms(&self, stored_ms: u64) -> u64 {
        match self {
            Self::At(at_ms, _) => *at_ms,
            Self::In(wait_ms) => stored_ms.saturating_add(*wait_ms),
        }
    }

    /// Its text in an answer about a job that was stored then; a date stays the text that it was.
    pub(super) fn text(&self, stored_ms: u64) -> String {
        match self {
            Self::At(_, text) => text.clone(),
            Self::In(_) => rfc3339(self.unix_ms(stored_ms)),
        }
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let read = match text.strip_prefix('+') {
            Some(wait) => wait
                .parse::<jiff::SignedDuration>()
                .ok()
                .and_then(|wait| wait.as_millis().try_into().ok())
                .map(Self::In),
            None => {
                let at: Option<jiff::Timestamp> = text.parse().ok();
                // A time before the epoch is past, which is all that counts.
                at.map(|at| Self::At(u64::try_from(at.as_millisecond()).unwrap_or(0), text))
            }
        };
        read.ok_or_else(|| D::Error::custom(Self::RULE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_or_a_wait() {
        let read = |text: &str| serde_json::from_value::<Moment>(text.into()).ok();
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Some((1_000, "1970-01-01T00:00:01Z"))),
            ("1970-01-01T01:00:02+01:00", Some((2_000, "1970-01-01T01:00:02+01:00"))),
            ("1960-01-01T00:00:00Z", Some((0, "1960-01-01T00:00:00Z"))),
            ("+PT2S", Some((7_000, "1970-01-01T00:00:07.000Z"))),
            ("+-PT2S", None),
            ("PT2S", None),
            ("soon", None),
        ] {
            let shown = read(text).map(|moment| (moment.unix_ms(5_000), moment.text(5_000)));
            assert_eq!(shown, expected.map(|(at_ms, text): (u64, &str)| (at_ms, text.to_owned())), "{text}");
        }
    }
}
