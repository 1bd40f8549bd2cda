//! UUIDv7, and its text on the stack.

use std::ops::Deref;

use uuid::fmt::Hyphenated;

/// A UUIDv7: a tracking id, or the id that a job is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid7(pub(super) uuid::Uuid);

/// Room for the text of a [`Uuid7`].
#[derive(Debug, Clone, Copy)]
pub struct Uuid7Room([u8; Hyphenated::LENGTH]);

impl Default for Uuid7Room {
    fn default() -> Self {
        Self([0; Hyphenated::LENGTH])
    }
}

impl Uuid7 {
    /// A UUIDv7 of this instant: for `ojs.federation.federation_id`, and for a minted job `id`.
    ///
    /// Units: `unix_ms` is milliseconds since the Unix epoch. Spec: federation-spec §6.3, the time is that of the enqueue.
    #[must_use]
    pub fn new(unix_ms: u64, random: [u8; 10]) -> Self {
        Self(uuid::Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid())
    }

    /// Its 36 letters.
    #[must_use]
    pub fn letters(self) -> [u8; 36] {
        Uuid7Text::of(self.0).0
    }

    /// Its 36 letters, lower case, as text; they are written and need not be checked again.
    #[must_use]
    pub fn text(self, room: &mut Uuid7Room) -> &str {
        self.0.hyphenated().encode_lower(&mut room.0)
    }
}

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

/// The text of a [`Uuid7::new`].
#[must_use]
pub fn federation_id(unix_ms: u64, random: [u8; 10]) -> Uuid7Text {
    Uuid7Text::of(Uuid7::new(unix_ms, random).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_time_version_and_variant() {
        let id = federation_id(0x0191_2e4a_7b3c, [0xff; 10]);
        assert_eq!(&*id, "01912e4a-7b3c-7fff-bfff-ffffffffffff");
        assert_eq!(&*federation_id(1, [0; 10]), "00000000-0001-7000-8000-000000000000");
        assert_eq!(Uuid7::new(1, [7; 10]).text(&mut Uuid7Room::default()), &*federation_id(1, [7; 10]));
        assert!(federation_id(2, [0; 10]).as_ref() > &*federation_id(1, [0xff; 10]));
    }
}
