//! The ledger: each step of each job, with its sidecar and its worker. It is made of the reports of sidecars, rows are only added to it, and each
//! day of it is a log with signed heads.
//!
//! - [`row`] is a row of the history, [`job`] the job that rows give.
//! - [`take`] adds the rows of a report, each once, and [`own`] those of the hub itself.
//! - [`list`] and [`detail`] answer questions about jobs, [`filter`] picks those of an order, [`dashboard`] has figures for a console; [`export`] gives the rows of a day, [`outline`] the jobs of a bundle.
//! - [`heads`] signs the days; [`keep`] drops those whose time is over, and erases tenants.
//!
//! Spec: source-job-orchestrator §1, §2, §4, §6; RFC 9162 §2.1.

mod attempts;
mod dashboard;
mod detail;
mod digest;
mod end;
mod export;
mod filter;
mod heads;
mod job;
mod keep;
mod list;
mod outline;
mod own;
mod present;
mod row;
mod take;

pub(super) use dashboard::{count_depth, feed as dashboard_feed, metrics as dashboard};
pub(super) use detail::detail;
pub(super) use digest::payload_digests;
pub(super) use end::{ProbeState, state_of};
pub(super) use export::{days, history, withheld_job};
pub(super) use filter::{LedgerFilter, collect};
pub(super) use heads::{head, sign_days};
pub use job::Status as JobStatus;
pub(super) use keep::{forget, prune};
pub(super) use list::list;
pub use outline::Outline;
pub(super) use own::{NewJob, cancelled, replayed};
pub use row::{HistoryRow, day_text, read_day};
pub(super) use take::{observed, take};
