//! The ground floor: identifiers, the names of strategies, the reasons of errors, time, randomness, and bounds with their reasons.
//!
//! Nothing here knows of jobs or configuration files, and of HTTP only the statuses of errors.

pub(crate) mod block;
mod ewma;
mod in_place;
mod moment;
mod queue_order;
mod reason;
mod region_id;
mod share;
mod shown_path;
mod strategy;
mod switch;
pub mod text;
mod words;

pub use ewma::Ewma;
pub(crate) use in_place::in_place;
pub use in_place::{Boxed, apart};
pub use moment::Moment;
pub use ojs_handles::{Clock, Draw, Sleep, SteeredTime, SystemTime, Time, instant_about};
pub use queue_order::QueueOrder;
pub use reason::{Code, Reason, RefusalReason};
pub use region_id::{RegionId, RegionIdError};
pub use share::Share;
pub use shown_path::shown_path;
pub use strategy::{Needs, Strategy, UnknownStrategy};
pub use switch::{SwitchKind, SwitchSubject};
pub(crate) use words::words;
