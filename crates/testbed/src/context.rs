//! The state that all requests of one region share.

use std::time::Instant;

use ojs_handles::Clock;
use parking_lot::Mutex;

use super::at_once::AtOnce;
use super::dialect::DuplicateIds;
use super::envelope::Reading;
use super::faults::Faults;
use super::record::Record;
use super::store::Store;

/// A region, as the operations on it see it.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) id: String,
    pub(super) clock: Clock,
    pub(super) started: Instant,
    pub(super) store: Mutex<Store>,
    pub(super) record: Record,
    pub(super) faults: Faults,
    pub(super) at_once: AtOnce,
    pub(super) reading: Reading,
    /// The policy for taken ids that the manifest announces.
    pub(super) duplicate_ids: Option<DuplicateIds>,
    pub(super) body_bytes_max: usize,
    pub(super) streams_max: u32,
}
