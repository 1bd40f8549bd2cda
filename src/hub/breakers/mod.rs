//! Breakers of job types: jobs of a type and a tenant that fail too often are stopped, and an incident says so until one of them succeeds.
//!
//! - `run` follows the ends of jobs: it opens incidents, and moves them from their pause to their close.
//! - `feed` has the part of the open incidents that a sidecar gets.
//! - `errands` adds the rows of the audit trail and sends the messages; `webhook` has the connection.
//! - `requests` shows incidents and closes them.
//!
//! Hubs that share a record all do so; each change is made from a version of the incident, and one of them is first.

mod errands;
mod feed;
mod requests;
mod run;
mod webhook;

pub(super) use errands::run_errands;
pub(super) use feed::stopped_for;
pub(super) use requests::{close, list, show};
pub(super) use run::run;
