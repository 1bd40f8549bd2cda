//! From a job to a decision: its demands, the regions that it may go to, and its refusal.
//!
//! | the call brings | use |
//! |---|---|
//! | one job | [`plan`], which the dry run uses as well |
//! | several jobs that have to stay together | [`several`] |
//! | a body for one given region | [`bound`] |
//! | jobs whose type or tenant may be paused | [`paused`] |
//! | jobs that a quota may count | [`quota`] |
//! | the decision itself, by the view or by an answer of the hub | [`asked`] |
//!
//! `policy` decides; this room gives it the view, the turn and the job, and writes its refusals as error documents.

pub(crate) mod asked;
pub(crate) mod bound;
pub(crate) mod described;
pub(crate) mod paused;
pub(crate) mod plan;
pub(crate) mod quota;
mod refused;
pub(crate) mod several;
mod stopped;
mod tracking_id;
pub(crate) mod turn;
mod with_job;
