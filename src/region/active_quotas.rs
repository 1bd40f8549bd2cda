//! The quotas in force that bound the jobs which are active at once. Without one a FETCH pays for one load and a branch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwap;

use crate::policy::{ActiveTable, Quota};

/// Those of a process; their slots stay over a reload of the configuration.
#[derive(Debug, Default)]
pub struct ActiveQuotas {
    is_on: AtomicBool,
    table: ArcSwap<ActiveTable>,
}

impl ActiveQuotas {
    /// Whether there are any. One load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Puts quotas in force in place of all before. Returns whether others bound active jobs now.
    pub(super) fn set(&self, quotas: &[Quota]) -> bool {
        let before = self.table.load();
        let bounding = || quotas.iter().filter(|it| it.max_active.is_some());
        if before.iter().map(|it| &it.quota).eq(bounding()) {
            return false;
        }
        self.table.store(Arc::new(ActiveTable::new(quotas, &before)));
        self.is_on.store(bounding().next().is_some(), Relaxed);
        true
    }

    /// Those in force.
    pub fn table(&self) -> Arc<ActiveTable> {
        self.table.load_full()
    }
}
