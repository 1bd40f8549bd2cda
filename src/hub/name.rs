//! Names that nothing else has.

use aws_lc_rs::rand;
use data_encoding::HEXLOWER;

/// A name that nothing else has: 64 random bits.
#[expect(clippy::expect_used, reason = "a machine without random bytes could not open a TLS connection either")]
pub(super) fn random_name() -> String {
    let mut name = [0; 8];
    rand::fill(&mut name).expect("the machine has random bytes");
    HEXLOWER.encode(&name)
}
