//! The quotas that operators have put at the hub, as its feed has named them last; they hold over a restart without the hub.

use std::sync::Arc;

use super::Journal;
use super::change::Change;
use super::shared::Inner;
use crate::policy::Quota;

impl Journal {
    /// The quotas; none before the hub, or the file, has named some.
    #[must_use]
    pub fn quotas(&self) -> Arc<Vec<Quota>> {
        self.inner.quotas.lock().clone().unwrap_or_default()
    }

    /// Takes the quotas that the hub names in place of all before; the file follows.
    pub fn set_quotas(&self, quotas: Vec<Quota>) {
        let set = |changes: &mut Vec<Change>| {
            let mut known = self.inner.quotas.lock();
            let is_same = known.as_deref().map_or(quotas.is_empty(), |known| *known == quotas);
            if !is_same {
                changes.push(Change::Quotas(quotas.clone()));
            }
            *known = Some(Arc::new(quotas));
            !is_same
        };
        if self.send(|_, changes| set(changes), None).0 {
            self.inner.switched.notify_one();
        }
    }
}

impl Inner {
    /// Takes the quotas of a file into memory, unless the hub has named some since the start of the process.
    pub(super) fn take_quotas(&self, change: &Change) {
        let Change::Quotas(quotas) = change else { return };
        let mut known = self.quotas.lock();
        if known.is_none() {
            *known = Some(Arc::new(quotas.clone()));
            self.switched.notify_one();
        }
    }
}
