//! An unknown outcome that a call is still busy with.

use std::sync::Arc;

use super::{Journal, Unknown};

/// Keeps the background from an unknown outcome until the call is done with it. Dropped, it lets go.
#[derive(Debug)]
pub struct Hold {
    store: Arc<Journal>,
    number: u64,
}

impl Hold {
    pub(super) const fn new(store: Arc<Journal>, number: u64) -> Self {
        Self { store, number }
    }

    /// As [`Journal::change_durably`].
    pub async fn change_durably(&self, change: impl FnOnce(&mut Unknown)) {
        self.store.change_durably(self.number, change).await;
    }

    /// As [`Journal::change`].
    pub fn change(&self, change: impl FnOnce(&mut Unknown)) {
        self.store.change(self.number, change);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.store.release(self.number);
    }
}
