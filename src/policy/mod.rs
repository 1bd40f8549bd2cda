//! Deciding, pure: which regions a job may be tried in, in which order, and what may follow each attempt.
//!
//! Nothing here reads a clock, draws a random number, opens a socket or writes a log line: time comes in as an
//! [`std::time::Instant`], randomness as a [`crate::base::Draw`], whose turn it is as a number. The same inputs give the
//! same decision, which is why a dry run ([`explain()`]) and a live call ([`route()`]) cannot disagree and a simulation can be
//! replayed from its seed.
//!
//! Two halves meet in the [`View`], one immutable snapshot of all regions:
//! - the state machines that the control plane drives: [`Breaker`], [`HealthTracker`], [`LoadFigures`];
//! - the decision that every request takes: `plan` (which strategy, which regions are permitted), `candidate` (who falls out
//!   and why), `strategy` (the order), `shortlist` (how far failover may go), then after each attempt [`next`].
//!
//! Invariants: a pinned job's decision holds no region outside its pin; candidates are unique and at most
//! `1 + max_redirects`; deciding allocates nothing for up to eight regions.

mod breaker;
mod budget;
mod candidate;
mod error;
mod explain;
mod failover;
mod glob;
mod health;
mod job;
mod load;
mod outcome;
mod plan;
mod ratio;
mod region_set;
pub mod resolve;
mod retry;
mod route;
mod rules;
mod settings;
mod shortlist;
mod strategy;
#[cfg(test)]
mod testing;
mod together;
mod view;

pub use breaker::{Breaker, BreakerState, Cause, Permit, RequestOutcome, Transition};
pub use budget::RetryBudget;
pub use candidate::Refusal;
pub use error::RouteError;
pub use explain::{Explanation, Scored, explain};
pub use failover::{Progress, Step, Stop, next};
pub use glob::Glob;
pub use health::{Health, HealthTracker};
pub use job::Job;
pub use load::{Figure, FigureKind, Live, LoadFigures, NoTraffic};
pub use outcome::{Answer, Ending, Outcome, classify_enqueue, effect};
pub use region_set::RegionSet;
pub use retry::{End, Repeat, TRIES_MAX, Then, Tries};
pub use route::{Decision, Inputs, permits, route, route_within};
pub use settings::Settings;
pub use together::{Demand, Part, Together, together};
pub use view::{RegionIndex, RegionView, View};
