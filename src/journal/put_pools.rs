//! The pools of workers that operators have put at the hub, as its feed has named them last; they hold over a restart without the hub.

use std::sync::Arc;

use super::Journal;
use super::change::Change;
use super::shared::Inner;
use crate::config::PutPool;

impl Journal {
    /// The pools; none before the hub, or the file, has named some.
    #[must_use]
    pub fn put_pools(&self) -> Arc<Vec<PutPool>> {
        self.inner.put_pools.lock().clone().unwrap_or_default()
    }

    /// Takes the pools that the hub names in place of all before; the file follows.
    pub fn set_put_pools(&self, pools: Vec<PutPool>) {
        let set = |changes: &mut Vec<Change>| {
            let mut known = self.inner.put_pools.lock();
            // A hub without pools is as one that has named none.
            if known.as_deref().is_some_and(|known| *known == pools) || (known.is_none() && pools.is_empty()) {
                *known = Some(Arc::new(pools));
                return false;
            }
            changes.push(Change::PutPools(pools.clone()));
            *known = Some(Arc::new(pools));
            true
        };
        if self.send(|_, changes| set(changes), None).0 {
            self.inner.pools_changed.notify_one();
        }
    }

    /// Resolves when the pools may have changed since the last call.
    pub async fn put_pools_changed(&self) {
        self.inner.pools_changed.notified().await;
    }
}

impl Inner {
    /// Takes the pools of a file into memory, unless the hub has named some since the start of the process.
    pub(super) fn take_put_pools(&self, change: &Change) {
        let Change::PutPools(pools) = change else { return };
        let mut known = self.put_pools.lock();
        if known.is_none() {
            *known = Some(Arc::new(pools.clone()));
            self.pools_changed.notify_one();
        }
    }
}
