//! Promotion: the waiting jobs of a lost region are taken over by the region of this hub, from their replicas.
//!
//! A promotion is a row of the record, and so is each job that its plan is about, so that a hub which ends is followed by another one where
//! it was. `plan` decides about one job, `stage` has the steps of a promotion, `planning`, `moving` and `returning` carry them out, `run` gives
//! each promotion to one hub at a time, and `requests` answers operators. Spec: federation-spec §2.3, §5; RFC-0001 §6.

mod bytes;
mod closing;
mod moving;
mod plan;
mod planning;
mod requests;
mod returning;
mod run;
mod stage;

pub(super) use requests::{list, promote, show, stop};
pub(super) use run::run;
use stage::CLOSED_BY;
pub(super) use stage::{Promotion, Stage};
