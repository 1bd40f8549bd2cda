//! State that the journal's thread shares with the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::clock::JournalClock;
use super::decision::Decisions;
use super::keys::Keys;
use super::leases::Leases;
use super::record::Secret;
use super::table::Table;
use crate::base::Clock;
use crate::config::PutPool;
use crate::policy::Quota;
use crate::switch::{HubState, Switches};
use crate::telemetry::Metrics;

/// Changes that wait for the disk; beyond that, the whole table is written once there is room.
pub(super) const QUEUE_MAX: usize = 1_024;

/// State that the thread shares with the others.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) table: Mutex<Table>,
    pub(super) leases: Mutex<Leases>,
    /// Those that were set here.
    pub(super) switches: Mutex<Switches>,
    /// The last state of the hub.
    pub(super) hub: Mutex<HubState>,
    /// The pools of workers that were put at the hub; none before the hub, or the file, has named any.
    pub(super) put_pools: Mutex<Option<Arc<Vec<PutPool>>>>,
    /// Notified when these have changed.
    pub(super) pools_changed: Notify,
    /// The quotas that were put at the hub; none before the hub, or the file, has named any.
    pub(super) quotas: Mutex<Option<Arc<Vec<Quota>>>>,
    /// Whether that hub is followed.
    pub(super) follows_hub: AtomicBool,
    /// With which callers are fingerprinted; the file's, once it is read.
    pub(super) secret: Mutex<Secret>,
    pub(super) time: JournalClock,
    pub(super) opened_unix_ms: u64,
    /// Whether a change did not reach the thread.
    pub(super) missed: AtomicBool,
    pub(super) durable: AtomicBool,
    /// When the last line about a full journal was logged: a [`Moment`], or 0.
    pub(super) told_evicted_ms: AtomicU64,
    pub(super) changed: Notify,
    /// Whether switches or quotas have come or gone.
    pub(super) switched: Notify,
    pub(super) decisions: Arc<Decisions>,
    pub(super) keys: Keys,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
}
