//! Reads and administration: calls for one region that has to be found, or for all of them.
//!
//! | call | use | regions |
//! |---|---|---|
//! | about one job | [`owned`] | the one that holds the job |
//! | about one cron job or workflow | [`named`] | the one where it lives |
//! | about one worker | [`worker`] | those that know the worker |
//! | about several jobs by their ids | [`by_ids`] | each gets the ids of its jobs |
//! | lists | [`list`] | one after the other, page by page |
//! | figures | [`sum`] | all, added up |
//! | definitions that all regions share | [`alike`] | written to all, read in one |
//! | event streams | [`streams`] | that of the job or the local one |
//! | pools of workers, where they are configured | [`scheduling`] | none |
//! | the manifest, the health | [`manifest`], [`health`] | all; none |
//!
//! [`residency`] judges every answer that shows a job where `residency.read` restricts reads.

pub(crate) mod alike;
pub(crate) mod by_ids;
pub(crate) mod health;
pub(crate) mod list;
pub(crate) mod manifest;
pub(crate) mod named;
pub(crate) mod owned;
pub(crate) mod residency;
pub(crate) mod scheduling;
pub(crate) mod streams;
pub(crate) mod sum;
pub(crate) mod worker;
