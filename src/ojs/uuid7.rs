//! UUIDv7, and its text on the stack.

use std::ops::Deref;

/// A UUIDv7: a tracking id, or the id that a job is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid7(pub(super) uuid::Uuid);

/// How long the text of a [`Uuid7`] is. Units: bytes.
pub const UUID7_LETTERS: usize = 36;

/// Room for the text of a [`Uuid7`].
#[derive(Debug, Clone, Copy)]
pub struct Uuid7Room([u8; UUID7_LETTERS]);

impl Default for Uuid7Room {
    fn default() -> Self {
        Self([0; UUID7_LETTERS])
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

    /// Its letters, lower case, as text.
    #[must_use]
    pub fn text(self, room: &mut Uuid7Room) -> &str {
        room.0 = letters_of(self.0);
        std::str::from_utf8(&room.0).unwrap_or_default()
    }
}

/// A UUIDv7 in its letters, lower case, without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid7Text([u8; UUID7_LETTERS]);

impl Uuid7Text {
    pub(super) fn of(uuid: uuid::Uuid) -> Self {
        Self(letters_of(uuid))
    }

    /// Its letters, as bytes.
    #[must_use]
    pub const fn letters(&self) -> &[u8; UUID7_LETTERS] {
        &self.0
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

/// The letters of a UUID, eight at a time: each job gets three.
fn letters_of(uuid: uuid::Uuid) -> [u8; UUID7_LETTERS] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = uuid.into_bytes();
    let [first, second, third, fourth] = [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]].map(hex);
    let mut text = [b'-'; UUID7_LETTERS];
    text[..8].copy_from_slice(&first);
    text[9..13].copy_from_slice(&second[..4]);
    text[14..18].copy_from_slice(&second[4..]);
    text[19..23].copy_from_slice(&third[..4]);
    text[24..28].copy_from_slice(&third[4..]);
    text[28..].copy_from_slice(&fourth);
    text
}

/// Four bytes in lower-case hexadecimal.
const fn hex(bytes: [u8; 4]) -> [u8; 8] {
    const ONES: u64 = u64::MAX / 255;
    let mut digits = u32::from_be_bytes(bytes) as u64;
    // A byte for each digit, in their order.
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Six more than ten carries into the upper half of its byte.
    let beyond_nine = ((digits + ONES * 6) >> 4) & ONES;
    (digits + ONES * b'0' as u64 + beyond_nine * (b'a' - b'9' - 1) as u64).to_be_bytes()
}

/// The text of a [`Uuid7::new`].
#[inline]
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

    #[test]
    fn the_letters_are_those_of_the_bytes() {
        let each = (0..=u8::MAX).map(|byte| {
            uuid::Uuid::from_bytes(std::array::from_fn(|at| byte.wrapping_add(u8::try_from(17 * at).unwrap())))
        });
        for uuid in each {
            assert_eq!(&*Uuid7Text::of(uuid), uuid.hyphenated().to_string());
        }
    }
}
