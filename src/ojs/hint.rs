//! A hint of the region in the ids that we mint.
//!
//! The last two bytes of such a UUIDv7 hold a short hash of the region's id and a check over the rest, so that a sidecar which
//! has never heard of a job asks the likely region first. It stays a hint: another generator's id fits by chance, once in 256
//! times, and then costs one question more. 58 bits beside the time stay random.

use super::uuid7::{Uuid7, Uuid7Text};

const TAG: usize = 14;
const CHECK: usize = 15;

/// The same id with the hint of a region.
#[must_use]
pub fn give(id: Uuid7, region: &str) -> Uuid7 {
    let mut bytes = id.0.into_bytes();
    bytes[TAG] = fold(region.as_bytes());
    bytes[CHECK] = check(&bytes);
    Uuid7(uuid::Uuid::from_bytes(bytes))
}

/// An id that carries a hint, with the hint of another region; any other text stays as it is.
#[must_use]
pub fn give_text(id: &str, region: &str) -> String {
    let Ok(uuid) = uuid::Uuid::try_parse(id) else { return id.to_owned() };
    Uuid7Text::of(give(Uuid7(uuid), region).0).to_string()
}

/// Whether an id carries the hint of this region.
#[must_use]
pub fn names(id: &str, region: &str) -> bool {
    let Some(uuid) = (id.len() == 36).then(|| uuid::Uuid::try_parse(id).ok()).flatten() else { return false };
    let bytes = uuid.as_bytes();
    uuid.get_version_num() == 7 && bytes[CHECK] == check(bytes) && bytes[TAG] == fold(region.as_bytes())
}

fn check(bytes: &[u8; 16]) -> u8 {
    fold(bytes.split_at(CHECK).0)
}

/// FNV-1a folded into a byte: the same in every process and version.
fn fold(bytes: &[u8]) -> u8 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash.to_le_bytes().into_iter().fold(0, |folded, byte| folded ^ byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: Uuid7) -> Uuid7Text {
        Uuid7Text::of(id.0)
    }

    #[test]
    fn a_hinted_id_is_a_uuid7_of_the_same_time_and_names_its_region_only() {
        for seed in 0..=255 {
            let plain = Uuid7::new(0x0191_2e4a_7b3c, [seed; 10]);
            let (id, plain) = (text(give(plain, "eu-west-1")), text(plain));
            assert!(id.starts_with("01912e4a-7b3c-7"), "{id}");
            assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{id}");
            assert_eq!(plain[..32], id[..32]);
            assert!(names(&id, "eu-west-1") && !names(&id, "us-east-1"));
        }
    }

    #[test]
    fn the_hint_is_the_same_in_every_version() {
        let id = give(Uuid7::new(1, [0; 10]), "us-east-1");
        assert_eq!(&*text(id), "00000000-0001-7000-8000-00000000949c");
    }

    #[test]
    fn foreign_ids_rarely_fit_and_odd_ones_never() {
        let fits = |time: u64| names(&text(Uuid7::new(time, [7; 10])), "us-east-1");
        assert!((0..100_000).filter(|time| fits(*time)).count() < 10);
        for id in ["", "job-1", "{01912e4a-7b3c-7fff-bfff-ffffffffffff}", "urn:uuid:01912e4a-7b3c-7fff-bfff-fff"] {
            assert!(!names(id, "us-east-1"), "{id}");
        }
    }
}
