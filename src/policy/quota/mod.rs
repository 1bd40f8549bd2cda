//! Quotas: so many jobs of a tenant and a type may start in an hour, and so many at once.
//!
//! [`Holders`] divide a bound on the calls, places or active jobs of all sidecars among them.
//!
//! The hub counts in a [`Ledger`] and grants blocks of tokens; a sidecar has its block in a [`Purse`], from which a job takes a token without
//! a call. [`Quota`] is the order of an operator, [`QuotaTable`] finds that of a job.

mod holders;
mod ledger;
#[cfg(test)]
mod naive;
mod purse;
mod rate;
mod rule;
mod sums;
mod table;
#[cfg(test)]
mod tests;

pub use holders::{Ask, Holder, Holders, Share};
pub use ledger::{Block, BlockAsk, LATER_MAX, Ledger, QuotaRefused, QuotaUse, SpentLater};
pub use purse::{Later, Purse, PurseSeen, Token};
pub use rate::{Rate, SLOT_MS};
pub use rule::{ACTIVE_MAX, ANY, OnHubLoss, OverLimit, QUOTA_QUEUES_MAX, QUOTAS_MAX, Quota};
pub use table::{LiveQuota, QuotaTable};
