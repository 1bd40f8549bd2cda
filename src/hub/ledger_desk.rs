//! The ledger of one hub: its settings, the turn of its appends, and the trees of its open days.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore};

use super::ledger_figures::LedgerFigures;
use super::ledger_settings::LedgerSettings;
use crate::evidence::Tree;

/// Consoles of operators are few.
const FEEDS_MAX: usize = 16;

/// The ledger of one hub.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) settings: LedgerSettings,
    /// Locked for a whole append, so that reports do not wait for each other's tries.
    pub(super) turn: Mutex<()>,
    /// The leaves of the open days, as far as they were signed or are about to be; by days since the Unix epoch.
    pub(super) trees: Mutex<BTreeMap<u64, Tree>>,
    /// The figures of the steps that this hub took.
    pub(super) figures: LedgerFigures,
    /// Places for open dashboard feeds.
    pub(super) feeds: Arc<Semaphore>,
}

impl Ledger {
    pub(super) fn new(settings: LedgerSettings) -> Self {
        let feeds = Arc::new(Semaphore::new(FEEDS_MAX));
        Self { settings, turn: Mutex::default(), trees: Mutex::default(), figures: LedgerFigures::default(), feeds }
    }
}
