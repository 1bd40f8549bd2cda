//! Deciding, pure: the regions in which a job may be tried, their order, and the step after each attempt.
//!
//! Nothing here reads a clock, draws a random number, opens a socket or writes a log line: time comes in as an
//! [`std::time::Instant`], randomness as a [`crate::base::Draw`], the turn of `round-robin` as a number. The same
//! inputs give the same decision, so that a dry run ([`explain()`]) and a live call ([`route()`]) cannot disagree and a
//! simulation can be replayed from its seed.
//!
//! Two halves meet in the [`View`], one immutable snapshot of all regions:
//! - the state machines that the control plane drives through the [`Keeper`]: [`Breaker`], [`HealthTracker`], guards, hold-down,
//!   self-suspicion; and [`LoadFigures`];
//! - the decision that every request takes: `plan` (the strategy and the permitted regions), `candidate` (refusals),
//!   `strategy` (the order), `shortlist` (how far failover may go), then after each attempt [`next`].
//!
//! Beside regions, `schedule` decides about queues: which one a FETCH asks first.
//!
//! Rooms: `machine` (state machines of a region), `view` (the snapshot and the compiled settings), `route` (the
//! decision), `attempt` (the step after an attempt), `keeper` (the driver of the machines), `quota` (tokens of quotas), `type_breaker` (breakers of job types). All rooms share the files
//! beside this one. `ARCHITECTURE.md` has the allowed imports between rooms.
//!
//! Invariants: a pinned job's decision holds no region outside its pin; candidates are unique and at most
//! `1 + max_redirects`; deciding allocates nothing for up to eight regions.

mod attempt;
mod error;
mod glob;
mod index;
mod jitter;
mod job;
mod keeper;
mod machine;
mod quota;
mod refusal;
mod region_set;
mod route;
mod schedule;
#[cfg(test)]
pub(crate) mod testing;
mod type_breaker;
mod view;

pub use attempt::{
    Answer, Bounds, Budgets, CallPermit, CallsSeen, Concurrency, End, Ending, Grant, Limit, Outcome, Pays, Progress,
    Repeat, RetryBudget, Shed, Step, Stop, TRIES_MAX, Then, Throttle, Toward, Tries, classify_enqueue, effect,
    is_turned_away, next,
};
pub use error::RouteError;
pub use glob::Glob;
pub use index::RegionIndex;
pub use jitter::jittered;
pub use job::Job;
pub use keeper::{Change, Keeper, Probe, Totals};
pub use machine::{
    Attempt, Breaker, BreakerState, Cause, ClassTotals, GuardClass, GuardState, Health, HealthTracker, Permit,
    Pressure, RequestOutcome, Shown, Transition, silence,
};
pub use quota::{
    ACTIVE_MAX, ANY, Ask as LimitAsk, Block, BlockAsk, Holder as LimitHolder, Holders as LimitHolders, LATER_MAX,
    Later, Ledger, LiveQuota, OnHubLoss, OverLimit, Purse, PurseSeen, QUOTA_QUEUES_MAX, QUOTAS_MAX, Quota,
    QuotaRefused, QuotaTable, QuotaUse, Rate, SLOT_MS, Share as LimitShare, SpentLater, Token,
};
pub use refusal::Refusal;
pub use region_set::RegionSet;
pub use route::{
    ANSWER_BYTES_MAX, Answered, DecidedBy, Decision, Demand, DrillKept, DrillPart, Drilled, Explanation, Fallen,
    Grounds, Inputs, Origin, Part, PermittedRegions, QUESTION_BYTES_MAX, RETRY_HUB, RouteAnswer, RouteQuestion, Scored,
    Together, answer, explain, explain_answered, has_tags, ledger_by_rule, ledger_of_rule, means_local, permits,
    permitted_regions, route, route_answered, route_on, route_within, settle, together,
};
pub use schedule::{
    ActiveQuota, ActiveTable, Asker as QueueAsker, Call as QueueCall, Depth as QueueDepth, Dispatched,
    End as QueueCallEnd, Figures, FiguresSum, FleetFigures, Lists as QueueLists, NoSlot, Pool, PoolError, PoolFigures,
    PoolGrant, PoolNumber, PoolSeen, Pools, QueueFigures, Rules as QueueRules, ShardTurns, ShownList, Slots, Starving,
    Tally, Turns as QueueTurns,
};
pub use type_breaker::{BreakerTerms, Course, EndCounts, Phase, ProbeJob, StoppedType, Trial};
pub use view::{
    Drill, DrillNumbers, Figure, FigureKind, Live, LoadFigures, NoTraffic, Paused, Pauses, RegionView, Settings,
    TENANT_KEY, View,
};
