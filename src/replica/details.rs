//! The members of a change that the ledger of a hub keeps beside those of the index.

use super::change::is_text;
use super::columns::{push_number, push_text};

/// The fields of a line that is for the ledger, behind those of the index: `priority`, `payload_digest`, `stored_digest`, `replay_of`, `worker`,
/// `lease_until_ms`, `rerouted`.
pub(super) const DETAIL_FIELDS: usize = 7;
/// The letters of a digest.
const DIGEST_LENGTH: usize = 64;

/// The members of a change that the ledger keeps beside the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Details<'a> {
    /// The job's priority, where it was sent with one.
    pub priority: Option<i64>,
    /// The SHA-256 of the bytes of the job's arguments as they were sent, in lower-case hex.
    pub payload_digest: Option<&'a str>,
    /// The same over the bytes that the region has shown, where that is another one: many servers write JSON anew.
    pub stored_digest: Option<&'a str>,
    /// The job that it repeats.
    pub replay_of: Option<&'a str>,
    /// The worker that has the lease.
    pub worker: Option<&'a str>,
    /// When the lease ends unless it is extended. Units: milliseconds since the Unix epoch.
    pub lease_until_ms: Option<u64>,
    /// Whether the job went to another region than the one that was meant for it.
    pub is_rerouted: bool,
}

/// The same as a hub reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnedDetails {
    /// As in [`Details`].
    pub priority: Option<i64>,
    /// As in [`Details`].
    pub payload_digest: Option<String>,
    /// As in [`Details`].
    pub stored_digest: Option<String>,
    /// As in [`Details`].
    pub replay_of: Option<String>,
    /// As in [`Details`].
    pub worker: Option<String>,
    /// As in [`Details`].
    pub lease_until_ms: Option<u64>,
    /// As in [`Details`].
    pub is_rerouted: bool,
}

impl Details<'_> {
    /// Adds the fields, with a tab between two.
    pub(super) fn write(&self, line: &mut Vec<u8>) {
        push_number(line, self.priority);
        for text in [self.payload_digest, self.stored_digest, self.replay_of, self.worker] {
            push_text(line, text);
        }
        push_number(line, self.lease_until_ms);
        line.push(if self.is_rerouted { b'1' } else { b'0' });
    }
}

impl OwnedDetails {
    /// Reads the fields.
    ///
    /// Errors: the column, and the expected form.
    pub(super) fn read(fields: [&str; DETAIL_FIELDS]) -> Result<Self, String> {
        let [priority, digest, stored_digest, replay_of, worker, lease_until_ms, rerouted] = fields;
        let text = |field: &str| (!field.is_empty()).then(|| field.to_owned());
        let wrong = |column: &str, expected: &str| format!("`{column}`: expected {expected} or nothing");
        let priority =
            text(priority).map(|it| it.parse().map_err(|_| wrong("priority", "a whole number"))).transpose()?;
        let until = text(lease_until_ms).map(|it| it.parse()).transpose();
        let until = until.map_err(|_| wrong("lease_until_ms", "milliseconds since the Unix epoch"))?;
        let is_rerouted = match rerouted {
            "0" => false,
            "1" => true,
            _ => return Err("`rerouted`: expected 0 or 1".to_owned()),
        };
        Ok(Self {
            priority,
            payload_digest: text(digest),
            stored_digest: text(stored_digest),
            replay_of: text(replay_of),
            worker: text(worker),
            lease_until_ms: until,
            is_rerouted,
        })
    }

    /// The first member that is not right, and the expected form.
    pub(super) fn mistake(&self) -> Option<&'static str> {
        let is_digest = |text: &String| {
            text.len() == DIGEST_LENGTH && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
        };
        let fits = |text: &Option<String>| text.as_deref().is_none_or(is_text);
        if ![&self.payload_digest, &self.stored_digest].into_iter().flatten().all(is_digest) {
            return Some("`payload_digest`, `stored_digest`: expected 64 digits of lower-case hex or nothing");
        }
        if !fits(&self.replay_of) || !fits(&self.worker) {
            return Some("`replay_of`, `worker`: expected at most 255 bytes without control characters");
        }
        let is_time = self.lease_until_ms.is_none_or(|ms| i64::try_from(ms).is_ok());
        (!is_time).then_some("`lease_until_ms`: expected a time below 2^63")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let digest = "0f".repeat(32);
        let details = Details {
            priority: Some(-5),
            payload_digest: Some(&digest),
            stored_digest: Some(&digest),
            replay_of: Some("j"),
            worker: Some("w 1"),
            lease_until_ms: Some(7),
            is_rerouted: true,
        };
        let mut line = Vec::new();
        details.write(&mut line);
        let line = String::from_utf8(line).unwrap();
        let fields: Vec<&str> = line.split('\t').collect();
        let read = OwnedDetails::read(fields.try_into().unwrap()).unwrap();
        let expected = OwnedDetails {
            priority: Some(-5),
            payload_digest: Some(digest.clone()),
            stored_digest: Some(digest),
            replay_of: Some("j".to_owned()),
            worker: Some("w 1".to_owned()),
            lease_until_ms: Some(7),
            is_rerouted: true,
        };
        assert_eq!((read.mistake(), read), (None, expected));
        assert_eq!(OwnedDetails::read(["", "", "", "", "", "", "0"]), Ok(OwnedDetails::default()));
    }

    #[test]
    fn a_wrong_field_is_named() {
        for (fields, named) in [
            (["x", "", "", "", "", "", "0"], "`priority`"),
            (["", "", "", "", "", "-1", "0"], "`lease_until_ms`"),
            (["", "", "", "", "", "", ""], "`rerouted`"),
        ] {
            assert!(OwnedDetails::read(fields).unwrap_err().contains(named), "{named}");
        }
        for (fields, named) in [
            (["", "0F", "", "", "", "", "0"], "`payload_digest`"),
            (["", "", "", "", "a\u{7}", "", "0"], "`worker`"),
            (["", "", "", "", "", "18446744073709551615", "0"], "`lease_until_ms`"),
        ] {
            assert!(OwnedDetails::read(fields).unwrap().mistake().unwrap().contains(named), "{named}");
        }
    }
}
