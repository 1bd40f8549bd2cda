//! Names that nothing else has.

use aws_lc_rs::rand;
use data_encoding::HEXLOWER;

use crate::ojs::federation_id;

/// A UUIDv7 of a time: the id or the tracking id of a new job. Units: milliseconds since the Unix epoch.
#[expect(clippy::expect_used, reason = "a machine without random bytes could not open a TLS connection either")]
pub(super) fn random_uuid7(unix_ms: u64) -> String {
    let mut bits = [0; 10];
    rand::fill(&mut bits).expect("the machine has random bytes");
    federation_id(unix_ms, bits).to_string()
}

/// 128 random bits, in hex, which let the hash of a text say nothing about it.
#[expect(clippy::expect_used, reason = "a machine without random bytes could not open a TLS connection either")]
pub(super) fn random_salt() -> String {
    let mut salt = [0; 16];
    rand::fill(&mut salt).expect("the machine has random bytes");
    HEXLOWER.encode(&salt)
}

/// A name that nothing else has: 64 random bits.
#[expect(clippy::expect_used, reason = "a machine without random bytes could not open a TLS connection either")]
pub(super) fn random_name() -> String {
    let mut name = [0; 8];
    rand::fill(&mut name).expect("the machine has random bytes");
    HEXLOWER.encode(&name)
}
