//! Fingerprints as text, for documents that people read.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

/// A fingerprint, so that neither key, nor caller, nor body is kept.
pub type Digest = [u8; 32];

pub(super) fn serialize<'d, S: Serializer>(digest: impl Into<Option<&'d Digest>>, to: S) -> Result<S::Ok, S::Error> {
    digest.into().map(text).serialize(to)
}

fn text(digest: &Digest) -> String {
    digest
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
    deserialize_any(from)?.ok_or_else(|| D::Error::custom("a fingerprint is missing"))
}

pub(super) fn deserialize_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Digest>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    digest(&text).map(Some).ok_or_else(|| D::Error::custom("not a fingerprint"))
}

fn digest(text: &str) -> Option<Digest> {
    let mut digits = text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()));
    let mut digest = Digest::default();
    for byte in &mut digest {
        *byte = (digits.next()?? << 4) | digits.next()??;
    }
    digits.next().is_none().then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_its_own_text_and_nothing_else_is_read_as_one() {
        let one: Digest = std::array::from_fn(|at| u8::try_from(at * 8).unwrap());
        let shown = text(&one);
        assert_eq!((shown.get(..10), shown.len()), (Some("0008101820"), 64));
        assert_eq!(digest(&shown), Some(one));
        for wrong in ["", &shown[1..], &format!("{shown}0"), &shown.replace('8', "g")] {
            assert_eq!(digest(wrong), None, "{wrong}");
        }
    }
}
