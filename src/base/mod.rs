//! The ground floor: identifiers, the names of strategies, time, randomness, and bounds with their reasons.
//!
//! Nothing here knows of HTTP, jobs or configuration files.

pub(crate) mod block;
mod clock;
mod draw;
mod ewma;
mod in_place;
mod region_id;
mod shown_path;
mod strategy;
pub mod text;

pub use clock::{Clock, Sleep, SteeredTime, SystemTime, Time, instant_about};
pub use draw::Draw;
pub use ewma::Ewma;
pub(crate) use in_place::in_place;
pub use in_place::{Boxed, apart};
pub use region_id::{RegionId, RegionIdError};
pub use shown_path::shown_path;
pub use strategy::{Strategy, UnknownStrategy};
