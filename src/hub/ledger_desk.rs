//! The ledger of one hub: its settings, the turn of its appends, and the trees of its open days.

use std::collections::BTreeMap;

use tokio::sync::Mutex;

use super::ledger_settings::LedgerSettings;
use crate::evidence::Tree;

/// The ledger of one hub.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) settings: LedgerSettings,
    /// Locked for a whole append, so that reports do not wait for each other's tries.
    pub(super) turn: Mutex<()>,
    /// The leaves of the open days, as far as they were signed or are about to be; by days since the Unix epoch.
    pub(super) trees: Mutex<BTreeMap<u64, Tree>>,
}

impl Ledger {
    pub(super) fn new(settings: LedgerSettings) -> Self {
        Self { settings, turn: Mutex::default(), trees: Mutex::default() }
    }
}
