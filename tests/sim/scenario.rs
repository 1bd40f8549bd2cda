//! What is simulated, and in which places the core may be broken to see that the ledger tells.

use crate::config::Knobs;
use crate::region::Fault;

/// A core that is broken in one place, to see that the ledger tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The pin is lost on the way to routing.
    LosesPins,
    /// Half-open sends whatever probe is due.
    ProbesFreely,
    /// Failover does not count.
    RedirectsFreely,
    /// The budget always pays.
    PaysFreely,
    /// A timeout is held for "nothing was sent".
    ResendsUnknown,
}

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub knobs: Knobs,
    pub sidecars: usize,
    pub seconds: u64,
    /// Jobs that each sidecar gets in a second.
    pub jobs_per_s: f64,
    pub pinned_percent: u64,
    /// Fetches of each sidecar in a second, from its own region.
    pub fetches_per_s: f64,
    /// All sidecars in region 0, or spread over all.
    pub one_home: bool,
    /// (second, region, what happens then).
    pub faults: Vec<(u64, usize, Fault)>,
    /// Jobs waiting in every region at the start, and what all workers together take in a second.
    pub backlog: u64,
    /// How far backlogs differ at the start, over the mean: 0.5 is half more or less.
    pub uneven: f64,
    pub drain_per_s: f64,
    /// Region 0 is cold after an outage; its usual load in jobs per second.
    pub cold: Option<f64>,
    pub sabotage: Option<Sabotage>,
    /// The least loaded region by stale figures, in place of the core's `overflow`.
    pub least_loaded: bool,
    /// Probes every ten seconds sharp, and no silence while a breaker is open.
    pub plain_probes: bool,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            knobs: Knobs::default(),
            sidecars: 10,
            seconds: 120,
            jobs_per_s: 1.0,
            pinned_percent: 0,
            fetches_per_s: 0.0,
            one_home: true,
            faults: Vec::new(),
            backlog: 0,
            uneven: 0.03,
            drain_per_s: 1e9,
            cold: None,
            sabotage: None,
            least_loaded: false,
            plain_probes: false,
        }
    }
}
