//! Deciding, pure: which regions a job may be tried in, in which order, and what may follow each attempt.
//!
//! Nothing here reads a clock, draws a random number, opens a socket or writes a log line: time comes in as an
//! [`std::time::Instant`], randomness as a [`crate::base::Draw`], whose turn it is as a number. The same inputs give the
//! same decision, which is why a dry run ([`explain()`]) and a live call ([`route()`]) cannot disagree and a simulation can be
//! replayed from its seed.
//!
//! Two halves meet in the [`View`], one immutable snapshot of all regions:
//! - the state machines that the control plane drives through the [`Keeper`]: [`Breaker`], [`HealthTracker`], guards, hold-down,
//!   self-suspicion; and [`LoadFigures`];
//! - the decision that every request takes: `plan` (which strategy, which regions are permitted), `candidate` (who falls out
//!   and why), `strategy` (the order), `shortlist` (how far failover may go), then after each attempt [`next`].
//!
//! Invariants: a pinned job's decision holds no region outside its pin; candidates are unique and at most
//! `1 + max_redirects`; deciding allocates nothing for up to eight regions.

mod breaker;
mod budget;
mod budgets;
mod candidate;
mod concurrency;
mod error;
mod explain;
mod failover;
mod glob;
mod grounds;
mod guard;
mod health;
mod hold;
mod index;
mod jitter;
mod job;
mod keeper;
mod load;
mod lots;
mod orders;
mod outcome;
mod plan;
mod pressure;
mod ranking;
mod ratio;
mod refusal;
mod region_set;
mod retry;
mod route;
mod rules;
mod settings;
mod settle;
mod shortlist;
pub mod silence;
mod state;
mod strategy;
mod suspect;
#[cfg(test)]
pub(crate) mod testing;
mod together;
mod view;

pub use breaker::{Breaker, BreakerState, Cause, Permit, RequestOutcome, Transition};
pub use budget::{Pays, RetryBudget};
pub use budgets::{Budgets, Toward};
pub use concurrency::{Bounds, CallPermit, Concurrency, Limit, Shed};
pub use error::RouteError;
pub use explain::{Explanation, Scored, explain};
pub use failover::{Progress, Step, Stop, next};
pub use glob::Glob;
pub use grounds::{Fallen, Grounds, Origin};
pub use guard::{Attempt, ClassTotals, GuardClass, GuardState, Shown};
pub use health::{Health, HealthTracker};
pub use index::RegionIndex;
pub use jitter::jittered;
pub use job::Job;
pub use keeper::Keeper;
pub use load::{Figure, FigureKind, Live, LoadFigures, NoTraffic};
pub use outcome::{Answer, Ending, Outcome, classify_enqueue, effect, is_turned_away};
pub use plan::has_tags;
pub use pressure::Pressure;
pub use ranking::Inputs;
pub use refusal::Refusal;
pub use region_set::RegionSet;
pub use retry::{End, Repeat, TRIES_MAX, Then, Tries};
pub use route::{Decision, permits, route, route_on, route_within};
pub use settings::Settings;
pub use settle::settle;
pub use state::{Change, Probe, Totals};
pub use together::{Demand, Part, Together, together};
pub use view::{RegionView, View};
