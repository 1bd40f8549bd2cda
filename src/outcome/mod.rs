//! The fate of a job as one pure machine: the fate of each copy, and the next action.
//!
//! A [`Placement`] is one job: the regions that it was sent to, their verdicts, and its client's answer. Events change
//! it ([`Placement::apply`]); [`call::next`] and [`background::next`] return the next action. The machine reads no
//! clock, opens no socket and writes no file: its callers bring the time and the answers, and carry the actions out.
//!
//! Invariants:
//! - a job leaves a region for another one only when it is absent there ([`Absence`]), or where the operator has chosen
//!   `failover.on_unknown: redirect`;
//! - an absence that was only judged by time is watched until no write can come any more;
//! - of several copies one stays: never is the last one cancelled, and a copy is cancelled only when another one was seen in the same
//!   round.

mod absence;
pub mod background;
pub mod call;
mod claim;
mod copy;
mod event;
mod hex;

mod placement;
mod remedy;
mod ruling;
#[cfg(test)]
mod tests;
mod told;
mod verdict;
mod word;

pub use crate::base::Moment;
pub use absence::{Rules, Trust};
pub use claim::KeyClaim;
pub use copy::{Absence, Copy, Fate, Lost, Place, Ruling};
pub use event::Event;
pub use hex::Digest;
pub use placement::{Identity, Placement, Settled, Settlement, ShownTo, State};
pub use told::Told;
pub use verdict::Verdict;
pub use word::{Progress, Word};
