//! Data that the steps of one decision share: its inputs, and the candidates as they are ranked.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::base::{Draw, Strategy};
use crate::policy::index::RegionIndex;
use crate::policy::job::Job;
use crate::policy::refusal::Refusal;
use crate::policy::view::{DrillNumbers, FigureKind, Live, View};

/// The inputs of a decision besides the view and the job.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The time.
    pub now: Instant,
    /// The source of everything random in this decision.
    pub draw: Draw,
    /// The position of `round-robin`: a number that grows by one with each decision that is
    /// [`super::Decision::by_turn`].
    pub turn: u64,
    /// The calls of this sidecar in progress.
    pub live: &'a dyn Live,
    /// The numbers by which a drill draws jobs.
    pub drill: &'a dyn DrillNumbers,
}

impl std::fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs").field("now", &self.now).field("turn", &self.turn).finish_non_exhaustive()
    }
}

/// Data that the steps of one decision share.
pub(super) struct Context<'a, 'j> {
    pub(super) view: &'a View,
    pub(super) job: &'a Job<'j>,
    /// The local region, or the home of the job's tenant.
    pub(super) local: RegionIndex,
    /// The usable region that a table names for the job.
    pub(super) hint: Option<RegionIndex>,
    pub(super) now: Instant,
    pub(super) draw: Draw,
    pub(super) turn: u64,
    pub(super) live: &'a dyn Live,
}

/// A candidate in the ranking.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) region: RegionIndex,
    pub(super) standing: Standing,
    /// Lower is better.
    pub(super) key: f64,
    /// Between equal keys, lower is better.
    pub(super) tie: f64,
    /// From 0 to 1, of the term that ranked.
    pub(super) score: f64,
    pub(super) reason: Reason,
    /// Its place by strategy, before `prefer_regions` orders the failover.
    pub(super) place: usize,
}

/// The course of a decision: candidates best first, then refusals. Filled in any case.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// The strategy that was asked for, where the job's attributes can be followed.
    pub(super) strategy: Option<Strategy>,
    pub(super) slots: SmallVec<[Slot; 8]>,
    pub(super) refused: SmallVec<[(RegionIndex, Refusal); 8]>,
}

impl Slot {
    pub(super) const fn new(region: RegionIndex, standing: Standing) -> Self {
        Self { region, standing, key: 0.0, tie: 0.0, score: 1.0, reason: Reason::Pinned, place: 0 }
    }
}

/// How good a candidate's word is; a better standing goes before any strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Known to be healthy.
    Sound,
    /// Healthy, asks for less, and this job was drawn to look elsewhere.
    Pressed,
    /// Healthy again, and this job was not drawn for the ramp.
    RampingUp,
    /// Healthy, and asked to be left alone for a time that is not over.
    Paused,
    /// Never probed.
    Unknown,
    /// It came and went too often.
    HeldDown,
    /// Nothing is heard from it: the last resort.
    Silent,
    /// Not usable, and tried all the same because no region is.
    LastGood,
}

/// The term that ranked a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reason {
    Pinned,
    Local,
    Preferred,
    Latency(Option<Duration>),
    Depth { depth: u64, kind: FigureKind },
    OwnTraffic { in_flight: u64 },
    Turn { after: usize },
    Weight { weight: f64 },
    NoShare,
    Order { place: usize },
    Hint,
    LastGood,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Pinned => f.write_str("pinned here"),
            Self::Local => f.write_str("local"),
            Self::Preferred => f.write_str("preferred for failover"),
            Self::Latency(None) => f.write_str("latency unknown"),
            Self::Latency(Some(latency)) => write!(f, "latency {:.1} ms", latency.as_secs_f64() * 1_000.0),
            Self::Depth { depth, kind: FigureKind::Queue } => write!(f, "{depth} jobs in the queue"),
            Self::Depth { depth, kind: FigureKind::Total } => write!(f, "{depth} jobs in the region"),
            Self::OwnTraffic { in_flight } => {
                write!(f, "no comparable load figures, {in_flight} of our calls in flight")
            }
            Self::Turn { after: 0 } => f.write_str("its turn"),
            Self::Turn { after } => write!(f, "its turn in {after}"),
            Self::Weight { weight } => write!(f, "drawn with weight {weight}"),
            Self::NoShare => f.write_str("no share in the job's weights"),
            Self::Order { place } => write!(f, "number {} of the fixed order", place + 1),
            Self::Hint => f.write_str("named by the geographic hint"),
            Self::LastGood => f.write_str("was well last"),
        }
    }
}
