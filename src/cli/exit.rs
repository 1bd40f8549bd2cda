//! The codes that every command ends with.

/// Everything went well.
pub(super) const DONE: u8 = 0;
/// It failed: a port that is taken, a region that does not answer, a tour that broke off.
pub(super) const FAILED: u8 = 1;
/// The configuration is wrong, as `sysexits.h` numbers it.
pub(super) const BAD_CONFIG: u8 = 78;
