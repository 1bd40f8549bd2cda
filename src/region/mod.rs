//! Regions at run time: the state of each, and the control loops that update it.
//!
//! Plane: control, except for [`Registry::view`], [`Registry::on_request`] and [`Traffic`], which the data plane uses.

mod active_quotas;
mod ask;
mod ask_error;
mod beat_forms;
mod breakers;
pub mod discovery;
mod drills;
mod excluded_queues;
mod figure_questions;
mod first_answer;
mod identity;
mod kept;
mod lack;
mod load;
mod look;
pub mod names;
mod owners;
mod prober;
mod questions;
mod quotas;
#[expect(clippy::module_inception, reason = "the file holds the type that the folder is named after")]
mod region;
mod registry;
mod report;
mod rhythm;
mod traffic;
mod trouble;
pub mod views;
mod workers;

pub use active_quotas::ActiveQuotas;
pub use ask::{HealthAnswer, JobQuestion, ask, ask_available, ask_health, ask_job, ask_long, open_events};
pub use ask_error::AskError;
pub use beat_forms::BeatForms;
pub use breakers::{Breakers, FetchProbe, Held, Probe};
pub use drills::{DrilledJob, Drills};
pub use excluded_queues::ExcludedQueues;
pub use figure_questions::{FigureQuestions, FiguresAnswer};
pub use identity::{Identity, IdentityError};
pub use kept::{Kept, KeptJob, handed_out_until};
pub use load::LoadPoller;
pub use look::Looker;
pub use owners::Owners;
pub use prober::{OnReport, Prober};
pub use questions::{HubWord, RouteAsk, RouteQuestions};
pub use quotas::{NoToken, Quotas, TakenToken};
pub use region::{Counters, Reach, Region, SetupError};
pub use registry::Registry;
pub use report::ProbeReport;
pub use rhythm::{Rounds, tick};
pub use traffic::{KnownQueues, Mark, Queue, Traffic};
pub use trouble::{RequestFailure, Trouble};
pub use workers::{Fetching, Workers};
