//! The facts about a strategy that routing asks beside its order. Each file of this folder has one constant of them.

use super::super::ranking::{Context, Slot};

/// The rules of one strategy. There is no default: a new strategy answers every question.
#[derive(Debug)]
pub(in crate::policy::route) struct Rules {
    /// Puts candidates of equal standing in order, best first.
    ///
    /// Shape: the slots arrive in the configured order; those of a strategy that needs a table in the order of the
    /// fallback strategy.
    pub(super) rank: fn(&mut Context<'_, '_>, &mut [Slot]),
    /// The one region that the strategy means while all is well; a job that goes elsewhere fails over.
    pub(in crate::policy::route) home: Home,
    /// Whether a region at its `max_queue_depth` is no candidate.
    pub(in crate::policy::route) heeds_capacity: bool,
    /// The inputs of the order.
    pub(in crate::policy::route) varies_by: VariesBy,
}

/// The one region that a strategy means for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy::route) enum Home {
    /// The local region, or the home of the job's tenant.
    Local,
    /// The first region of `prefer_regions`, then of the configured order.
    First,
    /// No region before others, or one that the plan sets itself: that of a pin or of a hint.
    Unset,
}

/// The input by which the order of a strategy varies while the view stays the same.
///
/// An order that no job changes is computed once for each view (`settle`), not once for each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy::route) enum VariesBy {
    /// Nothing: all jobs have the same order.
    Nothing,
    /// A draw between regions of equal latency; all jobs have the same order where no latencies are equal.
    EqualLatencies,
    /// The turn, which the job then uses up. The regions are the configured ones, begun at the turn.
    Turn,
    /// A draw by the weights of the registry, unless the job has weights of its own.
    Weights,
    /// The job: its queue, its pin or its meta.
    Job,
}
