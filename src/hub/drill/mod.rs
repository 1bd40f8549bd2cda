//! A failover drill: a share of the flexible jobs of a region goes to others for a time, as if the region were lost.
//!
//! The drill is a row of the record; the feed carries it to the sidecars, which divert jobs and report their counts. `judge` decides when a drill is to end,
//! `run` asks it every second and keeps the counts, `requests` answers operators and sidecars. The last drill is in [`super::drill_desk`].

mod ending;
mod judge;
mod order;
mod requests;
mod run;

pub(super) use requests::{list, order, show, stop, take};
pub(super) use run::run;
