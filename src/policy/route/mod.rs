//! The decision that every request takes: which regions a job may be tried in, in which order, and why.
//!
//! `plan` says where a job may go and by which strategy; `candidate` admits or refuses each region; `strategy` ranks; `shortlist`
//! says how far failover may go; `reach` says where a job may go in any state of the regions. `decide` is the control flow over them, for live calls and for the dry run alike; `drill` takes
//! it a second time without a region where a drill is on.

mod answer;
mod answered;
mod candidate;
mod decide;
mod drill;
mod drill_part;
mod exact;
mod explain;
mod grounds;
mod plan;
mod question;
mod ranking;
mod reach;
mod settle;
mod shortlist;
mod strategy;
mod together;

pub use answer::{ANSWER_BYTES_MAX, RouteAnswer, answer};
pub use answered::{Answered, explain_answered, route_answered};
pub use candidate::RETRY_HUB;
pub use decide::{Decision, permits, route_within};
pub use drill::{explain, route, route_on};
pub use drill_part::{DrillKept, DrillPart, Drilled};
pub use explain::{Explanation, Scored};
pub use grounds::{DecidedBy, Fallen, Grounds, Origin};
pub use plan::{has_tags, ledger_by_rule, ledger_of_rule};
pub use question::{QUESTION_BYTES_MAX, RouteQuestion};
pub use ranking::Inputs;
pub use reach::{PermittedRegions, permitted_regions};
pub use settle::settle;
pub use strategy::means_local;
pub use together::{Demand, Part, Together, together};
