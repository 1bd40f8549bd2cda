//! The composite cursor: how far each region's list was read.
//!
//! It carries everything itself, so that it means the same after a restart, in another sidecar and after a reload:
//! regions are named by their ids, and one that is no longer registered is passed over. A checksum detects a damaged
//! cursor, and one of another list; it is no secret. A forged cursor can only change the value of one query parameter
//! of the same list, which the client could have sent to the region anyway.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use crate::base::RegionId;

const VERSION: u8 = 1;

/// As much as 256 regions need, the most that a registry holds. Units: bytes of the encoded text.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// A cursor that cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is damaged, or belongs to another list or to one region alone")]
pub struct BadCursor;

/// How far one region's list was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    /// Not at all.
    #[default]
    Start,
    /// So many items.
    Offset(u64),
    /// Up to the region's own cursor.
    Cursor(String),
    /// To its end.
    End,
}

/// One region's part of a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leg {
    /// How far it was read.
    pub place: Place,
    /// How many items it said to have.
    pub total: Option<u64>,
    /// Whether something else has read the list to its end in place of the region.
    pub by_replica: bool,
}

/// How far each region's list was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor(BTreeMap<RegionId, Leg>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u8,
    r: BTreeMap<String, WireLeg>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireLeg {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    c: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    o: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    e: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    i: bool,
}

impl Cursor {
    /// One region's part; the start where it has none.
    #[must_use]
    pub fn leg(&self, region: &RegionId) -> Leg {
        self.0.get(region).cloned().unwrap_or_default()
    }

    /// Says how far a region's list was read.
    pub fn set(&mut self, region: RegionId, leg: Leg) {
        if leg == Leg::default() {
            self.0.remove(&region);
        } else {
            self.0.insert(region, leg);
        }
    }

    /// As text for a URL. `list` is the path of the list that it belongs to.
    #[must_use]
    pub fn encode(&self, list: &str) -> String {
        let legs = self.0.iter().map(|(region, leg)| (region.as_str().to_owned(), WireLeg::of(leg)));
        let wire = Wire { v: VERSION, r: legs.collect() };
        // Text and numbers always serialise; an empty payload would be refused when it comes back.
        let payload = serde_json::to_vec(&wire).unwrap_or_default();
        let mut bytes = checksum(list, &payload).to_be_bytes().to_vec();
        bytes.extend_from_slice(&payload);
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// Reads the output of [`Cursor::encode`].
    ///
    /// Errors: [`BadCursor`].
    pub fn decode(text: &str, list: &str) -> Result<Self, BadCursor> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(BadCursor);
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| BadCursor)?;
        let (sum, payload) = bytes.split_first_chunk::<4>().ok_or(BadCursor)?;
        if u32::from_be_bytes(*sum) != checksum(list, payload) {
            return Err(BadCursor);
        }
        let wire: Wire = serde_json::from_slice(payload).map_err(|_| BadCursor)?;
        if wire.v != VERSION {
            return Err(BadCursor);
        }
        let legs = wire.r.into_iter().map(|(id, leg)| Ok((RegionId::parse(&id).map_err(|_| BadCursor)?, leg.read()?)));
        Ok(Self(legs.collect::<Result<_, BadCursor>>()?))
    }
}

impl WireLeg {
    fn of(leg: &Leg) -> Self {
        let wire = Self { t: leg.total, i: leg.by_replica, ..Self::default() };
        match &leg.place {
            Place::Start => wire,
            Place::Offset(offset) => Self { o: Some(*offset), ..wire },
            Place::Cursor(cursor) => Self { c: Some(cursor.clone()), ..wire },
            Place::End => Self { e: true, ..wire },
        }
    }

    fn read(self) -> Result<Leg, BadCursor> {
        let place = match (self.c, self.o, self.e) {
            (None, None, false) => Place::Start,
            (Some(cursor), None, false) => Place::Cursor(cursor),
            (None, Some(offset), false) => Place::Offset(offset),
            (None, None, true) => Place::End,
            _ => return Err(BadCursor),
        };
        Ok(Leg { place, total: self.t, by_replica: self.i })
    }
}

/// FNV-1a: enough to detect an accident, and a cursor of another list.
fn checksum(list: &str, payload: &[u8]) -> u32 {
    let bytes = list.as_bytes().iter().chain(&[0]).chain(payload);
    bytes.fold(0x811C_9DC5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIST: &str = "/ojs/v1/jobs";

    fn cursor() -> Cursor {
        let mut cursor = Cursor::default();
        let mut set = |id: &str, place: Place, total| {
            cursor.set(RegionId::parse(id).unwrap(), Leg { place, total, by_replica: id == "f" });
        };
        set("f", Place::End, None);
        set("a", Place::End, Some(7));
        set("b", Place::Cursor("o\"paque/+ \u{1}é".to_owned()), None);
        set("c", Place::Offset(u64::MAX), Some(0));
        set("d", Place::Start, Some(3));
        set("e", Place::Start, None);
        cursor
    }

    #[test]
    fn it_comes_back_as_it_was_and_fits_a_url() {
        let text = cursor().encode(LIST);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text}");
        assert_eq!(Cursor::decode(&text, LIST), Ok(cursor()));
        assert_eq!(cursor().leg(&RegionId::parse("zzz").unwrap()), Leg::default());
    }

    #[test]
    fn it_belongs_to_one_list_and_is_ours_only() {
        let text = cursor().encode(LIST);
        assert_eq!(Cursor::decode(&text, "/ojs/v1/dead-letter"), Err(BadCursor));
        for text in ["", "AAAA", "not a cursor", "eyJ2IjoxfQ", &"A".repeat(TEXT_BYTES_MAX + 1)] {
            assert_eq!(Cursor::decode(text, LIST), Err(BadCursor), "{text}");
        }
        for payload in [
            r#"{"v":2,"r":{}}"#,
            r#"{"v":1,"r":{"A B":{}}}"#,
            r#"{"v":1,"r":{"a":{"c":"x","o":1}}}"#,
            r#"{"v":1,"r":{"a":{"x":1}}}"#,
            r#"{"v":1}"#,
        ] {
            let mut bytes = checksum(LIST, payload.as_bytes()).to_be_bytes().to_vec();
            bytes.extend_from_slice(payload.as_bytes());
            assert_eq!(Cursor::decode(&BASE64URL_NOPAD.encode(&bytes), LIST), Err(BadCursor), "{payload}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_noticed(place in 0_usize..1000, letter in "[A-Za-z0-9_-]") {
            let text = cursor().encode(LIST);
            let place = place % text.len();
            let damaged = format!("{}{letter}{}", &text[..place], &text[place + 1..]);
            prop_assert!(damaged == text || Cursor::decode(&damaged, LIST).is_err());
            prop_assert!(Cursor::decode(&text[..place], LIST).is_err());
        }

        #[test]
        fn nothing_panics(text in ".{0,200}") {
            let _ = Cursor::decode(&text, LIST);
        }
    }
}
