//! The index of jobs of one hub: its settings, and how far it is behind others.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::index_settings::{BoundField, IndexSettings};
use super::lag::Lag;
use crate::base::RegionId;
use crate::replica::Change;

/// The index of one hub.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) settings: IndexSettings,
    /// How many facts the record has, as of a minute ago at most.
    pub(super) facts: Cell<u64>,
    /// How far behind this hub is, by the region of the source.
    pub(super) sources: RefCell<BTreeMap<RegionId, Lag>>,
}

impl Index {
    pub(super) fn new(settings: IndexSettings) -> Self {
        Self { settings, facts: Cell::new(0), sources: RefCell::default() }
    }

    /// A fact as other hubs get it: of a job that is bound to some regions only the members that the operator lets leave.
    pub(super) fn shown(&self, mut change: Change) -> Change {
        if let Some(job) = change.job.as_mut().filter(|job| job.bound) {
            let leaves = |field| self.settings.bound_fields.contains(&field);
            job.job_type = job.job_type.take().filter(|_| leaves(BoundField::Type));
            job.queue = job.queue.take().filter(|_| leaves(BoundField::Queue));
            job.tenant = job.tenant.take().filter(|_| leaves(BoundField::Tenant));
        }
        change
    }
}
