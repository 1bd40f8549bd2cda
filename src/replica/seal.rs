//! Sealing of bodies: AES-256-GCM under the key of a file. The tag also covers the identity of the row, so that no sealed body can be
//! put into another row.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Random bytes for one row; never used for a second one under the same key.
pub type RowNonce = [u8; 12];

/// The digits of a key.
const DIGITS: usize = 64;
/// A key file with more than a line end behind its digits is none. Units: bytes.
const FILE_BYTES_MAX: u64 = 128;

/// The key of a spool, or of the bodies at a hub.
pub struct Seal(LessSafeKey);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// The key of a file: 32 bytes as 64 hexadecimal digits.
    ///
    /// Errors: the file cannot be read, or holds something else.
    pub fn of_file(path: &Path) -> Result<Self, &'static str> {
        let is_short = std::fs::metadata(path).map_err(|_| "key_not_readable")?.len() <= FILE_BYTES_MAX;
        let text =
            if is_short { std::fs::read_to_string(path).map_err(|_| "key_not_readable")? } else { String::new() };
        Self::of_digits(text.trim()).ok_or("no_key")
    }

    /// The key of these digits; `None` for other ones.
    #[must_use]
    pub fn of_digits(digits: &str) -> Option<Self> {
        let key = key_of(digits)?;
        UnboundKey::new(&AES_256_GCM, &key).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    /// The nonce, the sealed bytes and their tag. `None` only where the bytes are too long for the cipher.
    #[must_use]
    pub fn seal(&self, nonce: RowNonce, row: &[u8], mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        let sealed = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(sealed, Aad::from(row), &mut bytes).ok()?;
        Some([&nonce[..], &bytes].concat())
    }

    /// The bytes that were sealed for this row; `None` for all other bytes, and for those of another row or key.
    #[must_use]
    pub fn open(&self, row: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<12>()?;
        let mut bytes = sealed.to_vec();
        let length = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(row), &mut bytes).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}

fn key_of(digits: &str) -> Option<[u8; 32]> {
    if digits.len() != DIGITS {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_for_its_own_row_and_key_only_and_not_after_any_change() {
        let seal = Seal::of_digits(&"0f".repeat(32)).unwrap();
        let sealed = seal.seal([7; 12], b"row 1", b"secret".to_vec()).unwrap();
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        assert_eq!(seal.open(b"row 1", &sealed).as_deref(), Some(&b"secret"[..]));
        assert_eq!(seal.open(b"row 2", &sealed), None);
        assert_eq!(Seal::of_digits(&"0e".repeat(32)).unwrap().open(b"row 1", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(seal.open(b"row 1", &changed), None, "{at}");
            assert_eq!(seal.open(b"row 1", &sealed[..at]), None, "{at}");
        }
    }

    #[test]
    fn a_key_is_64_hexadecimal_digits_and_nothing_else() {
        assert!(key_of(&"aB".repeat(32)).is_some());
        for wrong in ["", &"a".repeat(63), &"a".repeat(65), &"g".repeat(64), &format!("+{}", "a".repeat(63))] {
            assert!(key_of(wrong).is_none(), "{wrong}");
        }
    }
}
