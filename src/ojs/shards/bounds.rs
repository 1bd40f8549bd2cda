//! The bounds of shards and of their names.

/// The most shards of a queue. Each is a name in every FETCH.
pub const SHARDS_MAX: usize = 64;
/// The most bands of priorities.
pub const BANDS_MAX: usize = 4;
/// The longest name of a queue that servers take. Units: bytes.
pub(super) const QUEUE_BYTES_MAX: usize = 128;
/// The beginning of every suffix; servers take no other marks than `-` and `.` in the name of a queue.
pub(super) const MARK: &str = ".ojs-";
/// The longest suffix, `.ojs-p3-t63`. Units: bytes.
pub const SUFFIX_BYTES_MAX: usize = MARK.len() + 6;
/// The part of a suffix that names a band, `p3-`; the first band has none. Units: bytes.
pub(super) const BAND_BYTES: usize = 3;
