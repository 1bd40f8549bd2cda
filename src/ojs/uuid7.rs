//! UUIDv7 as text on the stack.

use std::ops::Deref;

/// A UUIDv7 in its 36 letters, lower case, without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid7Text([u8; 36]);

impl Uuid7Text {
    pub(super) fn of(uuid: uuid::Uuid) -> Self {
        let mut text = [0; 36];
        uuid.hyphenated().encode_lower(&mut text);
        Self(text)
    }
}

impl Deref for Uuid7Text {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl AsRef<str> for Uuid7Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl std::fmt::Display for Uuid7Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

/// A UUIDv7 of this instant: for `ojs.federation.federation_id`, and for a minted job `id`.
///
/// Units: `unix_ms` is milliseconds since the Unix epoch. Spec: federation-spec §6.3, the time is that of the enqueue.
#[must_use]
pub fn federation_id(unix_ms: u64, random: [u8; 10]) -> Uuid7Text {
    Uuid7Text::of(uuid::Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_time_version_and_variant() {
        let id = federation_id(0x0191_2e4a_7b3c, [0xff; 10]);
        assert_eq!(&*id, "01912e4a-7b3c-7fff-bfff-ffffffffffff");
        assert_eq!(&*federation_id(1, [0; 10]), "00000000-0001-7000-8000-000000000000");
        assert!(federation_id(2, [0; 10]).as_ref() > &*federation_id(1, [0xff; 10]));
    }
}
