//! The operator's view: counters, log lines, and events, which are both.
//!
//! Invariants: label values come from closed sets or are region ids, never from a request; a counter is found by its place in
//! an array, never by a string, while a request waits; and no job argument, meta value, token, body or query string reaches
//! this folder.

mod access;

pub mod event;
mod log;
pub mod metrics;
mod process_counts;
mod ration;
pub(crate) mod span;

pub use access::{AccessEvent, AccessJob};
pub use log::{LogError, LogHandle, init, install_panic_hook};
pub use metrics::{
    AttemptOutcome, Breaker, CertificateKind, ConnectResult, Counter, DiscoveryChange, DiscoveryLook,
    DiscoveryRejection, DiscoverySource, DiscoveryState, DrillJob, DrillMetrics, FailoverReason, Gauge, HeadRejection,
    Held, Histogram, HubKey, HubQuestion, IntGauge, JournalEviction, JournalWrite, KeptJob, LookupResult, Metrics,
    OpenFate, PoolState, ProbeResult, RegionMetrics, ReloadKind, ReloadResult, RemoteFetch, RepeatedId, ReplayBy,
    Resolution, Scope, SlotLack, SpoolFate, SpoolResult, StatusClass,
};
pub use process_counts::{dropped_lines, panics};
pub use ration::{Kind as LineKind, Ration, Rations};
