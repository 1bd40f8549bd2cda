//! Calls that create jobs.
//!
//! | call | use | goes to |
//! |---|---|---|
//! | `POST /ojs/v1/jobs` | [`enqueue`] | the candidates, one after the other |
//! | batches and bulk calls | [`batch`] | one region, or a part to each |
//! | workflows and cron jobs | [`define`] | whole to the region that they are bound to |
//! | a job made of another one (retry, fork, replay) | [`create`] | the region of the other job |
//!
//! [`replay`] recognises a repeated enqueue before anything is sent, and [`repeated`] a job that another region has already. The
//! room `placement` carries out the steps after a lost answer.

pub(crate) mod batch;
pub(crate) mod create;
pub(crate) mod define;
pub(crate) mod drain;
mod drilled;
pub(crate) mod enqueue;
mod long;
mod onward;
mod outage;
mod repeated;
pub(crate) mod replay;
mod replicate;
